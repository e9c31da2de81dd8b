//! Bugs that the checkers must find.
//!
//! A checker that never finds anything proves nothing. So the code that keeps a safety rule asks
//! whether it is to be broken: [`planted`] is `false` at compile time, unless the feature `planted`
//! is on, as it is for `make model-test`. Then tests plant one [`Bug`] at a time on their thread, and
//! require that it is found.

#[cfg(feature = "planted")]
use std::cell::Cell;

/// A safety rule that is broken.
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
    /// A rotation that is settled while its row is being left replaces the generator's grant.
    LeavingTouchesGenerator,
    /// The token of a write is the one before plus 1.
    TokenDerived,
    /// A process takes a row with its holder for its own.
    OwnByHolder,
    /// A renewal keeps the token.
    RenewalKeepsToken,
    /// Every row is born with the same token.
    TokenOfBirth,
    /// Missing rows are created by a decision that may be out of date.
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
    /// A write with an unknown outcome is taken for one that failed.
    LostReplyIsFailure,
    /// The limit is computed from the mark and without its cap: not unsafe, but a crash loop pushes
    /// the marks into the future.
    LimitWithoutCap,
    /// A row is swapped without reading the record again after the row was read.
    RecordNotReread,
    /// A move to another layout does not change the tokens of the old layout's rows.
    RelayoutWithoutFencing,
    /// The rows carry no epoch: a row of any epoch counts as one of the present epoch.
    EpochNotInRows,
    /// Nobody compares the identity of the server.
    IdentityIgnored,
    /// The store compares its identity and epoch when a process asks, and not in the swap.
    IdentityCheckedBefore,
    /// The epoch is made of the identity, so that a fail-back brings it back.
    EpochIsIdentity,
    /// An epoch that the record forgot counts as one that the store lost.
    ForgottenEpochIsLost,
    /// The barrier is computed from the node's clock alone.
    BarrierByNodeClock,
    /// A process that starts takes a row at once, though no holder renewed for long.
    StaleStoreTaken,
    /// IDs for a past time are issued, whatever the holder's row shows after the reservation.
    PastUnconfirmed,
    /// A write of any age confirms that the store lost nothing since.
    OldWriteConfirms,
    /// A process that starts looks for living holders among the rows alone that it may lease.
    OtherRowsIgnored,
    /// A lease is renewed in place whatever the epoch of its row is.
    RenewedAcrossEpochs,
    /// A write under a new epoch raises the lane in use to the barrier, and not the others.
    OtherLanesNotRaised,
    /// An operator frees a row that is held and does not raise its mark.
    ReleaseKeepsMark,
    /// State file: the limit rises before the local mark is in the file.
    LocalMarkAfterIssuing,
    /// State file: a lease stays in the file while a write that lowers its mark is sent.
    KeptWhileLowered,
    /// State file: a resumed lease starts at the present tick.
    ResumedAtClock,
    /// State file: a resumed process takes over whatever token its row has.
    ResumedTokenUnchecked,
    /// State file: several processes use one file.
    StateFileUnlocked,
    /// Segment mode: the quick limit is raised before the cursor has reached the block.
    QuickLimitAhead,
    /// Segment mode: numbers are given back without sealing the cursor.
    GivenBackUnsealed,
    /// Segment mode: a whole block is given back, although some of it was handed out.
    GivenBackWhole,
    /// Segment mode: the first reservation after a fail-over skips nothing.
    GapNotSkipped,
}

/// Whether this is a build for checkers: bugs can be planted, or the primitives are loom's. The
/// service refuses to be compiled with it.
pub const FOR_CHECKERS: bool = cfg!(any(feature = "planted", feature = "loom"));

/// Returns whether this bug is planted: never, outside the checkers' builds.
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

/// Plants this bug on this thread instead of the one before.
#[cfg(feature = "planted")]
pub fn plant(bug: Option<Bug>) {
    PLANTED.set(bug);
}

/// Returns how many cursors were made on this thread.
#[cfg(feature = "planted")]
pub fn cursors_made() -> u64 {
    CURSORS.get()
}

#[cfg(feature = "planted")]
std::thread_local! {
    static PLANTED: Cell<Option<Bug>> = const { Cell::new(None) };
    static CURSORS: Cell<u64> = const { Cell::new(0) };
}
