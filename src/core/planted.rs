//! Rules of safety that models and simulations break on purpose.
//!
//! A checker that never finds anything proves nothing. So the places that keep a rule ask whether
//! it is broken: [`planted`] is `false` at compile time, unless the crate is built with
//! `--cfg raindrop_planted`, as `make model-test` does. Then tests plant one [`Bug`] at a time on
//! their thread, and demand that it is found.

#[cfg(raindrop_planted)]
use std::cell::Cell;

/// A rule that is broken.
#[cfg_attr(
    not(raindrop_planted),
    expect(dead_code, unreachable_pub, reason = "some are asked for in the checkers' builds only")
)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Bug {
    /// Claims pass the limit of the lease.
    LimitIgnored,
    /// The limit rises before the store acknowledged the mark.
    MarkAfterIssuing,
    /// Reading its own token makes a process raise its limit, or install a grant.
    VisibleIsDurable,
    /// A rotation that is settled while its row is being left replaces the generator's grant.
    LeavingTouchesGenerator,
    /// A write's token is the one before plus 1.
    TokenDerived,
    /// A row that carries our holder is taken for ours.
    OwnByHolder,
    /// A renewal writes the token that it found.
    RenewalKeepsToken,
    /// Every row is born with the same token.
    TokenOfBirth,
    /// Missing rows are created on a decision that may be out of date.
    StaleBirth,
    /// After a lowering write timed out and the row is unchanged, the lease is used again.
    GoesOnAfterLowering,
    /// A mark is lowered while claims go on.
    LoweredUnsealed,
    /// A lease that issued nothing lowers its mark to 0.
    LoweredBelowStart,
    /// The mark becomes the last claimed position, not the one after it.
    LoweredToLastClaimed,
    /// A new cursor starts at the present tick.
    CursorAtClock,
    /// A renewal makes a new table.
    TablePerRenewal,
    /// Evicting does not raise the floor.
    EvictionWithoutFloor,
    /// A write without an answer is taken for one that failed.
    LostReplyIsFailure,
    /// The limit is computed from the mark and without its cap: not unsafe, but a crash loop
    /// pushes the marks away.
    LimitWithoutCap,
    /// A row is swapped without a look at the record after it was read.
    RecordNotReread,
    /// A move to another layout leaves the old layout's rows their tokens.
    RelayoutWithoutFencing,
    /// Raising a row's marks keeps its token.
    RaiseKeepsToken,
    /// Segment mode: quick claims may end in a block before the cursor has reached it.
    QuickLimitAhead,
    /// Segment mode: what is given back can still be claimed.
    GivenBackUnsealed,
    /// Segment mode: a whole block is given back, though some of it was handed out.
    GivenBackWhole,
}

/// Whether this rule is broken: never, outside the checkers' builds.
#[cfg(not(raindrop_planted))]
#[inline(always)]
pub(crate) const fn planted(_: Bug) -> bool {
    false
}

/// Whether this rule is broken on this thread.
#[cfg(raindrop_planted)]
pub fn planted(bug: Bug) -> bool {
    if bug == Bug::CursorAtClock {
        CURSORS.set(CURSORS.get() + 1);
    }
    PLANTED.get() == Some(bug)
}

/// Breaks this rule on this thread, instead of the one before.
#[cfg(raindrop_planted)]
pub fn plant(bug: Option<Bug>) {
    PLANTED.set(bug);
}

/// How many cursors were made on this thread: nothing else tells.
#[cfg(raindrop_planted)]
pub fn cursors_made() -> u64 {
    CURSORS.get()
}

#[cfg(raindrop_planted)]
std::thread_local! {
    static PLANTED: Cell<Option<Bug>> = const { Cell::new(None) };
    static CURSORS: Cell<u64> = const { Cell::new(0) };
}
