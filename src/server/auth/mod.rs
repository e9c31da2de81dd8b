//! Authentication by bearer tokens (RFC 6750), of which only hashes are stored.

mod bearer;
mod caller;
mod file;
mod reload;
#[cfg(test)]
mod tests;
mod tokens;

use std::path::PathBuf;

use arc_swap::ArcSwap;
use axum::http::{HeaderMap, header};
use prometheus::IntCounterVec;

pub(crate) use self::tokens::{TokenHash, is_code_or_beginning};
use self::{bearer::Carried, tokens::Tokens};
pub(super) use self::{caller::Caller, reload::Hangups};
use super::problem::{Problem, ProblemCode};
use crate::config::{Config, ConfigError};

/// The challenge to a request without a token (RFC 6750).
const MISSING_TOKEN: &str = r#"Bearer realm="raindrop""#;
/// The challenge to a request with an unknown token.
const INVALID_TOKEN: &str = r#"Bearer realm="raindrop", error="invalid_token""#;

/// The tokens that requests need, as a file lists them.
#[derive(Debug)]
pub struct Auth {
    pub(super) file: PathBuf,
    namespaces: Vec<String>,
    tokens: ArcSwap<Tokens>,
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
        let tokens = file::read(&file, &namespaces)?;
        Ok(Self { file, namespaces, tokens: ArcSwap::from_pointee(tokens) })
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
        file::read(&self.file, &self.namespaces)
    }

    /// How many tokens there are.
    pub(super) fn count(&self) -> usize {
        self.tokens.load().0.len()
    }

    /// Who sends a request with these headers. A refused one is counted by its reason.
    pub(super) fn authenticate(
        &self,
        headers: &HeaderMap,
        refused: &IntCounterVec,
    ) -> Result<Caller, Problem> {
        let (reason, counted, challenge, detail) = match bearer::read(headers) {
            Carried::Token(token) => match self.tokens.load().find(token) {
                Some(rights) => return Ok(Caller(Some(rights))),
                None => ("unknown", "invalid", INVALID_TOKEN, "the token is not known"),
            },
            Carried::Nothing => (
                "missing",
                "missing",
                MISSING_TOKEN,
                "send a token in the header Authorization: Bearer <token>",
            ),
            Carried::Unusable => (
                "unusable",
                "invalid",
                INVALID_TOKEN,
                "send one header Authorization: Bearer <token>, with a token of at most 512 bytes",
            ),
        };
        refused.with_label_values(&[counted]).inc();
        tracing::debug!(token = reason, "request unauthorized");
        let problem = Problem::new(ProblemCode::Unauthorized, detail);
        Err(problem.with_header(header::WWW_AUTHENTICATE, challenge))
    }
}
