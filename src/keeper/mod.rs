//! The background task that acquires, renews, moves and releases leases, the [`Issuer`], and the
//! [`Operator`].

mod acquire;
mod ask;
mod backfill;
mod context;
mod error;
mod handle;
mod hold;
mod issuer;
mod leaving;
mod observer;
mod operator;
mod panics;
mod prepare;
mod random;
mod running;
mod segment;
mod settings;
mod shared;
mod status;
mod task;
#[cfg(test)]
mod tests;

use std::{sync::Arc, time::Duration};

use rand::Rng;
use tokio::sync::watch;

#[cfg(feature = "server")]
pub(crate) use self::panics::catch_panic;
use self::{
    ask::ask,
    context::Context,
    running::Running,
    shared::{Report, Shared},
    task::Task,
};
pub use self::{
    backfill::{Backfill, BackfillError},
    error::IssueError,
    handle::{IssuerBlocks, IssuerHandle},
    issuer::Issuer,
    observer::{
        Exhaustion, KeeperTask, LeaseOperation, LeaseOutcome, NoObserver, Observer, RefillOutcome,
        RollbackAction, StoreOperation,
    },
    operator::{Freed, Moved, Operator, OperatorError, Raised, Relaid},
    segment::{
        GivenBack, RaiseError, SegmentHandle, SegmentIssuer, SegmentKeeper, SegmentSettings,
        SegmentStatus, raise_code,
    },
    settings::{KeeperSettings, LeaseTimes},
    status::{LeaseView, Status, Trouble},
};
use crate::{
    core::{clock::Clock, issue::Generator, violation::Violations},
    store::{Store, StoreError},
};

/// Why a keeper gave up for good.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum KeeperError {
    /// The namespace was recorded with another layout.
    #[error(
        "namespace {namespace}: this node's layout is `{ours}`, the store's is `{recorded}` (docs/operations.md tells how to move to another one)"
    )]
    LayoutConflict {
        /// The namespace.
        namespace: String,
        /// This node's layout in words.
        ours: String,
        /// The recorded layout in words.
        recorded: String,
    },
    /// The namespace is being moved to another layout.
    #[error(
        "namespace {namespace} is being moved to the layout `{to}`: run `raindrop workers relayout` with that layout to finish it"
    )]
    Moving {
        /// The namespace.
        namespace: String,
        /// The layout that it is being moved to, in words.
        to: String,
    },
    /// The settings contradict each other.
    #[error("{0}")]
    Settings(Violations),
    /// The store cannot be used as it is.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The background task ended or panicked, which is a defect: IDs go on until the limit.
    #[error("the {task} keeper's task failed: {reason}")]
    TaskFailed {
        /// Which task.
        task: KeeperTask,
        /// How it ended.
        reason: String,
    },
}

/// How a release ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Released {
    /// The row is free and its mark is true.
    Done,
    /// There was no row to give back.
    NothingHeld,
    /// The deadline passed; the row comes free after its ttl.
    GaveUp,
}

/// The background task of one namespace.
///
/// Dropping it ends the task without a release: IDs go on until the limit, and the row comes free
/// after its ttl. Prefer [`Keeper::release`].
#[derive(Debug)]
pub struct Keeper(Running<KeeperError, Released>);

impl Keeper {
    /// Starts the task on the current tokio runtime. Store errors are retried for ever.
    ///
    /// # Panics
    ///
    /// Outside a tokio runtime.
    pub fn start(
        settings: KeeperSettings,
        store: Arc<dyn Store>,
        clock: Arc<dyn Clock>,
        observer: Arc<dyn Observer>,
    ) -> (Self, Issuer) {
        Self::start_with(settings, store, clock, observer, random::of_the_system())
    }

    /// Like [`Self::start`], with the source of tokens, choices and jitter passed in: for tests
    /// and simulations. Everything else must use the operating system's randomness, because
    /// tokens must never repeat.
    ///
    /// # Panics
    ///
    /// Outside a tokio runtime.
    pub fn start_with(
        settings: KeeperSettings,
        store: Arc<dyn Store>,
        clock: Arc<dyn Clock>,
        observer: Arc<dyn Observer>,
        random: Box<dyn Rng + Send + Sync>,
    ) -> (Self, Issuer) {
        let (task, issuer) = parts(settings, store, clock, observer, random);
        (Self(Running::start(|stop, failed| task.run(stop, Some(failed)))), issuer)
    }

    /// Resolves once, when the keeper gave up for good or its task failed; pending otherwise.
    ///
    /// # Cancel safety
    ///
    /// May be dropped and asked again.
    pub async fn failed(&mut self) -> KeeperError {
        let failed = |reason| KeeperError::TaskFailed { task: KeeperTask::Lease, reason };
        self.0.failed().await.unwrap_or_else(failed)
    }

    /// Seals the grant, lowers the mark and frees the row, within the deadline. Afterwards no
    /// claim succeeds.
    pub async fn release(self, deadline: Duration) -> Released {
        self.0.stop(deadline).await.unwrap_or(Released::GaveUp)
    }
}

/// A task that nobody runs yet, and what issues from its leases.
fn parts(
    settings: KeeperSettings,
    store: Arc<dyn Store>,
    clock: Arc<dyn Clock>,
    observer: Arc<dyn Observer>,
    random: Box<dyn Rng + Send + Sync>,
) -> (Task, Issuer) {
    let (layout, issue) = (settings.layout.clone(), settings.issue.clone());
    let shared = Arc::new(Shared {
        namespace: settings.namespace.clone(),
        generator: Generator::without_lease(layout, issue, Arc::clone(&clock)),
        clock,
        observer,
        report: watch::Sender::new(Report::default()),
    });
    let issuer = Issuer { shared: Arc::clone(&shared) };
    (Task::new(Context::new(settings, store, shared, random)), issuer)
}
