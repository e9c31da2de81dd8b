//! Releases a row.

use raindrop_core::lease::{HeldLanes, Purpose, Resolution, RowExpiry, Tenure};
use raindrop_store::StoreError;

use super::{
    context::{LeaseContext, WriteIntent},
    held::HeldLease,
    keeping::KeepingFailed,
};
use crate::ground::{observer::LeaseOperation, store_call::ClockReading};

/// How a keeper's release ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Released {
    /// The row is free, and its mark is where the next lease may begin.
    Done,
    /// No row was held.
    NothingHeld,
    /// The store did not answer, or the row may be another process's; the state file keeps the lease for
    /// the next process.
    Kept,
    /// The deadline passed, or the row may be another process's: it expires after its ttl.
    GaveUp,
}

/// A row that is being released. It has no grant: whatever it learns of its writes, nothing is
/// issued on it any more.
pub(crate) struct ReleasingRow {
    pub(crate) tenure: Tenure<WriteIntent>,
    pub(crate) lanes: HeldLanes,
    /// Where the next lease of the present lane may begin.
    pub(crate) mark: u64,
    /// Whether a lane of it was leased, whose mark may be lowered.
    was_held: bool,
    progress: Progress,
}

/// What came of the last write that releases a row.
#[derive(PartialEq, Eq)]
enum Progress {
    /// There was none, or it was not answered.
    Pending,
    /// The row has another token.
    Refused,
    /// The row is free.
    Released,
}

impl ReleasingRow {
    /// Begins with a lease that was held. Its grant is sealed, and dead whatever the store
    /// answers.
    pub(crate) fn of_lease(held: HeldLease) -> Self {
        let (tenure, lanes, mark) = held.end();
        Self::new(tenure, lanes, mark, true)
    }

    /// Begins with a row that an acquire of ours may have taken, or may still take.
    pub(crate) fn of_search(tenure: Tenure<WriteIntent>) -> Self {
        // Whatever the lane: its mark stays as it is.
        let mark = tenure.marks()[0];
        Self::new(tenure, HeldLanes::on(0), mark, false)
    }

    fn new(tenure: Tenure<WriteIntent>, lanes: HeldLanes, mark: u64, was_held: bool) -> Self {
        let mut row = Self { tenure, lanes, mark, was_held, progress: Progress::Pending };
        row.adopt_visible();
        row
    }

    pub(crate) const fn worker(&self) -> u64 {
        self.tenure.worker()
    }

    /// Writes the row free, with true marks. Returns whether it is done: the row is free, or known
    /// to be no longer ours.
    pub(crate) async fn release(&mut self, context: &mut LeaseContext) -> Result<bool, StoreError> {
        if self.tenure.is_unresolved() {
            match context.resolve(&mut self.tenure).await? {
                // Its epoch has ended: no lease begins at the mark that it would get.
                (Resolution::Unchanged, _) if self.progress == Progress::Refused => {
                    return Ok(true);
                }
                (Resolution::Unchanged, _) => {}
                (Resolution::Visible, _) => {
                    self.adopt_visible();
                    #[cfg(feature = "planted")]
                    self.touch_generator(context);
                }
                (Resolution::Lost | Resolution::Vanished, _) => return Ok(true),
            }
        }
        if self.progress == Progress::Released {
            return Ok(true);
        }
        let (lane, expiry) = (self.lanes.present(), RowExpiry::Released);
        let write = context.write(&self.tenure, &self.lanes, lane, self.mark, expiry);
        if let Some(keeping) = &context.keeping {
            // Whoever resumed the lease that this write ends would issue beside the next holder.
            let removed = keeping.before_write(self.worker(), &write.marks).await;
            if let Err(KeepingFailed(reason)) = removed {
                tracing::warn!(
                    namespace = context.settings.namespace,
                    worker = self.worker(),
                    %reason,
                    "row not released: the state file keeps its lease"
                );
                return Ok(true);
            }
        }
        let (purpose, operation) = (Purpose::Release, LeaseOperation::Release);
        let intent = WriteIntent {
            purpose,
            operation,
            clocks: ClockReading::now(&*context.shared.clock),
            store_ms: 0,
        };
        self.progress = Progress::Pending;
        let swapped = context.swap(&mut self.tenure, write, intent).await?;
        self.progress = if swapped { Progress::Released } else { Progress::Refused };
        Ok(swapped)
    }

    /// Takes note of a write that the row was seen with.
    fn adopt_visible(&mut self) {
        let Some(visible) = self.tenure.visible() else { return };
        self.lanes.confirmed(&visible.write.marks);
        match visible.purpose.purpose {
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
