//! The state that all codes of a namespace, and all segment namespaces of a store, share.

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use raindrop_core::{
    issue::ClaimError,
    lease::{History, Token},
    segment::CodeRow,
};
use raindrop_store::{LayoutRecord, Store, StoreError};
use tokio::{
    sync::{Semaphore, SemaphorePermit, watch},
    time::Instant,
};

use super::{
    creations::{Creation, Creations},
    record_of,
    settings::SegmentSettings,
};
use crate::{
    history::follower::{Access, Follower},
    support::{
        observer::{Observer, StoreOperation},
        random::Random,
        status::{FailureLog, StoreFailure, UnavailableReason},
        store_call::store_call,
        tasks::KeeperRuntime,
    },
};

/// Number of calls for refills at a time. Further ones wait for a permit here: in the store's queue
/// for a connection they would time out.
const REFILLS: usize = 2;
/// Number of calls at a time for claims of unknown codes.
const CLAIMS: usize = 2;

/// Who makes a call of the store. Each purpose has permits of its own, so that a poll does not wait
/// behind the refills of many codes: it finds out that the store was rolled back. Nor does a claim
/// wait for the permit of a poll, whose list of codes may take long. A claim's own list ends after
/// [`SegmentSettings::max_wait`]: if lists take longer, only polls find new codes, and until then
/// claims of unknown codes are answered that the store is unavailable.
#[derive(Clone, Copy, Debug)]
pub(super) enum Purpose {
    /// A code that needs a block, or gives numbers back.
    Refill,
    /// The start or a poll: one call at a time.
    Poll,
    /// A claim of a code that this node does not know.
    Claim,
}

/// One namespace, without its codes.
#[derive(Debug)]
pub(super) struct Namespace {
    pub(super) settings: SegmentSettings,
    pub(super) observer: Arc<dyn Observer>,
    pub(super) shared: Arc<SharedStore>,
    pub(super) creations: Creations,
    /// Failures of preparing and of reserving.
    pub(super) refill_failures: FailureLog,
    pub(super) poll_failures: FailureLog,
    follower: Follower,
}

/// The store of every segment namespace, and its latest status.
#[derive(Debug)]
pub(super) struct SharedStore {
    pub(super) store: Arc<dyn Store>,
    pub(super) report: watch::Sender<Report>,
    pub(super) runtime: KeeperRuntime,
    random: Mutex<Random>,
    refills: Semaphore,
    polls: Semaphore,
    claims: Semaphore,
}

/// The latest status of the store, as the task found it.
#[derive(Clone, Debug, Default)]
pub(super) struct Report {
    /// Whether tables and codes were created.
    pub(super) prepared: bool,
    /// Whether the task has ended, so that nothing more is reserved.
    pub(super) ended: bool,
    pub(super) failing: Option<Failing>,
}

/// A failure of the store, and since when it fails.
#[derive(Clone, Debug)]
pub(super) struct Failing {
    pub(super) error: StoreFailure,
    since: Instant,
}

impl Failing {
    /// Returns the present failure, with the time of the first one.
    pub(super) fn again(error: StoreFailure, before: Option<&Self>) -> Self {
        Self { error, since: before.map_or_else(Instant::now, |before| before.since) }
    }

    /// Returns the reason, if it has failed for at least this long.
    pub(super) fn reason_after(self, duration: Duration) -> Option<UnavailableReason> {
        let is_due = self.since.elapsed() >= duration;
        is_due.then_some(UnavailableReason::StoreUnavailable(self.error))
    }
}

impl Namespace {
    pub(super) fn new(
        settings: SegmentSettings,
        observer: Arc<dyn Observer>,
        shared: Arc<SharedStore>,
    ) -> Self {
        let follower = Follower::of_numbers(&settings.namespace, record_of(&*shared.store));
        Self {
            settings,
            observer,
            shared,
            creations: Creations::default(),
            refill_failures: FailureLog::default(),
            poll_failures: FailureLog::default(),
            follower,
        }
    }

    /// Returns the namespace's record. Creates it if there is none.
    pub(super) async fn recorded(&self) -> Result<LayoutRecord, StoreError> {
        let fresh = || self.shared.random().fresh_token();
        let _permit = self.shared.permit(Purpose::Poll).await;
        self.follower.recorded(&self.access(&fresh)).await
    }

    /// Returns the epoch that was followed last; `None` before the first time.
    pub(super) async fn epoch(&self) -> Option<Token> {
        self.follower.epoch().await
    }

    /// Follows the history of the store, unless that was done since its epoch was `seen`; with
    /// `None`, unless it was ever done.
    pub(super) async fn follow(
        &self,
        purpose: Purpose,
        seen: Option<Token>,
    ) -> Result<History, StoreError> {
        let fresh = || self.shared.random().fresh_token();
        let _permit = self.shared.permit(purpose).await;
        self.follower.follow(&self.access(&fresh), seen).await
    }

