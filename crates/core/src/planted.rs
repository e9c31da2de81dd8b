//! Bugs that models and simulations must find.
//!
//! A checker that never finds a bug proves nothing. So the code that enforces a safety rule passes
//! what the rule says through a function of the module `planted` beside it, and that one asks
//! [`planted`] whether to break the rule. The answer is `false` at compile time, unless the feature
//! `planted` is on, as in `make model-test`. In such a build, tests plant one [`Bug`] at a time on
//! their thread and fail if no checker finds it. The service refuses to compile with the feature.

#[cfg(feature = "planted")]
use std::cell::Cell;

/// A way to break a safety rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Bug {
    /// Claims pass the limit of the lease.
    LimitIgnored,
    /// A handle issues positions that it claimed beyond its window.
    OverrunIssued,
    /// The limit rises before the store acknowledged the mark.
    MarkAfterIssuing,
    /// A process raises its limit, or installs a grant, when it reads its own token.
    VisibleIsDurable,
    /// A rotation whose outcome is resolved while the keeper leaves its row replaces the grant.
    LeavingTouchesGenerator,
    /// The token of a write is the token before it plus 1.
    TokenDerived,
    /// A process takes a row that names its holder for its own.
    OwnByHolder,
    /// A renewal keeps the token.
    RenewalKeepsToken,
    /// Every row is created with the same token.
    TokenOfBirth,
    /// Missing rows are created after a decision that may be outdated.
    StaleBirth,
    /// A row is leased before the record tells that it was created.
    UnrecordedRowTaken,
    /// A lease is used again after the write that lowers its mark timed out and left no trace.
    GoesOnAfterLowering,
    /// A mark is lowered without sealing the grant.
    LoweredUnsealed,
    /// A lease that issued nothing lowers its mark to 0.
    LoweredBelowStart,
    /// The mark becomes the last claimed position, not the one after it.
    LoweredToLastClaimed,
    /// A new cursor starts at the present tick.
    CursorAtClock,
    /// A renewal makes a new table of cursors.
    TablePerRenewal,
    /// An eviction does not raise the floor.
    EvictionWithoutFloor,
    /// A write with an unknown outcome counts as one that failed.
    LostReplyIsFailure,
    /// The limit is computed from the mark and without its cap: not unsafe, but a crash loop pushes
    /// the marks into the future.
    LimitWithoutCap,
    /// A lane that is leased while the clock is ahead makes that clock the agreed one: not unsafe,
    /// but leases follow it from then on.
    ClockAheadAgreed,
    /// A row is swapped without reading the record again after the row was read.
    RecordNotReread,
    /// A move to another layout does not change the tokens of the old layout's rows.
    RelayoutWithoutFencing,
    /// The rows carry no epoch: a row of any epoch counts as one of the present epoch.
    EpochNotInRows,
    /// The identity of the server is not compared.
    IdentityIgnored,
    /// The store compares its identity and epoch when a process asks, and not in the swap.
    IdentityCheckedBefore,
    /// The epoch is derived from the identity, so that a fail-back brings it back.
    EpochIsIdentity,
    /// An epoch that the record forgot counts as one that the store lost.
    ForgottenEpochIsLost,
    /// The barrier is computed from the node's clock alone.
    BarrierByNodeClock,
    /// An operator lowers a barrier to the present, below what leases reach.
    BarrierLoweredToNow,
    /// The instant that leases by a reach can end at is forgotten when that reach falls.
    FallenReachForgotten,
    /// A node that uses the longest reach does not say so.
    LongestNotConfirmed,
    /// A process that starts leases a row at once, although no holder has renewed for a long time.
    StaleStoreTaken,
    /// IDs for a past time are issued without checking the holder's row after the reservation.
    PastUnconfirmed,
    /// A write of any age counts as proof that the store has lost nothing since.
    OldWriteConfirms,
    /// The next renewal counts from the end of the last one: not unsafe, but on a slow disk starts
    /// take a live holder for a crashed one.
    RenewalCountedFromEnd,
    /// A process that starts looks for live holders only among the rows that it may lease.
    OtherRowsIgnored,
    /// A lease is renewed in place even if its row is of another epoch.
    RenewedAcrossEpochs,
    /// A lease of several epochs ago continues in place although its row was rolled back.
    RolledBackRowPassed,
    /// A lease continues in place over an epoch that began because the store lost another one.
    LostEpochPassed,
    /// A lease continues in place in an epoch that an operator began.
    RaisePassed,
    /// A lease of several epochs ago continues in place however old its last write is.
    TtlPassed,
    /// A write under a new epoch raises the lane in use to the barrier, and not the others.
    OtherLanesNotRaised,
    /// An operator releases a row that is held without raising its mark.
    ReleaseKeepsMark,
    /// State file: the limit rises before the local mark is in the file.
    LocalMarkAfterIssuing,
    /// State file: a lease stays in the file while a write that lowers its mark is sent.
    KeptWhileLowered,
    /// State file: a resumed lease starts at the present tick.
    ResumedAtClock,
    /// State file: a resumed process takes over its row without comparing the token.
    ResumedTokenUnchecked,
    /// State file: several processes use one file.
    StateFileUnlocked,
    /// Segment mode: the limit of the fast path rises before the cursor has reached the block.
    QuickLimitAhead,
    /// Segment mode: numbers are returned without sealing the cursor.
    GivenBackUnsealed,
    /// Segment mode: a node returns a whole block, although it issued some of the numbers.
    GivenBackWhole,
    /// Segment mode: the first reservation after a fail-over skips nothing.
    GapNotSkipped,
    /// Strict codes: a process undoes a whole reservation, although it issued some of the numbers.
    StrictUndoneWhole,
    /// Segment mode: a code that a claim creates after a fail-over begins at its start.
    CreatedBelowGap,
    /// Strict codes: a process reserves more numbers than its claims wait for, and serves later
    /// claims from the rest.
    StrictServesFromBlock,
    /// Strict codes: a claim with an idempotency key is answered before the store has its text.
    KeyAfterAnswer,
}

/// Whether this is a build for checkers: bugs can be planted, or loom replaces the synchronisation
/// primitives. The service refuses to compile if so.
pub const FOR_CHECKERS: bool = cfg!(any(feature = "planted", feature = "loom"));

/// Returns whether this bug is planted; always `false` outside builds for checkers.
#[cfg(not(feature = "planted"))]
#[inline(always)]
pub const fn planted(_: Bug) -> bool {
    false
}

/// Returns whether this bug is planted on this thread.
#[cfg(feature = "planted")]
pub fn planted(bug: Bug) -> bool {
    if bug == Bug::CursorAtClock {
        CURSORS.set(CURSORS.get() + 1);
    }
    PLANTED.get() == Some(bug)
}

/// Plants this bug on this thread, and removes the one planted before.
#[cfg(feature = "planted")]
pub fn plant(bug: Option<Bug>) {
    PLANTED.set(bug);
}

/// Returns how many cursors this thread has made.
#[cfg(feature = "planted")]
pub fn cursors_made() -> u64 {
    CURSORS.get()
}

#[cfg(feature = "planted")]
std::thread_local! {
    static PLANTED: Cell<Option<Bug>> = const { Cell::new(None) };
    static CURSORS: Cell<u64> = const { Cell::new(0) };
}
