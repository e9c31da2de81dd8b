//! Runs the task of a namespace's lease in the background, and gives its issuer to the application.
//!
//! [`NamespaceIssuer`] is the issuer of a namespace of either mode. `lease` keeps the lease itself,
//! `segment` the blocks.

use std::{
    sync::{Arc, Mutex, atomic::AtomicBool},
    time::Duration,
};

use raindrop_core::{clock::Clock, issue::Generator, layout::Layout};
use raindrop_store::Store;
use rand::Rng;
use tokio::sync::watch;

use crate::{
    lease::{
        context::LeaseContext, issuer::Issuer, settings::KeeperSettings, shared::KeeperState,
        stop::Released, task::Task,
    },
    segment::issuer::SegmentIssuer,
    support::{
        error::KeeperError,
        observer::{KeeperTask, Observer},
        random::{Random, system_random},
        status::{FailureLog, Status, UnavailableReason},
        tasks::{KeeperRuntime, TaskHandle},
    },
};

/// The background task of one namespace.
///
/// If it is dropped, the task ends without a release: IDs are issued up to the limit, and the row
/// expires after its ttl. Prefer [`Keeper::release`].
#[derive(Debug)]
pub struct Keeper(TaskHandle<KeeperError, Released>);

impl Keeper {
    /// Starts the task on the current tokio runtime. It retries store errors forever.
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
        Self::start_with(settings, store, clock, observer, system_random())
    }

    /// Starts the task like [`Self::start`], with a given source of tokens, choices and jitter, for
    /// tests and simulations. Any other caller must use the operating system's randomness, because
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
        let (task, issuer) = task_and_issuer(settings, store, clock, observer, random);
        (Self(TaskHandle::start(|stop, failed| task.run(stop, failed))), issuer)
    }

    /// Resolves once, when the keeper or its task failed permanently. Pending otherwise.
    ///
    /// # Cancel safety
    ///
    /// May be dropped and called again.
    pub async fn failed(&mut self) -> KeeperError {
        let failed = |reason| KeeperError::TaskFailed { task: KeeperTask::Lease, reason };
        self.0.failed().await.unwrap_or_else(failed)
    }

    /// Seals the grant, lowers the mark and frees the row, within the deadline. No claim succeeds
    /// afterwards.
    pub async fn release(self, deadline: Duration) -> Released {
        self.0.stop(deadline).await.unwrap_or(Released::GaveUp)
    }
}

/// Creates a task that does not run yet, and the issuer of its leases.
pub(crate) fn task_and_issuer(
    settings: KeeperSettings,
    store: Arc<dyn Store>,
    clock: Arc<dyn Clock>,
    observer: Arc<dyn Observer>,
    random: Box<dyn Rng + Send + Sync>,
) -> (Task, Issuer) {
    let (layout, issue) = (settings.layout.clone(), settings.issue.clone());
    let state = Arc::new(KeeperState {
        namespace: settings.namespace.clone(),
        lease: settings.lease,
        generator: Arc::new(Generator::without_lease(layout, issue, Arc::clone(&clock))),
        clock,
        observer,
        report: watch::Sender::new(Status {
            reason: Some(UnavailableReason::Starting),
            ..Status::default()
        }),
        failures: FailureLog::default(),
        runtime: KeeperRuntime::present(),
        wake_up: Arc::default(),
        own_write: Mutex::default(),
        is_doubted: AtomicBool::new(false),
    });
    let issuer = Issuer { state: Arc::clone(&state) };
    (Task::new(LeaseContext::new(settings, store, state, Random(random))), issuer)
}

/// Issues IDs or numbers of one namespace. Cheap to clone.
#[derive(Clone, Debug)]
pub enum NamespaceIssuer {
    /// Issues IDs from a time and a worker id.
    Snowflake(Issuer),
    /// Issues plain numbers.
    Segment(SegmentIssuer),
}

impl NamespaceIssuer {
    /// Returns the name of the namespace.
    pub fn namespace(&self) -> &str {
        match self {
            Self::Snowflake(issuer) => issuer.namespace(),
            Self::Segment(issuer) => issuer.namespace(),
        }
    }

    /// Returns the layout of the IDs; plain numbers have none.
    pub fn layout(&self) -> Option<&Layout> {
        match self {
            Self::Snowflake(issuer) => Some(issuer.layout()),
            Self::Segment(_) => None,
        }
    }

    /// Returns whether IDs can be issued now.
    pub fn is_issuing(&self) -> bool {
        match self {
            Self::Snowflake(issuer) => issuer.status().is_issuing(),
            Self::Segment(issuer) => issuer.status().issuing,
        }
    }

    /// Resolves when IDs can be issued for the first time, or when the keeper shuts down.
    pub async fn ready(&self) {
        match self {
            Self::Snowflake(issuer) => drop(issuer.leased().await),
            Self::Segment(issuer) => issuer.prepared().await,
        }
    }

    /// Returns why no ID can be issued, or why issuing will soon stop.
    pub fn reason(&self) -> Option<UnavailableReason> {
        match self {
            Self::Snowflake(issuer) => issuer.status().reason,
            Self::Segment(issuer) => issuer.status().reason,
        }
    }
}

impl From<Issuer> for NamespaceIssuer {
    fn from(issuer: Issuer) -> Self {
        Self::Snowflake(issuer)
    }
}

impl From<SegmentIssuer> for NamespaceIssuer {
    fn from(issuer: SegmentIssuer) -> Self {
        Self::Segment(issuer)
    }
}
