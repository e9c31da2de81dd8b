//! Why a claim was refused.

use std::time::Duration;

use crate::core::code::CODE_PATTERN;

/// Why a [`Generator`](super::Generator) claimed nothing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ClaimError {
    /// The code is no name for a sequence.
    #[error("code {0:?}: must match {CODE_PATTERN}")]
    InvalidCode(String),
    /// The code is not among those that are served.
    #[error("code {0:?} is not among the configured codes")]
    UnknownCode(String),
    /// No ID, or more IDs at once than the layout can ever give.
    #[error("{count} IDs at once: must be 1 to {largest} with this layout")]
    InvalidCount {
        /// How many were asked for.
        count: u32,
        /// The largest number that can fit, even on an idle code.
        largest: u32,
    },
    /// Every cursor is in use: in the present tick, or in segment mode for good.
    #[error("all {max} codes that there may be at a time are in use")]
    TooManyCodes {
        /// How many codes there may be at a time.
        max: usize,
        /// When it is worth trying again.
        retry_after: Duration,
    },
    /// The sequence is used up as far ahead as a caller may be made to wait.
    #[error("this code has too few sequence numbers left")]
    SequenceExhausted {
        /// When the claim can fit.
        retry_after: Duration,
    },
    /// The clock went back further than is held.
    #[error("the clock went back by {behind_ms} ms")]
    ClockRollback {
        /// How far it is behind the highest reading that IDs were issued under.
        behind_ms: i64,
        /// When the clock has caught up enough.
        retry_after: Duration,
    },
    /// The clock is before the layout's epoch or past its end.
    #[error("the clock says {now}, and the layout's IDs reach from {from} to {until}")]
    ClockOutOfRange {
        /// The clock, RFC 3339.
        now: String,
        /// The epoch, RFC 3339.
        from: String,
        /// The end of the timestamp, RFC 3339.
        until: String,
    },
    /// The claim reaches beyond the lease; it can succeed when the lease is renewed.
    #[error("the lease is used up until it is renewed")]
    LimitReached,
    /// No lease is held.
    #[error("no lease is held")]
    NoLease,
}
