//! Errors of stores, by who can mend them.
//!
//! Each variant says whose fault it is and the usual way out; its text adds the place, the value
//! and the remedy, for the operator. Most pass or can be mended while the service runs, so callers
//! retry; only after [`StoreError::is_permanent`] must the configuration or the tables change
//! first.
//!
//! No error says whether a write took place: that shows the token of the row, which the caller
//! reads. A text may quote the server, or an attacker in its place. So [`with_sources`] escapes
//! control characters, and clients of the service get [`StoreError::kind`] alone. Tests: below, and
//! tests/store for the errors of each engine.

use std::{error::Error, iter, time::Duration};

use raindrop_core::visible::visible;

/// The consequence that warnings and refusals give for a store that does not keep its writes.
#[cfg(any(feature = "redis", feature = "sql"))]
pub(super) const LOSES_WRITES: &str =
    "may lose acknowledged writes, and with them the promise that no ID is issued twice";

/// The result of a store's operation.
pub type Result<T, E = StoreError> = std::result::Result<T, E>;

/// An error of a store.
///
/// [`Self::is_permanent`] tells whether retrying can help.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// The store cannot be reached, or broke the connection. The network or the server is at fault,
    /// or the address or the certificate is wrong: an operator mends that, or it passes.
    #[error("the store cannot be reached")]
    Unavailable(#[source] Box<dyn Error + Send + Sync>),

    /// Every server of the store can be reached, but none accepts writes. Either a fail-over is
    /// under way, or the address names replicas: name the primary, or turn read-only off. The text
    /// has the name of each server, the reason and the remedy.
    #[error("the store accepts no writes: {0}")]
    AcceptsNoWrites(String),

    /// The store did not answer in time: it is frozen, overloaded or far away. For a store that is
    /// only slow, raise `store.timeout`.
    #[error("the store did not answer within {after:?}")]
    TimedOut {
        /// The time-out.
        after: Duration,
    },

    /// The file, a table or a record that was there before is gone: another program or a person
    /// removed it. Raindrop does not create it again, since an empty one does not show which IDs
    /// were issued: restore it.
    #[error("{0}")]
    Vanished(String),

    /// The store refused a statement. The account lacks a permission, the server has a limit or
    /// another setting, or Raindrop has a fault: the source says what the server answered.
    #[error("the store refused a statement")]
    Refused(#[source] Box<dyn Error + Send + Sync>),

    /// A stored value cannot be read: another program or a person wrote it, since Raindrop writes
    /// only what it can read. Repair the value from a backup, with the nodes stopped.
    #[error("table {table}, row {row}, column {column}: {value:?} cannot be read: {reason}")]
    Corrupt {
        /// The table.
        table: String,
        /// The row, by its key.
        row: String,
        /// The column.
        column: &'static str,
        /// The stored value.
        value: String,
        /// Why it cannot be read.
        reason: String,
    },

    /// A table with the configured name has other columns, so it belongs to another application.
    /// The configuration is at fault: choose another name.
    #[error(
        "table {table} is not Raindrop's: {difference}; it was not changed; choose another name in \
         store.worker_table or store.segment_table"
    )]
    ForeignTable {
        /// The table.
        table: String,
        /// Missing and unexpected columns.
        difference: String,
    },

    /// The store's address, or a setting of Raindrop or of the server, cannot be used. The text
    /// says which, and what is allowed.
    #[error("{0}")]
    Unusable(String),
}

