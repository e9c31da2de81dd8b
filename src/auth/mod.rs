//! Authentication by bearer token (RFC 6750) or by the client certificate of a TLS connection.
//!
//! `auth.tokens_file` lists entries: a name, the hash of a token or a name of a certificate, and
//! what its bearer may use. `Auth::authenticate` finds the entry of a request and returns a
//! `Caller`, which says what that client may use. The service follows changes of the file
//! (`follow`); a file that cannot be used leaves the previous tokens in force. Tokens are stored
//! only as hashes, compared in constant time, and never logged. This module verifies no certificate
//! (the TLS handshake has done that) and limits no rate (`server/clients` does).

mod announce;
mod caller;
mod certificate;
mod file;
#[cfg(test)]
mod tests;
mod tokens;

use std::{
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use arc_swap::ArcSwap;
use axum::http::HeaderMap;
use tokio::sync::Mutex;

pub use self::certificate::ClientCertificate;
use self::tokens::{BearerHeader, Tokens};
pub(crate) use self::{
    announce::announce,
    caller::{Caller, Forbidden, Permission, Refusal, is_code_or_beginning},
    file::{EXPIRY_FORM, read_expiry},
    tokens::TokenHash,
};
use crate::{
    config::{Config, ConfigError},
    core::clock::Clock,
    process::file_watch::{FileWatch, Hangups},
};

/// The tokens and client certificates that a file lists. A request must have one of them.
#[derive(Debug)]
pub struct Auth {
    file: PathBuf,
    namespaces: Vec<String>,
    tokens: ArcSwap<Tokens>,
    /// Held by the task that follows the file.
    watch: Mutex<FileWatch>,
    /// Whether the last read failed, so that the tokens are those of an earlier one.
    is_stale: AtomicBool,
}

impl Auth {
    /// Reads a file of tokens, for a service with these namespaces.
    ///
    /// # Errors
    ///
    /// All problems of the file at once. They never quote a token or a hash.
    pub fn open(
        file: impl Into<PathBuf>,
        namespaces: impl IntoIterator<Item = impl Into<String>>,
    ) -> Result<Self, ConfigError> {
        let file = file.into();
        let namespaces: Vec<String> = namespaces.into_iter().map(Into::into).collect();
        let watch = FileWatch::new([file.clone()]).into();
        let tokens = file::read(&file, &namespaces, None)?;
        Ok(Self {
            file,
            namespaces,
            tokens: ArcSwap::from_pointee(tokens),
            watch,
            is_stale: false.into(),
        })
    }

    /// Reads the file of tokens that the configuration names; `None` if it names none.
    ///
    /// # Errors
    ///
    /// See [`open`](Self::open).
    pub fn of(config: &Config) -> Result<Option<Self>, ConfigError> {
        let names = || config.namespaces.iter().map(|namespace| namespace.name.as_str());
        config.tokens_file.as_ref().map(|file| Self::open(file, names())).transpose()
    }

    /// Reads the file again. Requests that were authenticated before continue.
    ///
    /// # Errors
    ///
    /// See [`open`](Self::open); the previous tokens stay in force.
    pub fn reload(&self) -> Result<(), ConfigError> {
        self.tokens.store(self.read()?.into());
        Ok(())
    }

    /// Reloads the tokens on each signal and each change of their file. Never returns. If a read
    /// fails, the previous tokens stay in force.
    pub(crate) async fn follow(self: &Arc<Self>, hangups: &Hangups, clock: &dyn Clock) {
        let mut watch = self.watch.lock().await;
        loop {
            let reading = Arc::clone(self);
            let read =
                move || reading.read().map_err(|problems| problems.to_string().replace('\n', "; "));
            let read = watch.next(hangups, read).await;
            self.is_stale.store(read.is_err(), Ordering::Relaxed);
            match read {
                Ok(tokens) => {
                    self.tokens.store(tokens.into());
                    tracing::info!(tokens = self.count(), "tokens reloaded");
                    self.warn_of_expiry(clock.now_ms());
                }
                Err(reason) => {
                    tracing::error!("token reload failed, keeping the previous tokens: {reason}");
                }
            }
        }
    }

    fn read(&self) -> Result<Tokens, ConfigError> {
        file::read(&self.file, &self.namespaces, Some(&self.tokens.load()))
    }

    /// Returns whether the file could not be read when it was last read, so that the tokens of an
    /// earlier read are in force.
    pub(crate) fn is_stale(&self) -> bool {
        self.is_stale.load(Ordering::Relaxed)
    }

    /// Returns the number of entries.
    pub(crate) fn count(&self) -> usize {
        self.tokens.load().count()
    }

    /// Calls `export` with each name, when a client last used it, and when the name's last entry
    /// expires. Both are in Unix seconds. 0 means that no client used the name since it was added,
    /// `None` that the name never expires.
    #[expect(clippy::cast_precision_loss, reason = "Prometheus knows floats only")]
    pub(crate) fn each_name(&self, mut export: impl FnMut(&str, f64, Option<f64>)) {
        for (name, named) in self.tokens.load().by_name() {
            let expires_s = named.expires_ms.map(|expires_ms| expires_ms as f64 / 1_000.0);
            export(name, named.last_used_s() as f64, expires_s);
        }
    }

    /// Returns who sends a request with these headers, over a connection with this client
    /// certificate.
    ///
    /// With an `Authorization` header the certificate does not count: the client chose the token.
    ///
    /// # Errors
    ///
    /// When neither names an entry that is in force.
    pub(crate) fn authenticate(
        &self,
        headers: &HeaderMap,
        certificate: Option<&ClientCertificate>,
        now_ms: i64,
    ) -> Result<Caller, Refusal> {
        let tokens = self.tokens.load();
        let entry = match (tokens::bearer_header(headers), certificate) {
            (BearerHeader::Token(token), _) => tokens.of_token(token).ok_or(Refusal::UnknownToken),
            (BearerHeader::Absent, Some(certificate)) if certificate.has_expired(now_ms) => {
                Err(Refusal::Expired)
            }
            (BearerHeader::Absent, Some(certificate)) => {
                let entry = tokens.of_certificate(certificate, now_ms);
                entry.ok_or(Refusal::UnknownCertificate)
            }
            (BearerHeader::Absent | BearerHeader::OtherScheme, _) => Err(Refusal::Missing),
            (BearerHeader::Malformed, _) => Err(Refusal::Unusable),
        };
        Ok(Caller(Some(entry?.use_at(now_ms)?)))
    }
}
