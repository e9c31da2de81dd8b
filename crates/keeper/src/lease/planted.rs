//! The keeper's behaviour under planted bugs only.

use std::sync::Arc;

use raindrop_core::{
    lease::{
        Lease, Purpose, ReleasingRow,
        state::{Held, Rows, State},
    },
    planted::{Bug, planted},
};

use super::{
    context::{LeaseContext, WriteIntent},
    held::HeldLease,
    task::Task,
};
use crate::support::{observer::LeaseOperation, store_call::ClockReading};

impl Task {
    /// Uses a lease again although the write that lowered its mark has no answer.
    pub(crate) fn revive_lease(&mut self) {
        let forgets = planted(Bug::LostReplyIsFailure);
        if !forgets && !planted(Bug::GoesOnAfterLowering) {
            return;
        }
        let Some(row) = self.releasing.last_mut() else { return };
        let held = revive(row, &self.context, forgets);
        self.context.shared.generator.replace_grant(Some(Arc::clone(&held.grant)));
        let clock_ahead_since = None;
        self.state = State::Held(Held { lease: held, rows: Rows::Checked, clock_ahead_since });
    }
}

/// Uses a lane that was leased too late, and seals its grant.
pub(super) fn touch_generator(row: &ReleasingRow<WriteIntent>, context: &LeaseContext) {
    let visible = row.known_row.visible().map(|attempt| attempt.purpose.purpose);
    if let Some(Purpose::Lease(lease)) = visible
        && planted(Bug::LeavingTouchesGenerator)
    {
        let grant = context.grant(row.known_row.worker(), lease, false, None);
        grant.seal();
        context.shared.generator.replace_grant(Some(grant));
    }
}

/// Continues above the sealed mark, up to the former limit.
fn revive(row: &ReleasingRow<WriteIntent>, context: &LeaseContext, forgets: bool) -> HeldLease {
    let (lane, start) = (row.lanes.present(), row.mark);
    let limit = row.known_row.marks()[lane].max(start);
    let mut known_row = row.known_row.clone();
    if forgets {
        known_row.discard_unresolved();
    }
    let lease = Lease { lane, start, limit };
    let (purpose, operation) = (Purpose::Lease(lease), LeaseOperation::Release);
    let clocks = ClockReading::now(&*context.shared.clock);
    let intent = WriteIntent { purpose, operation, clocks, store_ms: 0 };
    HeldLease::new(context, known_row, lease, Some(&intent))
}
