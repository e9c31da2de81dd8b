//! The row of a worker in the store.

use std::time::Duration;

use super::{HighWaterMarks, History, Token};
use crate::{
    layout::Layout,
    planted::{Bug, planted},
};

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

    /// Returns the marks that another process releases the row with at this time of the store's clock,
    /// Unix ms; the row must have the lanes of the layout.
    ///
    /// If the row has not expired, the lane in use is raised beyond everything that its holder could
    /// lease: should the store fail over, and lose the release and the next lease of the row, then the
    /// holder may go on with its own. Once the row has expired, whoever takes it begins at its marks, so
    /// a release that keeps them adds nothing.
    pub fn marks_when_released(
        &self,
        layout: &Layout,
        history: &History,
        store_ms: i64,
    ) -> HighWaterMarks {
        let marks = history.marks(layout, self.epoch, &self.marks);
        if self.free || planted(Bug::ReleaseKeepsMark) {
            return marks;
        }
        let beyond = history.beyond(layout, store_ms).max(marks[self.lane]);
        marks.with(self.lane, beyond)
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