impl StoreError {
    /// Returns the kind of error, without any text of the store or the configuration: for clients,
    /// who must not learn where the store is.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Unavailable(_) => "it cannot be reached",
            Self::AcceptsNoWrites(_) => "it accepts no writes",
            Self::TimedOut { .. } => "it did not answer in time",
            Self::Vanished(_) => "a table or file is gone",
            Self::Refused(reason) => match reason.downcast_ref::<Refusal>().map(|it| it.cause) {
                Some(Cause::AccessDenied) => "it denied access",
                Some(Cause::NoSpace) => "it has no space left",
                Some(Cause::DiskFails) => "it cannot write to its disk",
                None => "it refused a statement",
            },
            Self::Corrupt { .. } => "a stored value cannot be read",
            Self::ForeignTable { .. } | Self::Unusable(_) => "it cannot be used as it is",
        }
    }

    /// Creates the error of a store that cannot be reached, and adds advice if the reason has a
    /// known remedy.
    #[cfg(any(feature = "kubernetes", feature = "redis", feature = "sql"))]
    pub(super) fn unavailable(reason: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        let reason = reason.into();
        let text = with_sources(&*reason);
        Self::Unavailable(match advice(&text) {
            Some(advice) => format!("{text}: {advice}").into(),
            None => reason,
        })
    }

    /// Creates the error of a statement that was refused for this cause.
    #[cfg(any(feature = "redis", feature = "sql"))]
    pub(super) fn refused_for(
        cause: Cause,
        reason: impl Into<Box<dyn Error + Send + Sync>>,
    ) -> Self {
        Self::Refused(Box::new(Refusal { cause, reason: reason.into() }))
    }

    /// Adds the server's name to an error that is about one server.
    #[cfg(any(feature = "redis", feature = "sql"))]
    pub(super) fn at(self, place: &str) -> Self {
        match self {
            Self::Unavailable(reason) => {
                Self::Unavailable(format!("{place}: {}", with_sources(&*reason)).into())
            }
            Self::AcceptsNoWrites(reason) => Self::AcceptsNoWrites(format!("{place}: {reason}")),
            other => other,
        }
    }

    /// Returns whether this server cannot serve us, but another one of the store may.
    #[cfg(any(feature = "redis", feature = "sql"))]
    pub(super) const fn is_of_server(&self) -> bool {
        matches!(self, Self::Unavailable(_) | Self::AcceptsNoWrites(_))
    }

    /// Returns whether the store denied the account a right.
    #[cfg(feature = "sql")]
    pub(super) fn is_denied(&self) -> bool {
        let Self::Refused(reason) = self else { return false };
        reason.downcast_ref().is_some_and(|Refusal { cause, .. }| *cause == Cause::AccessDenied)
    }

    /// Returns whether retrying cannot help, because the configuration or the tables must change
    /// first.
    pub const fn is_permanent(&self) -> bool {
        matches!(self, Self::ForeignTable { .. } | Self::Unusable(_))
    }
}

/// Why a store refused a statement, for the causes that its operator can mend.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cause {
    /// The account is unknown, has another password, or lacks a right.
    #[cfg_attr(
        not(any(feature = "redis", feature = "sql")),
        expect(dead_code, reason = "no engine with accounts")
    )]
    AccessDenied,
    /// The disk or the memory of the store is full.
    #[cfg_attr(
        not(any(feature = "redis", feature = "sql")),
        expect(dead_code, reason = "no engine that says so")
    )]
    NoSpace,
    /// The store could not write its files, and takes no more writes until it can.
    #[cfg_attr(not(feature = "redis"), expect(dead_code, reason = "no other engine says so"))]
    DiskFails,
}

/// The reason of [`StoreError::Refused`], with its cause. It reads like the reason alone.
#[derive(Debug, thiserror::Error)]
#[error("{reason}")]
pub(super) struct Refusal {
    cause: Cause,
    #[source]
    pub(super) reason: Box<dyn Error + Send + Sync>,
}

/// Returns the remedy for a failure of TLS that rustls reports without one.
#[cfg(any(feature = "kubernetes", feature = "redis", feature = "sql"))]
fn advice(text: &str) -> Option<&'static str> {
    [
        (
            "UnsupportedCertVersion",
            "the server's certificate is one of X.509 version 1, which cannot be used: give it one \
             of version 3 (openssl x509 -req makes those with -extfile)",
        ),
        (
            "alert: HandshakeFailure",
            "the server found nothing that both can use: perhaps its key is one of P-521 or \
             RSA-PSS, which cannot be used, where one of P-256, P-384, Ed25519 or RSA can",
        ),
    ]
    .into_iter()
    .find_map(|(part, advice)| text.contains(part).then_some(advice))
}

/// Returns the error and its sources in one line, without sources that the error quotes already.
/// Control characters are escaped, because the text may come from a server, or an attacker in its
/// place, and is printed to terminals.
pub fn with_sources(error: &dyn Error) -> String {
    let mut text = error.to_string();
    for source in iter::successors(error.source(), |&error| error.source()) {
        let said = source.to_string();
        if !text.contains(&said) {
            text = format!("{text}: {said}");
        }
    }
    visible(&text).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(any(feature = "redis", feature = "sql"))]
    #[test]
    fn cause_of_a_refusal_changes_its_kind_and_not_its_text() {
        for (cause, kind) in [
            (Cause::AccessDenied, "it denied access"),
            (Cause::NoSpace, "it has no space left"),
            (Cause::DiskFails, "it cannot write to its disk"),
        ] {
            let error = StoreError::refused_for(cause, "the database says: no");
            assert_eq!(error.kind(), kind);
            assert_eq!(
                with_sources(&error),
                "the store refused a statement: the database says: no"
            );
        }
        assert_eq!(StoreError::Refused("no".into()).kind(), "it refused a statement");
    }

    #[test]
    fn error_of_a_server_is_one_line_without_escapes() {
        let said = "no\u{1b}[2J\n2026-11-29T00:00:00Z  INFO forged\r\n";
        let text = with_sources(&StoreError::Refused(said.into()));
        let shown = "no\\u001b[2J\\n2026-11-29T00:00:00Z  INFO forged\\r\\n";
        assert_eq!(text, format!("the store refused a statement: {shown}"));
    }
}
