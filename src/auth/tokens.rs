//! The table of entries, and when they were used last.

use std::{
    collections::{BTreeMap, HashMap, hash_map::Entry},
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering},
    },
};

use super::{
    caller::Refusal,
    certificate::{CertificateName, ClientCertificate},
    hash::TokenHash,
    rights::Rights,
};

/// Identifies a client: by the hash of its token, or by a name in its certificate.
#[derive(Debug)]
pub(super) enum Proof {
    Token(TokenHash),
    Certificate(CertificateName),
}

/// An entry of the file.
#[derive(Debug)]
pub(super) struct Credential {
    rights: Arc<Rights>,
    expires_ms: Option<i64>,
    /// The index of the entry in the file.
    place: usize,
    /// In Unix seconds. All entries of a name share it, also across reloads of the file.
    last_used_s: Arc<AtomicI64>,
}

impl Credential {
    fn is_expired(&self, now_ms: i64) -> bool {
        self.expires_ms.is_some_and(|expires_ms| expires_ms <= now_ms)
    }

    /// Returns the rights of the entry and records its use.
    ///
    /// # Errors
    ///
    /// When the entry has expired.
    pub(super) fn use_at(&self, now_ms: i64) -> Result<Arc<Rights>, Refusal> {
        if self.is_expired(now_ms) {
            tracing::debug!(token = self.rights.name, "the token has expired");
            return Err(Refusal::Expired);
        }
        let now_s = now_ms.div_euclid(1_000);
        // Store only a change: a store for every request would move the cache line between cores.
        if self.last_used_s.load(Ordering::Relaxed) != now_s {
            self.last_used_s.store(now_s, Ordering::Relaxed);
        }
        Ok(Arc::clone(&self.rights))
    }
}

/// The entries of one name.
#[derive(Debug)]
pub(super) struct Named {
    last_used_s: Arc<AtomicI64>,
    /// When the last entry expires, in Unix milliseconds; `None` means never.
    pub(super) expires_ms: Option<i64>,
}

impl Named {
    /// Returns when one of the entries was used last, in Unix seconds; 0 means never.
    pub(super) fn last_used_s(&self) -> i64 {
        self.last_used_s.load(Ordering::Relaxed)
    }
}

/// The entries by token, by certificate and by name.
///
/// The time of a look-up reveals nothing about the tokens. The key of the table is the SHA-256 hash
/// of a token, the hash function of the table has a random key, and hashes are compared in constant
/// time.
#[derive(Debug, Default)]
pub(super) struct Tokens {
    by_hash: HashMap<TokenHash, Credential>,
    by_certificate: HashMap<CertificateName, Credential>,
    by_name: BTreeMap<String, Named>,
}

impl Tokens {
    /// Adds an entry. Its name keeps the time of the last use that `previous` has for the name.
    ///
    /// # Errors
    ///
    /// The name of an entry that has the same token or certificate.
    pub(super) fn add(
        &mut self,
        proof: Proof,
        rights: Rights,
        expires_ms: Option<i64>,
        previous: Option<&Self>,
    ) -> Result<(), String> {
        let name = rights.name.clone();
        let present = self.by_name.get(&name);
        let used = present.or_else(|| previous?.by_name.get(&name));
        let last_used_s = used.map(|used| Arc::clone(&used.last_used_s)).unwrap_or_default();
        let latest_ms = match present {
            Some(present) => present.expires_ms.zip(expires_ms).map(|(one, other)| one.max(other)),
            None => expires_ms,
        };
        let credential = Credential {
            rights: Arc::new(rights),
            expires_ms,
            place: self.count(),
            last_used_s: Arc::clone(&last_used_s),
        };
        match proof {
            Proof::Token(hash) => insert(&mut self.by_hash, hash, credential)?,
            Proof::Certificate(name) => insert(&mut self.by_certificate, name, credential)?,
        }
        self.by_name.insert(name, Named { last_used_s, expires_ms: latest_ms });
        Ok(())
    }

    /// Returns the number of entries.
    pub(super) fn count(&self) -> usize {
        self.by_hash.len() + self.by_certificate.len()
    }

    /// Returns the entries of each name.
    pub(super) fn by_name(&self) -> &BTreeMap<String, Named> {
        &self.by_name
    }

    /// Returns the entry of a token.
    pub(super) fn of_token(&self, token: &[u8]) -> Option<&Credential> {
        self.by_hash.get(&TokenHash::of(token))
    }

    /// Returns the first entry of the file that names this certificate and has not expired. If all
    /// have expired, returns the first.
    pub(super) fn of_certificate(
        &self,
        certificate: &ClientCertificate,
        now_ms: i64,
    ) -> Option<&Credential> {
        let entries = certificate.names().iter().filter_map(|name| self.by_certificate.get(name));
        entries.min_by_key(|entry| (entry.is_expired(now_ms), entry.place))
    }
}

fn insert<K: Eq + std::hash::Hash>(
    table: &mut HashMap<K, Credential>,
    key: K,
    credential: Credential,
) -> Result<(), String> {
    match table.entry(key) {
        Entry::Occupied(same) => Err(same.get().rights.name.clone()),
        Entry::Vacant(place) => {
            place.insert(credential);
            Ok(())
        }
    }
}
