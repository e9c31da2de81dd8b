//! What a process knows of a row that it gives back.

use super::{HeldLanes, Purpose, Resolution, Row, Tenure};

/// A row that is being released. It has no grant: whatever is learned of its writes, nothing is issued
/// on it any more.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ReleasingRow<P> {
    /// Its token and marks, and the writes whose outcome is unknown.
    pub tenure: Tenure<P>,
    /// Its lanes.
    pub lanes: HeldLanes,
    /// Where the next lease of the present lane may begin.
    pub mark: u64,
    /// Whether a lane of it was leased, whose mark may be lowered.
    was_held: bool,
    progress: Progress,
}

/// What came of the last write that releases a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Progress {
    /// There was none, or it was not answered.
    Pending,
    /// The row has another token.
    Refused,
    /// The row is free.
    Released,
}

impl<P: Copy + Into<Purpose>> ReleasingRow<P> {
    /// Begins with a lease that was held, and is sealed.
    pub fn of_lease(tenure: Tenure<P>, lanes: HeldLanes, mark: u64) -> Self {
        Self::new(tenure, lanes, mark, true)
    }

    /// Begins with a row that an acquire may have taken, or may still take.
    pub fn of_search(tenure: Tenure<P>) -> Self {
        // Whatever the lane: its mark stays as it is.
        let mark = tenure.marks()[0];
        Self::new(tenure, HeldLanes::on(0), mark, false)
    }

    fn new(tenure: Tenure<P>, lanes: HeldLanes, mark: u64, was_held: bool) -> Self {
        let mut row = Self { tenure, lanes, mark, was_held, progress: Progress::Pending };
        row.adopt_visible();
        row
    }

    /// Whether the row is known to be free.
    pub fn is_released(&self) -> bool {
        self.progress == Progress::Released
    }

    /// Learns the outcome of the writes that have none by the row as it was read. Returns whether nothing
    /// is left to be done: the row is not this process's any more, or its epoch has ended.
    pub fn resolve(&mut self, row: Option<&Row>) -> bool {
        match self.tenure.resolve(row) {
            // No lease begins at the mark that it would get.
            Resolution::Unchanged => self.progress == Progress::Refused,
            Resolution::Visible => {
                self.adopt_visible();
                false
            }
            Resolution::Lost | Resolution::Vanished => true,
        }
    }

    /// Takes note that a write that frees the row is sent.
    pub const fn sent(&mut self) {
        self.progress = Progress::Pending;
    }

    /// Takes note of the store's answer to it.
    pub const fn answered(&mut self, swapped: bool) {
        self.progress = if swapped { Progress::Released } else { Progress::Refused };
    }

    /// Takes note of a write that the row was seen with.
    fn adopt_visible(&mut self) {
        let Some(visible) = self.tenure.visible() else { return };
        self.lanes.confirmed(&visible.write.marks);
        match visible.purpose.into() {
            // Nothing was issued on the lane that it took.
            Purpose::Lease(lease) => {
                if !self.was_held {
                    self.lanes = HeldLanes::on(lease.lane);
                } else if lease.lane != self.lanes.present() {
                    // Its repetition may be seen, too.
                    self.lanes.moved_to(lease.lane, self.mark);
                }
                self.mark = lease.start;
            }
            Purpose::NewEpoch(lease) => {
                (self.lanes, self.mark) = (HeldLanes::on(lease.lane), lease.start);
            }
            Purpose::Renew { .. } => {}
            // Nothing depends on it: if the store loses it, the row expires after its ttl.
            Purpose::Release => self.progress = Progress::Released,
        }
    }
}

#[cfg(test)]
mod tests;
