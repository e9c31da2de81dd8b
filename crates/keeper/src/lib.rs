//! Worker ids and blocks of numbers leased from a store, and the IDs and numbers issued with them.
//!
//! A background task, the [`Keeper`], acquires, renews, moves and releases the lease of a namespace; an
//! [`Issuer`] issues its IDs. [`SegmentKeeper`] and [`SegmentIssuer`] do the same for plain numbers.
//! The [`Operator`] does what the command line and the administrators' routes ask for.
//!
//! [`core`] and [`store`] are re-exported: an embedder names this package alone, with the features of
//! its engines (`kubernetes`, `mysql`, `postgres`, `redis`, `sqlite`).
//!
//! # Example
//!
//! The keeper leases a worker id from the store and renews it in the background. Issuing does not
//! query the store, so it continues while the store is down.
//!
//! ```
//! # #[cfg(feature = "sqlite")]
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use std::{sync::Arc, time::Duration};
//! use raindrop_keeper::{
//!     Keeper, KeeperSettings, NoObserver,
//!     core::{clock::SystemClock, preset::Preset},
//!     store::{StoreSettings, connect},
//! };
//!
//! # tokio::runtime::Runtime::new()?.block_on(async {
//! # let folder = tempfile::tempdir()?;
//! # let url = format!("sqlite://{}", folder.path().join("ids.db").display());
//! let clock = Arc::new(SystemClock::default());
//! let store = connect(&StoreSettings::new(url), clock.clone())?;
//! let settings = KeeperSettings::new(Preset::Raindrop.spec().build()?, "my service");
//! let (keeper, issuer) = Keeper::start(settings, store.clone(), clock, Arc::new(NoObserver));
//!
//! let id = issuer.next_id("order").await?;
//! let batch: Vec<_> = issuer.next_ids("order", 1000).await?.collect();
//! assert!(id < batch[0]);
//!
//! // A clean stop frees the worker id at once.
//! keeper.release(Duration::from_secs(10)).await;
//! store.close().await;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! # })
//! # }
//! # #[cfg(not(feature = "sqlite"))]
//! # fn main() {}
//! ```

mod acquire;
mod backfill;
mod clock_reading;
mod error;
mod follower;
mod handle;
mod held_lease;
mod history;
mod issuer;
mod keeper_state;
mod lease_history;
mod lease_store;
mod namespace_issuer;
mod observer;
mod operator;
mod panics;
#[cfg(feature = "planted")]
mod planted;
mod prepare;
mod random;
mod releasing_row;
mod segment;
mod settings;
mod state_file;
mod status;
mod stopping;
mod store_call;
mod task;
mod task_handle;
#[cfg(test)]
mod tests;

use std::{sync::Arc, time::Duration};

pub use raindrop_core as core;
use raindrop_core::{clock::Clock, issue::Generator};
pub use raindrop_store as store;
use raindrop_store::Store;
use rand::Rng;
use tokio::sync::watch;

#[doc(hidden)]
pub use self::panics::catch_panic;
#[cfg(any(test, feature = "planted"))]
pub use self::state_file::MemoryDisk;
pub use self::{
    backfill::{Backfill, BackfillError},
    error::{IssueError, KeeperError, LayoutError},
    handle::{IssuerBlocks, IssuerHandle},
    issuer::Issuer,
    namespace_issuer::NamespaceIssuer,
    observer::{
        Exhaustion, KeeperTask, LeaseOperation, LeaseOutcome, NoObserver, Observer, RefillOutcome,
        RollbackAction, StoreOperation,
    },
    operator::{
        FinishedMove, Operator, OperatorError, RaisePreview, RelayoutOutcome, RelayoutPreview,
        WorkerRelease,
    },
    segment::{
        CodeKind, CodeManager, CodeView, GivenBack, ManageError, RaiseError, SegmentHandle,
        SegmentIssuer, SegmentKeeper, SegmentSettings, SegmentStatus,
    },
    settings::{KeeperSettings, LeaseTimes},
    state_file::{StateFile, StateFileError},
    status::{LeaseView, Status, StoreFailure, UnavailableReason},
};
use self::{
    keeper_state::KeeperState,
    lease_store::LeaseStore,
    random::{Random, system_random},
    task::Task,
    task_handle::TaskHandle,
};

/// How a keeper's release ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Released {
    /// The row is free, and its mark is where the next lease may begin.
    Done,
    /// No row was held.
    NothingHeld,
    /// The store did not answer; the state file keeps the lease for the next process.
    Kept,
    /// The deadline passed; the row expires after its ttl.
    GaveUp,
}

/// The background task of one namespace.
///
/// Dropping it ends the task without a release: IDs are issued up to the limit, and the row
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

    /// Starts the task like [`Self::start`], with the source of tokens, choices and jitter passed
    /// in: for tests and simulations. All others must use the operating system's randomness,
    /// because tokens must never repeat.
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

    /// Resolves once, when the keeper or its task failed permanently; pending otherwise.
    ///
    /// # Cancel safety
    ///
    /// May be dropped and called again.
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

/// Creates a task, which does not run yet, and the issuer of its leases.
fn task_and_issuer(
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
    });
    let issuer = Issuer { state: Arc::clone(&state) };
    (Task::new(LeaseStore::new(settings, store, state, Random(random))), issuer)
}
