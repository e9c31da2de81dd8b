//! A claim: how many IDs it takes, what it returns, and why it was refused.

use std::time::Duration;

use super::{
    Run,
    grant::{Grant, Granted},
};
use crate::{code::CODE_PATTERN, layout::Composer};

/// How many IDs a claim takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Count {
    /// So many, or none.
    Exactly(u32),
    /// At least one and at most so many, so that the next claim waits for 10 ms at most. Of a tick that
    /// lasts longer, of what is leased, and of numbers in hand it leaves others some.
    UpTo(u32),
}

impl Count {
    /// The largest number of IDs that the claim can take.
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

/// Claimed IDs. Nobody else gets them, whatever happens to the process or the lease.
#[derive(Debug)]
pub struct Claim {
    /// The IDs, ascending.
    pub ids: Run,
    /// How long to wait, on a clock that does not step, before using them.
    pub wait: Duration,
    /// Whether they reach beyond the present tick and can be used at once.
    pub borrowed: bool,
    /// Whether this claim was the first to see the clock behind, within `hold`.
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

    /// A claim within the present tick.
    #[inline]
    pub(super) fn within_tick(composer: Composer, first: u64, count: u32) -> Self {
        let ids = Run::new(composer, first, first + u64::from(count));
        Self { ids, wait: Duration::ZERO, borrowed: false, hold_began: false }
    }
}

/// Why a [`Generator`](super::Generator) refused a claim. It claimed nothing then.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ClaimError {
    /// The code does not match [`CODE_PATTERN`].
    #[error("code {0:?}: must match {CODE_PATTERN}")]
    InvalidCode(String),
    /// The code is not among those that are allowed.
    #[error("code {0:?} is not among the configured codes")]
    UnknownCode(String),
    /// The code was retired: no number of it is issued again.
    #[error("code {0:?} is retired")]
    RetiredCode(String),
    /// The claim asks for no ID, or for more IDs than fit even on an idle code.
    #[error("{count} IDs at once: must be 1 to {largest} with this layout")]
    InvalidCount {
        /// The number of IDs that was asked for.
        count: u32,
        /// The largest number that fits on an idle code.
        largest: u32,
    },
    /// Every cursor is in use: in the present tick, or permanently in segment mode.
    #[error("all {max} codes that are allowed at a time are in use")]
    TooManyCodes {
        /// The largest number of codes at a time.
        max: usize,
        /// When to try again.
        retry_after: Duration,
    },
    /// The client has had its share of new codes.
    #[error("this client has had {max} new codes, as many as `codes.max_per_client` allows")]
    ClientShareUsed {
        /// How many new codes a client may have.
        max: usize,
        /// When to try again.
        retry_after: Duration,
    },
    /// The sequence is used up as far ahead as a caller may wait.
    #[error("this code has too few sequence numbers left")]
    SequenceExhausted {
        /// When the claim can fit.
        retry_after: Duration,
    },
    /// The clock went back by more than [`IssueSettings::hold`](super::IssueSettings::hold).
    #[error("the clock went back by {behind_ms} ms")]
    ClockRollback {
        /// How far it is behind the highest reading that IDs were issued at.
        behind_ms: i64,
        /// When it will have caught up enough.
        retry_after: Duration,
    },
    /// The clock is before the layout's epoch or past its end.
    #[error("the clock reads {now}, and the layout's IDs reach from {from} to {until}")]
    ClockOutOfRange {
        /// The clock, RFC 3339.
        now: String,
        /// The epoch, RFC 3339.
        from: String,
        /// The end of the timestamp, RFC 3339.
        until: String,
    },
    /// The claim reaches beyond the lease; it can succeed when the lease is renewed.
    #[error("the lease is used up; its renewal is under way")]
    LimitReached,
    /// No lease is held.
    #[error("no lease is held")]
    NoLease,
}
