//! Authentication by bearer tokens (RFC 6750), of which only hashes are stored, or by the client
//! certificates of TLS.

mod announce;
mod bearer;
mod caller;
mod certificate;
mod file;
mod hash;
mod refusal;
mod reload;
mod rights;
#[cfg(test)]
mod tests;
mod tokens;
mod watch;

use std::path::PathBuf;

use arc_swap::ArcSwap;
use axum::http::HeaderMap;

pub use self::certificate::ClientCertificate;
pub(crate) use self::{
    announce::announce,
    caller::Caller,
    file::{EXPIRY_FORM, read_expiry},
    hash::TokenHash,
    refusal::{Forbidden, Refusal},
    rights::{Permission, is_code_or_beginning},
};
use self::{bearer::BearerHeader, tokens::Tokens, watch::Stamp};
use crate::config::{Config, ConfigError};

/// The tokens and client certificates that requests need, as a file lists them.
#[derive(Debug)]
pub struct Auth {
    file: PathBuf,
    namespaces: Vec<String>,
    tokens: ArcSwap<Tokens>,
    /// Of the file before it was read first.
    stamp: Option<Stamp>,
}

impl Auth {
    /// The tokens of a file, for a service of these namespaces.
    ///
    /// # Errors
    ///
    /// Everything that is wrong with the file, at once; neither tokens nor hashes are told.
    pub fn open(
        file: impl Into<PathBuf>,
        namespaces: impl IntoIterator<Item = impl Into<String>>,
    ) -> Result<Self, ConfigError> {
        let file = file.into();
        let namespaces: Vec<String> = namespaces.into_iter().map(Into::into).collect();
        let stamp = Stamp::of(&file);
        let tokens = file::read(&file, &namespaces, None)?;
        Ok(Self { file, namespaces, tokens: ArcSwap::from_pointee(tokens), stamp })
    }

    /// The tokens that are configured, if any are.
    ///
    /// # Errors
    ///
    /// As [`open`](Self::open).
    pub fn of(config: &Config) -> Result<Option<Self>, ConfigError> {
        let names = || config.namespaces.iter().map(|namespace| namespace.name.as_str());
        config.tokens_file.as_ref().map(|file| Self::open(file, names())).transpose()
    }

    /// Reads the file again. Requests that were let in go on.
    ///
    /// # Errors
    ///
    /// As [`open`](Self::open); the tokens stay as they are.
    pub fn reload(&self) -> Result<(), ConfigError> {
        self.tokens.store(self.read()?.into());
        Ok(())
    }

    fn read(&self) -> Result<Tokens, ConfigError> {
        file::read(&self.file, &self.namespaces, Some(&self.tokens.load()))
    }

    /// How many entries there are.
    pub(crate) fn count(&self) -> usize {
        self.tokens.load().count()
    }

    /// Calls `export` with each name, when it was used last, and when its last entry expires, both
    /// in Unix seconds; 0 means that no entry was used since the name came, and `None` never.
    #[expect(clippy::cast_precision_loss, reason = "Prometheus knows floats only")]
    pub(crate) fn each_name(&self, mut export: impl FnMut(&str, f64, Option<f64>)) {
        for (name, named) in self.tokens.load().by_name() {
            let expires_s = named.expires_ms.map(|expires_ms| expires_ms as f64 / 1_000.0);
            export(name, named.last_used_s() as f64, expires_s);
        }
    }

    /// Who sends a request with these headers, over a connection with this client certificate.
    ///
    /// An `Authorization` header decides alone: whoever sends one means to use it.
    pub(crate) fn authenticate(
        &self,
        headers: &HeaderMap,
        certificate: Option<&ClientCertificate>,
        now_ms: i64,
    ) -> Result<Caller, Refusal> {
        let tokens = self.tokens.load();
        let entry = match (bearer::read(headers), certificate) {
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
