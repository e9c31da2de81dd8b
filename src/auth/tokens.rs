//! Tokens: the header that carries one, their hashes, and the table of entries with their last use.
//!
//! `file` reads the entries; what an entry permits is up to `caller`. Tests: below, and `tests.rs`.

use std::{
    collections::{BTreeMap, HashMap, hash_map::Entry},
    fmt, hash,
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering},
    },
};

use axum::http::{HeaderMap, header};
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

use super::{
    caller::{Refusal, Rights},
    certificate::{CertificateName, ClientCertificate},
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

/// The length of the longest token in bytes. A longer one is refused unhashed, so that an attacker
/// cannot make the service hash long headers.
const LONGEST_TOKEN: usize = 512;

/// The `Authorization` headers of a request.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum BearerHeader<'a> {
    /// The request has no `Authorization` header.
    Absent,
    /// The header has another scheme than `Bearer`.
    OtherScheme,
    /// There is more than one header, or the token is empty or too long.
    Malformed,
    /// A token, which may be unknown.
    Token(&'a [u8]),
}

/// Reads the `Authorization` header.
pub(super) fn bearer_header(headers: &HeaderMap) -> BearerHeader<'_> {
    let mut values = headers.get_all(header::AUTHORIZATION).into_iter();
    let Some(value) = values.next() else { return BearerHeader::Absent };
    if values.next().is_some() {
        return BearerHeader::Malformed;
    }
    let value = value.as_bytes();
    let end = value.iter().position(|byte| *byte == b' ').unwrap_or(value.len());
    let (scheme, token) = value.split_at(end);
    let token = token.trim_ascii();
    if !scheme.eq_ignore_ascii_case(b"bearer") {
        BearerHeader::OtherScheme
    } else if token.is_empty() || token.len() > LONGEST_TOKEN {
        BearerHeader::Malformed
    } else {
        BearerHeader::Token(token)
    }
}

/// The prefix of a hash in the file. It leaves room for other hash functions.
const KIND: &str = "sha256:";

/// The SHA-256 hash of a token. Tokens are random, with at least 128 bits, so an attacker cannot
/// guess one even though the hash is fast. A slow password hash would only let every client cause
/// load.
#[derive(Clone, Copy, Eq)]
pub(crate) struct TokenHash([u8; 32]);

impl TokenHash {
    pub(crate) fn of(token: &[u8]) -> Self {
        Self(Sha256::digest(token).into())
    }

    /// Reads `sha256:` and 64 hexadecimal digits.
    pub(super) fn read(text: &str) -> Option<Self> {
        let digits = text.strip_prefix(KIND)?;
        let mut hash = [0; 32];
        if digits.len() != 2 * hash.len() || !digits.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return None;
        }
        for (index, byte) in hash.iter_mut().enumerate() {
            *byte = u8::from_str_radix(&digits[2 * index..2 * index + 2], 16).ok()?;
        }
        Some(Self(hash))
    }
}

/// Compares hashes in constant time.
impl PartialEq for TokenHash {
    fn eq(&self, other: &Self) -> bool {
        self.0.ct_eq(&other.0).into()
    }
}

impl hash::Hash for TokenHash {
    fn hash<H: hash::Hasher>(&self, state: &mut H) {
        self.0.hash(state);
    }
}

impl fmt::Display for TokenHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(KIND)?;
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for TokenHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TokenHash(***)")
    }
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    #[test]
    fn one_header_of_the_right_scheme_carries_a_token() {
        let longest = "x".repeat(LONGEST_TOKEN);
        let bearer = |token: &str| format!("Bearer {token}").into_bytes();
        let cases: [(&[u8], BearerHeader<'_>); 12] = [
            (b"Bearer abc", BearerHeader::Token(b"abc")),
            (b"bearer abc", BearerHeader::Token(b"abc")),
            (b"BEARER   abc  ", BearerHeader::Token(b"abc")),
            (b"Bearer a b", BearerHeader::Token(b"a b")),
            (b"Bearer \xff\xfe", BearerHeader::Token(b"\xff\xfe")),
            (&bearer(&longest), BearerHeader::Token(longest.as_bytes())),
            (&bearer(&format!("{longest}x")), BearerHeader::Malformed),
            (b"Bearer", BearerHeader::Malformed),
            (b"Bearer   ", BearerHeader::Malformed),
            (b"Basic YTpi", BearerHeader::OtherScheme),
            (b"Bearerabc", BearerHeader::OtherScheme),
            (b"", BearerHeader::OtherScheme),
        ];
        for (value, carried) in cases {
            let value = HeaderValue::from_bytes(value).expect("a header");
            let headers = HeaderMap::from_iter([(header::AUTHORIZATION, value.clone())]);
            assert_eq!(bearer_header(&headers), carried, "{value:?}");
        }
        assert_eq!(bearer_header(&HeaderMap::new()), BearerHeader::Absent);
        let mut two = HeaderMap::new();
        for _ in 0..2 {
            two.append(header::AUTHORIZATION, HeaderValue::from_static("Bearer abc"));
        }
        assert_eq!(bearer_header(&two), BearerHeader::Malformed);
    }
}