    /// Begins a new epoch, because the store lost a reservation of the epoch `seen`.
    pub(super) async fn begin_epoch_after_loss(
        &self,
        purpose: Purpose,
        seen: Token,
    ) -> Result<History, StoreError> {
        let fresh = || self.shared.random().fresh_token();
        let _permit = self.shared.permit(purpose).await;
        self.follower.begin_epoch_after_loss(&self.access(&fresh), seen).await
    }

    /// Reads the row of a code, without writing.
    pub(super) async fn read_row(&self, code: &str) -> Result<Option<CodeRow>, StoreError> {
        let fresh = || self.shared.random().fresh_token();
        let _permit = self.shared.permit(Purpose::Refill).await;
        Ok(self.follower.row(&self.access(&fresh), code).await?.0)
    }

    /// Reads the rows of these codes, in their order, like [`Self::read_row`].
    pub(super) async fn read_rows(
        &self,
        codes: &[&str],
    ) -> Result<Vec<Result<Option<CodeRow>, StoreError>>, StoreError> {
        let fresh = || self.shared.random().fresh_token();
        let _permit = self.shared.permit(Purpose::Poll).await;
        Ok(self.follower.rows(&self.access(&fresh), codes).await?.0)
    }

    fn access<'a>(&'a self, fresh: &'a (dyn Fn() -> Token + Sync)) -> Access<'a> {
        Access { store: &*self.shared.store, observer: &*self.observer, fresh }
    }

    pub(super) fn name(&self) -> &str {
        &self.settings.namespace
    }

    /// Allows a client to create a code, or returns the reason why not. Counts the codes in the
    /// store if that was not done lately.
    pub(super) async fn begin_creation(
        &self,
        client: Option<u64>,
    ) -> Result<Result<Creation<'_>, ClaimError>, StoreError> {
        let began = Instant::now();
        if self.creations.must_count(began) {
            let stored = self.shared.store.count_segments(self.name());
            let stored = self.call(Purpose::Refill, StoreOperation::Read, stored).await?;
            self.creations.counted(stored, began);
        }
        Ok(self.creations.begin(client, &self.settings))
    }

    /// Reports that the store failed in a call whose failures `failures` logs.
    pub(super) fn store_failed(&self, failures: &FailureLog, error: &StoreError) {
        let failure = StoreFailure::from(error);
        failures.failed(self.name(), &failure);
        self.shared.report_failing(failure);
    }

    /// Reports that the store answered such a call.
    pub(super) fn store_answered(&self, failures: &FailureLog) {
        self.shared.report_answering();
        failures.succeeded(self.name());
    }

    /// Awaits a call of the store as soon as its purpose has a permit.
    pub(super) async fn call<T>(
        &self,
        purpose: Purpose,
        operation: StoreOperation,
        call: impl Future<Output = Result<T, StoreError>>,
    ) -> Result<T, StoreError> {
        let _permit = self.shared.permit(purpose).await;
        store_call(&*self.shared.store, &*self.observer, operation, call).await
    }
}

impl SharedStore {
    pub(super) fn new(store: Arc<dyn Store>, random: Random) -> Self {
        Self {
            store,
            report: watch::Sender::new(Report::default()),
            runtime: KeeperRuntime::present(),
            random: Mutex::new(random),
            refills: Semaphore::new(REFILLS),
            polls: Semaphore::new(1),
            claims: Semaphore::new(CLAIMS),
        }
    }

    /// Waits until a call for this purpose may begin. The semaphores are never closed.
    async fn permit(&self, purpose: Purpose) -> Option<SemaphorePermit<'_>> {
        let permits = match purpose {
            Purpose::Refill => &self.refills,
            Purpose::Poll => &self.polls,
            Purpose::Claim => &self.claims,
        };
        permits.acquire().await.ok()
    }

    pub(super) fn random(&self) -> MutexGuard<'_, Random> {
        self.random.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns how the store fails, if it has failed for at least this long, or that the task has
    /// ended.
    pub(super) fn failing_for(&self, duration: Duration) -> Option<UnavailableReason> {
        let report = self.report.borrow();
        if report.ended {
            return Some(UnavailableReason::KeeperEnded);
        }
        report.failing.clone()?.reason_after(duration)
    }

    /// Reports that the store failed.
    pub(super) fn report_failing(&self, error: StoreFailure) {
        self.report.send_modify(|report| {
            report.failing = Some(Failing::again(error, report.failing.as_ref()));
        });
    }

    fn report_answering(&self) {
        self.report.send_if_modified(|report| report.failing.take().is_some());
    }
}
