//! Why a keeper stopped, and why no ID was issued.

use std::time::Duration;

use raindrop_core::{issue::ClaimError, lease::Recorded, violation::Violations};
use raindrop_store::StoreError;

use super::{observer::KeeperTask, status::UnavailableReason};

/// Why an [`Issuer`](crate::Issuer) issued no ID. Nothing was claimed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum IssueError {
    /// The claim was refused; never [`ClaimError::NoLease`] or [`ClaimError::LimitReached`].
    #[error(transparent)]
    Refused(ClaimError),
    /// No lease has range left or, in segment mode, the code has no reserved numbers left.
    #[error("nothing left to issue from: {reason}")]
    NoLease {
        /// The reason.
        reason: UnavailableReason,
        /// The pause before a retry.
        retry_after: Duration,
    },
}

/// Why a keeper failed permanently.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum KeeperError {
    /// The namespace's layout record does not allow the configured layout.
    #[error(transparent)]
    Layout(#[from] LayoutError),
    /// The settings contradict each other.
    #[error("{0}")]
    Settings(Violations),
    /// The store cannot be used as it is.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The background task ended or panicked, which is a defect of Raindrop. IDs are issued up to
    /// the limit.
    #[error("the {} keeper's task failed: {reason}", .task.name())]
    TaskFailed {
        /// The task.
        task: KeeperTask,
        /// How it ended.
        reason: String,
    },
}

/// Why a namespace's layout record does not allow the configured layout.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LayoutError {
    /// The record names another layout.
    #[error(
        "namespace {namespace}: the configured layout is `{ours}`, the store's is `{recorded}` \
         (docs/guides/relayout.md describes how to move to another one)"
    )]
    Conflict {
        /// The namespace.
        namespace: String,
        /// The configured layout, as its canonical text.
        ours: String,
        /// The recorded layout.
        recorded: String,
    },
    /// A move to another layout began and is not finished.
    #[error(
        "namespace {namespace} is being moved to the layout `{to}`: run `raindrop workers \
         relayout` with that layout to finish it"
    )]
    Moving {
        /// The namespace.
        namespace: String,
        /// The layout that it is being moved to.
        to: String,
    },
}

impl LayoutError {
    /// Checks that a record names the configured layout.
    pub(crate) fn check(namespace: &str, ours: &str, recorded: &str) -> Result<(), Self> {
        if recorded == ours {
            return Ok(());
        }
        let namespace = namespace.to_owned();
        Err(match Recorded::read(recorded) {
            Ok(Recorded::Moving(relayout)) => Self::Moving { namespace, to: relayout.to },
            _ => Self::Conflict { namespace, ours: ours.into(), recorded: recorded.into() },
        })
    }
}
