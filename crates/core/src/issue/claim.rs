//! Claims: their size, their result, and the reasons to refuse them.

use std::time::Duration;

use super::{
    Run,
    grant::{Grant, Granted},
};
use crate::{code::CODE_PATTERN, layout::Composer, segment::TextForm};

/// How many IDs a claim takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Count {
    /// Exactly this many IDs, or none.
    Exactly(u32),
    /// At least one ID and at most this many. The claim leaves some of the tick, of the lease and
    /// of the reserved numbers to other callers, so that the next one waits for at most 10 ms.
    UpTo(u32),
}

impl Count {
    /// Returns the largest number of IDs that the claim can take.
    pub const fn most(self) -> u32 {
        match self {
            Self::Exactly(count) | Self::UpTo(count) => count,
        }
    }
}

impl From<u32> for Count {
    fn from(count: u32) -> Self {
        Self::Exactly(count)
    }
}

/// Claimed IDs. They belong to the caller: no other claim returns them, even if the process dies or
/// the lease is lost before they are used.
#[derive(Debug)]
pub struct Claim {
    /// The IDs, ascending.
    pub ids: Run,
    /// How long the caller must wait before it uses them, on a clock that does not step.
    pub wait: Duration,
    /// Whether they reach beyond the present tick and can be used at once, as `borrow_ahead`
    /// allows.
    pub borrowed: bool,
    /// Whether this claim was the first to find the clock behind by at most `hold`.
    pub hold_began: bool,
}

impl Claim {
    pub(super) fn new(grant: &Grant, granted: Granted) -> Self {
        let Granted { plan, hold_began, .. } = granted;
        Self {
            ids: Run::new(grant.composer(), plan.first, plan.end),
            wait: plan.wait,
            borrowed: plan.borrowed,
            hold_began,
        }
    }

    /// Makes a claim of positions in the present tick, which needs no wait.
    #[inline]
    pub(super) fn within_tick(composer: Composer, first: u64, count: u32) -> Self {
        let ids = Run::new(composer, first, first + u64::from(count));
        Self { ids, wait: Duration::ZERO, borrowed: false, hold_began: false }
    }
}

/// Why a [`Generator`](super::Generator) refused a claim. A refused claim takes no ID.
///
/// The client is at fault in `InvalidCode`, `UnknownCode`, `MemberTooLong`, `RetiredCode`,
/// `NoIdempotencyKeys` and `InvalidCount`: a retry fails again. `ClockOutOfRange` lasts until an
/// operator mends the clock or the layout. A retry can succeed after any other one: after
/// `retry_after` where there is one, otherwise once the keeper has renewed or acquired a lease.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ClaimError {
    /// The code does not match [`CODE_PATTERN`].
    #[error("code {0:?}: must match {CODE_PATTERN}")]
    InvalidCode(String),
    /// The code is not among those that [`IssueSettings::codes_allow`](super::IssueSettings) lists.
    #[error("code {0:?} is not among the configured codes")]
    UnknownCode(String),
    /// The code is a member of a series, and its texts would be longer than a form of texts.
    #[error(
        "code {0:?}: what follows its last : is too long for its texts, whose form may have \
         {longest} characters",
        longest = TextForm::LONGEST
    )]
    MemberTooLong(String),
    /// The code was retired: no number of it is issued again.
    #[error("code {0:?} is retired")]
    RetiredCode(String),
    /// The claim has an idempotency key, which this code does not take.
    #[error("code {code:?} takes no idempotency key: {because}")]
    NoIdempotencyKeys {
        /// The code.
        code: String,
        /// The reason.
        because: &'static str,
    },
    /// The claim asks for no ID, or for more IDs than an idle code has within the longest wait.
    #[error("{count} IDs at once: must be 1 to {largest} with this layout")]
    InvalidCount {
        /// The number of IDs that the claim asked for.
        count: u32,
        /// The largest number that an idle code can issue.
        largest: u32,
    },
    /// The table of cursors is full, and every code in it was used in the present tick; in segment
    /// mode, codes are never evicted.
    #[error("all {max} codes that are allowed at a time are in use")]
    TooManyCodes {
        /// The largest number of codes at a time.
        max: usize,
        /// How long until the present tick ends.
        retry_after: Duration,
    },
    /// The client has had its share of new codes.
    #[error("this client has had {max} new codes, as many as `codes.max_per_client` allows")]
    ClientShareUsed {
        /// How many new codes a client may have.
        max: usize,
        /// How long until the present tick ends.
        retry_after: Duration,
    },
    /// The sequence numbers of every tick that a caller may wait for are used up.
    #[error("this code has too few sequence numbers left")]
    SequenceExhausted {
        /// How long until the claim fits.
        retry_after: Duration,
    },
    /// The clock went back by more than [`IssueSettings::hold`](super::IssueSettings::hold).
    #[error("the clock went back by {behind_ms} ms")]
    ClockRollback {
        /// How far the clock is behind the highest reading at which IDs were issued, in
        /// milliseconds.
        behind_ms: i64,
        /// How long the clock takes to catch up, if it runs on normally.
        retry_after: Duration,
    },
    /// The clock is before the layout's epoch or past its end.
    #[error("the clock reads {now}, and the layout's IDs reach from {from} to {until}")]
    ClockOutOfRange {
        /// The reading of the clock, in RFC 3339.
        now: String,
        /// The layout's epoch, in RFC 3339.
        from: String,
        /// The instant from which the timestamp is too small, in RFC 3339.
        until: String,
    },
    /// The claim reaches beyond the lease; it can succeed when the lease is renewed.
    #[error("the lease is used up; its renewal is under way")]
    LimitReached,
    /// The generator has no grant: the keeper has not leased a worker id yet, or lost it.
    #[error("no lease is held")]
    NoLease,
}
