//! Breaks the rules of the keeper, for checkers.
//!
//! Each function returns what the rule says, its first argument, or does nothing. So production
//! code can be read as if it were not there. Only in a build for checkers, and only if its [`Bug`]
//! is planted, it breaks the rule. Bugs in what a keeper sends to the store are planted in the
//! store of the simulation (`tests/models/simulation/store.rs`).

use std::sync::Arc;

use raindrop_core::{
    keeper_api::Grant,
    lease::{
        Acknowledged, ClockVerdict, HighWaterMarks, KnownRow, Lease, Purpose, ReleasingRow,
        RowWrite, Token,
        state::{Held, Rows, State},
    },
    planted::{Bug, planted},
};
use tokio::time::Instant;

use super::{
    context::{LeaseContext, WriteIntent},
    held::HeldLease,
    task::Task,
};
use crate::support::{observer::LeaseOperation, store_call::ClockReading};

/// Returns whether leases wait while the store may be a restored one.
pub(super) fn waits_if_stale(waits: bool) -> bool {
    waits && !planted(Bug::StaleStoreTaken)
}

/// Returns whether the record names a row as created.
pub(super) fn is_created(is_created: bool) -> bool {
    is_created || planted(Bug::UnrecordedRowTaken)
}

/// Returns the marks that a write sets: those `known` of the row, raised to the barrier.
pub(super) fn marks(raised: HighWaterMarks, known: HighWaterMarks) -> HighWaterMarks {
    if planted(Bug::OtherLanesNotRaised) { known } else { raised }
}

/// Returns the clocks to remember of a write under a wall clock that counts as wrong: those
/// `agreed`, not those `read`.
pub(super) fn agreed(
    verdict: ClockVerdict,
    agreed: ClockReading,
    read: ClockReading,
) -> ClockReading {
    let is_ahead = matches!(verdict, ClockVerdict::Ahead(_));
    if is_ahead && planted(Bug::ClockAheadAgreed) { read } else { agreed }
}

/// Takes a visible write as acknowledged.
pub(super) fn taken_as_acknowledged(
    known_row: &mut KnownRow<WriteIntent>,
    write: &RowWrite,
    intent: WriteIntent,
) -> Option<Acknowledged<WriteIntent>> {
    planted(Bug::VisibleIsDurable).then(|| known_row.sent(write.clone(), intent).acknowledged())
}

/// Returns whether the record is read again after a row was chosen.
pub(super) fn reads_record_again() -> bool {
    !planted(Bug::RecordNotReread)
}

/// Returns the instant from which the next renewal counts: the one at which the last one `began`.
pub(super) fn counted_from(began: Instant) -> Instant {
    if planted(Bug::RenewalCountedFromEnd) { Instant::now() } else { began }
}

/// Runs before a renewal is sent.
pub(super) fn before_renewal(
    write: &mut RowWrite,
    known_row: &KnownRow<WriteIntent>,
    grant: &Grant,
    limit: u64,
    context: &LeaseContext,
) {
    if planted(Bug::RenewalKeepsToken) {
        write.token = known_row.token();
    }
    if planted(Bug::MarkAfterIssuing) {
        grant.raise_limit(limit, context.shared.present_position());
    }
}

/// Runs before a grant is extended to an acknowledged limit.
pub(super) fn before_extending(
    grant: &mut Arc<Grant>,
    limit: u64,
    is_saved: bool,
    context: &LeaseContext,
) {
    if planted(Bug::TablePerRenewal) {
        let lane = usize::try_from(grant.lane()).expect("a lane is below 8");
        let lease = Lease { lane, start: grant.start(), limit };
        *grant = context.grant(grant.worker(), lease, is_saved, None);
        context.shared.generator.replace_grant(Some(Arc::clone(grant)));
    }
}

/// Runs before a local mark is written to the state file.
pub(super) fn before_saving(grant: &Grant, local_mark: u64, present: impl FnOnce() -> u64) {
    if planted(Bug::LocalMarkAfterIssuing) {
        grant.raise_local_limit(local_mark, present());
    }
}

/// Runs after a read of a row that is being released.
pub(super) fn after_releasing_read(row: &ReleasingRow<WriteIntent>, context: &LeaseContext) {
    let visible = row.known_row.visible().map(|attempt| attempt.intent.purpose);
    if let Some(Purpose::Lease(lease)) = visible
        && planted(Bug::LeavingTouchesGenerator)
    {
        // Uses a lane that was leased too late, and seals its grant.
        let grant = context.grant(row.known_row.worker(), lease, false, None);
        grant.seal();
        context.shared.generator.replace_grant(Some(grant));
    }
}

/// Runs after the last attempt to release a row failed.
pub(super) fn after_failed_release(task: &mut Task) {
    let forgets = planted(Bug::LostReplyIsFailure);
    if !forgets && !planted(Bug::GoesOnAfterLowering) {
        return;
    }
    let Some(row) = task.releasing.last() else { return };
    // Uses the lease again although the write that lowered its mark has no answer.
    let held = revive(row, &task.context, forgets);
    task.context.shared.generator.replace_grant(Some(Arc::clone(&held.grant)));
    let clock_ahead_since = None;
    task.state = State::Held(Held { lease: held, rows: Rows::Checked, clock_ahead_since });
}

/// Continues above the sealed mark, up to the former limit.
fn revive(row: &ReleasingRow<WriteIntent>, context: &LeaseContext, forgets: bool) -> HeldLease {
    let (lane, start) = (row.lanes.in_use(), row.mark);
    let limit = row.known_row.marks()[lane].max(start);
    let mut known_row = row.known_row.clone();
    if forgets {
        known_row.forget_before(Token::UNUSED);
    }
    let lease = Lease { lane, start, limit };
    let (purpose, operation) = (Purpose::Lease(lease), LeaseOperation::Release);
    let clocks = ClockReading::now(&*context.shared.clock);
    let intent = WriteIntent { purpose, operation, clocks, store_ms: 0 };
    HeldLease::new(context, known_row, lease, Some(&intent))
}
