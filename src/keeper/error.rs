//! Why no ID was answered.

use std::time::Duration;

use super::Trouble;
use crate::core::issue::ClaimError;

/// Why an [`Issuer`](super::Issuer) answered no ID. Nothing was claimed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum IssueError {
    /// The claim was refused; never [`ClaimError::NoLease`] or [`ClaimError::LimitReached`].
    #[error(transparent)]
    Refused(ClaimError),
    /// There is no lease with range left, or in segment mode no block in hand.
    #[error("nothing left to issue from: {trouble}")]
    NoLease {
        /// Why.
        trouble: Trouble,
        /// When it is worth trying again.
        retry_after: Duration,
    },
}
