//! Tracks what a process knows of a row that it is releasing, until the row is free.
//!
//! The grant of the row is sealed, or there was none, so no read of the row makes the process issue
//! again. So this is simpler than a held row: a release that a read shows counts without an
//! acknowledgement, and a row with an unexpected token is left to its owner.
//!
//! It sends nothing. The caller writes `mark` on the present lane, between [`ReleasingRow::sent`]
//! and [`ReleasingRow::answered`], and first removes the lease from the state file. If it gives up,
//! the row expires after its ttl. Tests: `releasing_row/tests.rs`.

use super::{HeldLanes, KnownRow, Purpose, Resolution, Row};

/// A row that the process is releasing. Its grant is sealed or never existed, so the process issues
/// nothing on the row, however its writes turn out.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ReleasingRow<P> {
    /// The row's token and marks, and the writes whose outcome is unknown.
    pub known_row: KnownRow<P>,
    /// The row's lanes.
    pub lanes: HeldLanes,
    /// The mark that the release writes: the next lease of the present lane may start there.
    pub mark: u64,
    /// Whether this process held a lease of the row, whose mark may be lowered.
    was_held: bool,
    progress: Progress,
}

/// The outcome of the last write that releases the row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Progress {
    /// None was sent, or the store has not answered it.
    Pending,
    /// The store refused it: the row had another token.
    Refused,
    /// The row is free.
    Released,
}

impl<P: Copy + Into<Purpose>> ReleasingRow<P> {
    /// Starts with a lease that was held; its grant is sealed.
    pub fn of_lease(known_row: KnownRow<P>, lanes: HeldLanes, mark: u64) -> Self {
        Self::new(known_row, lanes, mark, true)
    }

    /// Starts with a row that an acquire may have taken, or may still take.
    pub fn of_search(known_row: KnownRow<P>) -> Self {
        // Any lane will do: the mark stays as it is.
        let mark = known_row.marks()[0];
        Self::new(known_row, HeldLanes::on(0), mark, false)
    }

    fn new(known_row: KnownRow<P>, lanes: HeldLanes, mark: u64, was_held: bool) -> Self {
        let mut row = Self { known_row, lanes, mark, was_held, progress: Progress::Pending };
        row.adopt_visible();
        row
    }

    /// Returns whether the row is known to be free.
    pub fn is_released(&self) -> bool {
        self.progress == Progress::Released
    }

    /// Resolves the writes with an unknown outcome by the row as it was read. Returns whether
    /// nothing is left to do: another process may have the row, or its epoch has ended.
    pub fn resolve(&mut self, row: Option<&Row>) -> bool {
        match self.known_row.resolve(row) {
            // After a refusal this means that the epoch has ended: no lease begins at this mark.
            Resolution::Unchanged => self.progress == Progress::Refused,
            Resolution::Visible => {
                self.adopt_visible();
                false
            }
            Resolution::Lost | Resolution::Vanished => true,
        }
    }

    /// Records that a write that frees the row is about to be sent.
    pub const fn sent(&mut self) {
        self.progress = Progress::Pending;
    }

    /// Records the store's answer to that write.
    pub const fn answered(&mut self, swapped: bool) {
        self.progress = if swapped { Progress::Released } else { Progress::Refused };
    }

    /// Applies the write that a read of the row showed.
    fn adopt_visible(&mut self) {
        let Some(visible) = self.known_row.visible() else { return };
        self.lanes.confirmed(&visible.write.marks);
        match visible.intent.into() {
            // No ID was issued on the lane that it took.
            Purpose::Lease(lease) => {
                if !self.was_held {
                    self.lanes = HeldLanes::on(lease.lane);
                } else if lease.lane != self.lanes.in_use() {
                    // Only once: reads may show both this write and its repetition.
                    self.lanes.moved_to(lease.lane, self.mark);
                }
                self.mark = lease.start;
            }
            Purpose::NewEpoch(lease) => {
                (self.lanes, self.mark) = (HeldLanes::on(lease.lane), lease.start);
            }
            Purpose::Renew { .. } => {}
            // No need to repeat it until it is durable: if the store loses it, the row expires
            // after its ttl.
            Purpose::Release => self.progress = Progress::Released,
        }
    }
}

#[cfg(test)]
mod tests;
