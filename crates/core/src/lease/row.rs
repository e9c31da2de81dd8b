//! The row of a worker in the store.

use std::time::Duration;

use super::{HighWaterMarks, Token};

/// A row as one statement read it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Row {
    /// The worker id.
    pub worker: u64,
    /// The token of the last write.
    pub token: Token,
    /// A label of the process that wrote it last: for people and as a preference, never an
    /// identity.
    pub holder: String,
    /// The lane that the last writer issued on.
    pub lane: usize,
    /// The mark of each lane.
    pub marks: HighWaterMarks,
    /// Whether it was released or has expired by the store's clock.
    pub free: bool,
    /// The epoch of the record when it was last written; [`Token::UNUSED`] if never.
    pub epoch: Token,
    /// When it was last written, in Unix milliseconds of the store's clock; 0 if never.
    pub heartbeat_ms: i64,
    /// When it expires, in Unix milliseconds of the store's clock.
    pub expires_ms: i64,
}

impl Row {
    /// Whether nobody wrote it since it was created; every write sets the heartbeat.
    pub const fn was_never_written(&self) -> bool {
        self.heartbeat_ms == 0
    }
}

/// What a write sets: every column that a write touches, so that the statement reads nothing.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct RowWrite {
    /// The fresh token.
    pub token: Token,
    /// The epoch that the namespace's record must have.
    pub epoch: Token,
    /// The writer's label.
    pub holder: String,
    /// The lane that the writer issues on.
    pub lane: usize,
    /// The mark of each lane.
    pub marks: HighWaterMarks,
    /// When others may take the row.
    pub expiry: RowExpiry,
}

/// When others may take a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RowExpiry {
    /// At once.
    Released,
    /// After this time on the store's clock, unless the row is renewed.
    After(Duration),
}
