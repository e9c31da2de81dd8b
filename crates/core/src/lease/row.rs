//! The row of a worker in the store.

use std::time::Duration;

use super::{HighWaterMarks, History, Token, planted};
use crate::layout::Layout;

/// A row as one statement read it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Row {
    /// The worker id.
    pub worker: u64,
    /// The token of the last write.
    pub token: Token,
    /// A label of the process that wrote the row last: for people and as a preference, never an
    /// identity.
    pub holder: String,
    /// The lane that the last writer issued on.
    pub lane: usize,
    /// The mark of each lane.
    pub marks: HighWaterMarks,
    /// Whether the row was released, or has expired by the store's clock.
    pub free: bool,
    /// The record's epoch when the row was last written; [`Token::UNUSED`] if it never was.
    pub epoch: Token,
    /// The store's clock at the last write, in Unix ms; 0 if the row was never written.
    pub heartbeat_ms: i64,
    /// When the row expires by the store's clock, in Unix ms.
    pub expires_ms: i64,
}

impl Row {
    /// Returns whether no process has written the row since it was created. Every write sets the
    /// heartbeat.
    pub const fn was_never_written(&self) -> bool {
        self.heartbeat_ms == 0
    }

    /// Returns the marks with which another process or an operator releases the row at `store_ms`,
    /// the store's clock in Unix ms. The row must have the lanes of the layout.
    ///
    /// If the row has not expired, the mark of the lane in use is raised beyond everything that the
    /// holder can have leased. The store may fail over and lose both the release and the next lease
    /// of the row; then the holder may continue its own lease. An expired row keeps its marks: a
    /// process that takes it starts there in any case.
    pub fn marks_when_released(
        &self,
        layout: &Layout,
        history: &History,
        store_ms: i64,
    ) -> HighWaterMarks {
        let marks = history.marks(layout, self.epoch, &self.marks);
        if planted::keeps_marks(self.free) {
            return marks;
        }
        let beyond = history.beyond(layout, store_ms).max(marks[self.lane]);
        marks.with(self.lane, beyond)
    }
}

/// The values that a write of a row sets. Every write sets every column, so the statement reads
/// none.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct RowWrite {
    /// The fresh token.
    pub token: Token,
    /// The epoch that the namespace's record must have; otherwise the store refuses the write.
    pub epoch: Token,
    /// The writer's label.
    pub holder: String,
    /// The lane that the writer issues on.
    pub lane: usize,
    /// The mark of each lane.
    pub marks: HighWaterMarks,
    /// When other processes may take the row.
    pub expiry: RowExpiry,
}

/// When other processes may take a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RowExpiry {
    /// At once.
    Released,
    /// After this time on the store's clock, unless the holder renews the row.
    After(Duration),
}
