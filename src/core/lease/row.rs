//! A worker's row as a store holds it.

use std::time::Duration;

use super::{Marks, Token};

/// One row as it was read, in one statement.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Row {
    /// The worker id.
    pub worker: u64,
    /// The token of the last write.
    pub token: Token,
    /// A label of the process that wrote it last: for people and as a preference, never an
    /// identity.
    pub holder: String,
    /// The lane that the last write was about.
    pub lane: usize,
    /// The mark of each lane.
    pub marks: Marks,
    /// Whether it was released or has expired, by the store's clock.
    pub free: bool,
    /// When it was last written, in Unix milliseconds of the store's clock; 0 for never.
    pub heartbeat_ms: i64,
    /// When it becomes free unless it is renewed, in Unix milliseconds of the store's clock.
    pub expires_ms: i64,
}

impl Row {
    /// Whether nobody wrote it since it was created: every write sets the heartbeat.
    pub const fn was_never_written(&self) -> bool {
        self.heartbeat_ms == 0
    }
}

/// What a write sets; every column that a write touches, so that nothing is read in the store.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct RowWrite {
    /// The fresh token.
    pub token: Token,
    /// The writer's label.
    pub holder: String,
    /// The lane it issues on.
    pub lane: usize,
    /// Every lane's mark.
    pub marks: Marks,
    /// From when on others may take the row.
    pub expiry: RowExpiry,
}

/// From when on others may take a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RowExpiry {
    /// At once.
    Released,
    /// After this time on the store's clock, unless it is renewed.
    After(Duration),
}
