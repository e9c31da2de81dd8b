//! Rules of safety that a model or simulation can break on purpose.
//!
//! A checker that never finds anything proves nothing. So the decisions of issuing and leasing
//! take a [`Policy`]: the service and the library are built with [`Sound`], which breaks no rule
//! and costs nothing, and tests plant one [`Bug`] at a time and demand that it is found.

use std::fmt::Debug;

/// A rule that is broken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Bug {
    /// Claims pass the limit of the lease.
    LimitIgnored,
    /// The limit rises before the store confirmed the mark.
    MarkAfterIssuing,
    /// A write's token is the one before plus 1.
    TokenDerived,
    /// A row that carries our holder is taken for ours.
    OwnByHolder,
    /// A renewal writes the token that it found.
    RenewalKeepsToken,
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
    /// Segment mode: quick claims may end in a block before the cursor has reached it.
    QuickLimitAhead,
    /// Segment mode: what is given back can still be claimed.
    GivenBackUnsealed,
    /// Segment mode: a whole block is given back, though some of it was handed out.
    GivenBackWhole,
}

/// Which rules are broken.
pub trait Policy: Copy + Debug + Default + Send + Sync + 'static {
    /// Whether this one is.
    fn has(self, bug: Bug) -> bool;
}

/// Breaks no rule.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Sound;

impl Policy for Sound {
    #[inline(always)]
    fn has(self, _: Bug) -> bool {
        false
    }
}
