//! What can go wrong in a store.

use std::{error::Error, time::Duration};

/// A store's failure.
///
/// [`Self::is_permanent`] tells whether trying again can help.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// The store cannot be reached, or broke the connection.
    #[error("the store cannot be reached")]
    Unavailable(#[source] Box<dyn Error + Send + Sync>),

    /// The store did not answer in time.
    #[error("the store did not answer within {after:?}")]
    TimedOut {
        /// The time-out.
        after: Duration,
    },

    /// What was there before is gone: the file, a table. It is never made anew under a live node.
    #[error("{0}")]
    Vanished(String),

    /// The store refused a statement.
    #[error("the store refused a statement")]
    Refused(#[source] Box<dyn Error + Send + Sync>),

    /// A stored value cannot be read.
    #[error("table {table}, row {row}, column {column}: {value:?} cannot be read: {reason}")]
    Corrupt {
        /// The table.
        table: String,
        /// The row, by its key.
        row: String,
        /// The column.
        column: &'static str,
        /// What stands there.
        value: String,
        /// Why it cannot be read.
        reason: String,
    },

    /// A table of our name has other columns: somebody else's table, which is left alone.
    #[error(
        "table {table} is not Raindrop's: {difference}; choose another store.worker_table, the table was not changed"
    )]
    ForeignTable {
        /// The table.
        table: String,
        /// Missing and unexpected columns.
        difference: String,
    },

    /// The store's address or settings cannot be used.
    #[error("{0}")]
    Unusable(String),
}

impl StoreError {
    /// Whether trying again cannot help: the configuration or the tables must change first.
    pub const fn is_permanent(&self) -> bool {
        matches!(self, Self::ForeignTable { .. } | Self::Unusable(_))
    }
}

/// The error and what caused it, in one line. A source that is already part of the text, as with
/// errors that repeat theirs, is left out.
pub(crate) fn with_sources(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(source) = next {
        let said = source.to_string();
        if !text.contains(&said) {
            text = format!("{text}: {said}");
        }
        next = source.source();
    }
    text
}
