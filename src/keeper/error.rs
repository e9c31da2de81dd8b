//! Why no ID was answered.

use std::time::Duration;

use super::Trouble;

/// Why an [`Issuer`](super::Issuer) answered no ID. Nothing was claimed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum IssueError {
    /// The code is no name for a sequence.
    #[error("code {0:?} must match [A-Za-z0-9][A-Za-z0-9._:-]{{0,63}}")]
    InvalidCode(String),
    /// The code is not among those that are served.
    #[error("code {0:?} is not among the configured codes")]
    UnknownCode(String),
    /// More IDs at once than the layout can ever give, or none.
    #[error("{count} IDs at once: must be 1 to {largest} with this layout")]
    InvalidCount {
        /// How many were asked for.
        count: u32,
        /// The largest number that can fit.
        largest: u32,
    },
    /// Every cursor is in use in the present tick.
    #[error("all {max} cursors are in use in the present tick")]
    TooManyCodes {
        /// How many codes there may be at a time.
        max: usize,
        /// When it is worth trying again.
        retry_after: Duration,
    },
    /// The sequence is used up as far ahead as a caller may be made to wait.
    #[error("the sequence numbers of this code are used up")]
    SequenceExhausted {
        /// When it is worth trying again.
        retry_after: Duration,
    },
    /// The clock went back further than is held.
    #[error("the clock went back by {behind_ms} ms")]
    ClockRollback {
        /// How far it is behind the last ID's.
        behind_ms: i64,
        /// When it is worth trying again.
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
    /// There is no lease, or none with range left.
    #[error("no lease with range left: {trouble}")]
    NoLease {
        /// Why.
        trouble: Trouble,
        /// When it is worth trying again.
        retry_after: Duration,
    },
}
