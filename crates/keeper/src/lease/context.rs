//! What the lease of a namespace is kept with: the store, whose history it follows and whose rows it
//! writes, and the clocks that are judged before.

use std::{sync::Arc, time::Duration};

use raindrop_core::{
    instant::millis,
    keeper_api::Grant,
    lease::{
        ClockCheck, ClockVerdict, EpochClocks, HeldLanes, HighWaterMarks, Lease, Purpose,
        Resolution, Row, RowExpiry, RowWrite, StoreReading, Tenure, Token, judge_clock, next_token,
    },
    planted::{Bug, planted},
};
use raindrop_store::{LayoutRecord, MadeRows, Scope, Store, StoreError, Survey};
use tokio::sync::Notify;

use super::{
    keeping::{Keeping, KeepingFailed},
    settings::KeeperSettings,
    shared::{KeeperState, waker},
    stale::StaleStore,
};
use crate::{
    ground::{
        observer::{LeaseOperation, LeaseOutcome, StoreOperation},
        random::Random,
        status::{StoreFailure, UnavailableReason},
        store_call::{ClockReading, store_call, timed},
    },
    history::{
        known::{HistoryContext, KnownHistory},
        record::contended,
    },
};

/// The reach of a process's first lease, so that a crash loop burns seconds, not the whole window.
const FIRST_REACH: Duration = Duration::from_secs(10);
/// How often the record is read again because other nodes changed it.
const TRIES: u32 = 10;

/// What every step of the lease's task needs, whatever state it is in.
pub(crate) struct LeaseContext {
    pub(crate) settings: KeeperSettings,
    pub(crate) scope: Scope,
    pub(crate) store: Arc<dyn Store>,
    pub(crate) shared: Arc<KeeperState>,
    /// Notified by claims that need a renewal.
    pub(crate) wake_up: Arc<Notify>,
    /// The canonical text of our layout.
    pub(crate) canonical: String,
    pub(crate) random: Random,
    /// Keeps leases in the state file, if there is one.
    pub(crate) keeping: Option<Arc<Keeping>>,
    /// Whether this process ever renewed a lease.
    pub(crate) has_renewed: bool,
    /// The history of the store, as the last survey found it.
    pub(crate) history: KnownHistory,
    /// Which rows were created, as the last survey found it.
    made: Option<MadeRows>,
    /// Whether the rows of a namespace without a record are known to be of our layout.
    pub(crate) rows_are_ours: bool,
    /// Whether the record named another layout when it was last there.
    pub(crate) was_foreign: bool,
}

/// What is remembered of a write until its outcome is known.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WriteIntent {
    pub(crate) purpose: Purpose,
    pub(crate) operation: LeaseOperation,
    /// The clocks when they were judged for this write. If they were read when its outcome becomes
    /// known, a jump in between would go unnoticed.
    pub(crate) clocks: ClockReading,
    /// The store's clock then, in Unix ms.
    pub(crate) store_ms: i64,
}

impl From<WriteIntent> for Purpose {
    fn from(intent: WriteIntent) -> Self {
        intent.purpose
    }
}

/// The state of the scope, and whether the node's clock is trusted.
pub(crate) struct JudgedSurvey {
    pub(crate) survey: Survey,
    pub(crate) verdict: ClockVerdict,
    /// The instant that limits are computed from.
    pub(crate) now_ms: i64,
    /// The clocks that were judged. While the store's is behind, as they are if the node's ran evenly
    /// since the two agreed, so that no gain goes unnoticed because it came by steps.
    pub(crate) clocks: ClockReading,
    /// The same for an epoch that begins.
    pub(crate) epoch_clocks: EpochClocks,
}

impl JudgedSurvey {
    /// Whether the store's clock is known to be behind.
    pub(crate) const fn is_store_behind(&self) -> bool {
        matches!(self.verdict, ClockVerdict::StoreBehind(_))
    }

    /// Returns what is remembered of a write that follows the survey.
    pub(crate) const fn intent(&self, purpose: Purpose, operation: LeaseOperation) -> WriteIntent {
        let (clocks, store_ms) = (self.clocks, self.survey.now_ms);
        WriteIntent { purpose, operation, clocks, store_ms }
    }
}

/// Why a write of a held or chosen row was not made, or came to nothing.
pub(crate) enum LeaseError {
    /// What the write was decided by no longer holds: an earlier write of this process took effect
    /// instead, or an epoch began. Decide anew.
    Overtaken,
    /// The node's clock is ahead by this many ms.
    ClockAhead(i64),
    /// Another process may have taken the row since it was written, and the store may be a restored one.
    Stale(StaleStore),
    /// The row, as it was read, has a token of another process, or the store lost writes without a
    /// proof of it.
    Lost(Box<Row>),
    /// The row or the namespace's record is gone.
    Vanished,
    /// The namespace's record names another layout.
    RecordForeign,
    /// The epoch has no barrier, so no lease begins.
    BarrierPending,
    /// The store failed: a write that was sent may have taken effect, or still may.
    Store(StoreError),
    /// The state file failed: the lease ends at the local mark that it has.
    NotKept(KeepingFailed),
}

impl From<KeepingFailed> for LeaseError {
    fn from(failure: KeepingFailed) -> Self {
        Self::NotKept(failure)
    }
}

impl From<StoreError> for LeaseError {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

impl LeaseContext {
    pub(crate) fn new(
        settings: KeeperSettings,
        store: Arc<dyn Store>,
        shared: Arc<KeeperState>,
        random: Random,
    ) -> Self {
        let KeeperSettings { namespace, layout, min_worker, max_worker, .. } = &settings;
        let scope = Scope::new(namespace, layout, *min_worker, *max_worker);
        let canonical = layout.canonical();
        let wake_up = Arc::clone(&shared.wake_up);
        let keeping = settings.state_file.clone().map(|file| {
            let (shared, wake_up) = (Arc::clone(&shared), Arc::clone(&wake_up));
            Arc::new(Keeping::new(file, shared, scope.reserved_key.clone(), wake_up))
        });
        Self {
            canonical,
            settings,
            scope,
            store,
            shared,
            wake_up,
            random,
            keeping,
            has_renewed: false,
            history: KnownHistory::default(),
            made: None,
            rows_are_ours: false,
            was_foreign: false,
        }
    }

    /// The state file, while new leases are kept in it.
    pub(crate) fn usable_keeping(&self) -> Option<&Arc<Keeping>> {
        self.keeping.as_ref().filter(|keeping| !keeping.has_failed())
    }

    /// Whether leases wait in a store that may be a restored one; one that is embedded has no other
    /// holders to wait for.
    pub(crate) fn waits_if_stale(&self) -> bool {
        !self.settings.lease.stale_wait.is_zero() && !self.store.clock_is_local()
    }

    /// Whether a row that was written under these clocks may have expired since, so that another process
    /// may have it.
    pub(crate) fn may_have_expired(&self, written: Option<&ClockReading>) -> bool {
        let ttl_ms = millis(self.settings.lease.ttl);
        written.is_none_or(|written| written.elapsed_ms(&*self.shared.clock) >= ttl_ms)
    }

    /// Takes note of a row that another process took from the lease of this lane, which ends at `limit`:
    /// whoever takes it lawfully begins there, or above.
    pub(crate) fn note_taken(&mut self, row: &Row, lane: usize, limit: u64) {
        let mark = row.marks.iter().nth(lane);
        self.history.went_back |= mark.is_some_and(|mark| mark < limit);
    }

    /// Awaits a call of the store, bounded and timed.
    pub(crate) async fn call<T>(
        &self,
        operation: StoreOperation,
        call: impl Future<Output = Result<T, StoreError>>,
    ) -> Result<T, StoreError> {
        store_call(&*self.store, &*self.shared.observer, operation, call).await
    }

    /// Reads the state of the scope, and judges the node's clock by the store's and, while a lease
    /// is held, by the steady clock since its last write. Follows the history of the store.
    pub(crate) async fn survey(
        &mut self,
        renewed: Option<&ClockReading>,
    ) -> Result<JudgedSurvey, StoreError> {
        for _ in 0..TRIES {
            let judged = self.look(renewed).await?;
            if self.is_followed(&judged).await? {
                return Ok(judged);
            }
        }
        Err(contended())
    }

    async fn look(&mut self, renewed: Option<&ClockReading>) -> Result<JudgedSurvey, StoreError> {
        // Whoever holds no lease must see the rows as they are.
        let survey = match renewed {
            Some(_) => self.store.glance(&self.scope),
            None => self.store.survey(&self.scope),
        };
        let (survey, mut clocks, reading) = self.timed(survey).await?;
        let store_ms = survey.now_ms;
        let is_local = self.store.clock_is_local();
        let max_skew = self.settings.lease.max_clock_skew;
        let verdict = judge_clock(&ClockCheck {
            store: (!is_local).then_some(reading),
            ahead_since_renewal_ms: renewed.map(|renewed| {
                clocks.wall_ms.saturating_sub(renewed.evenly(clocks.steady).wall_ms)
            }),
            max_skew,
        });
        let record = survey.record.as_ref();
        self.made = record.and_then(|record| record.made_rows(&self.scope.reserved_key));
        let range = self.scope.min_worker..=self.scope.max_worker;
        // Nobody has the worker ids whose rows are created when they are needed.
        let unmade = self.made.map_or(0, |made| self.scope.workers() - made.count(&range));
        self.shared.report.send_if_modified(|report| {
            report.clock_ahead_ms = if is_local { 0 } else { reading.node_ahead_ms() };
            // Some of those rows may be there already.
            let unheld = self.scope.workers().saturating_sub(survey.held);
            let free = unheld.min(survey.free + unmade);
            (report.workers_held, report.workers_free) = (survey.held, free);
            false
        });
        // A store whose clock is known to be wrong does not bound the reach of a lease.
        let is_bound = !is_local && !matches!(verdict, ClockVerdict::StoreBehind(_));
        let bound_ms = store_ms.saturating_add(millis(max_skew));
        let now_ms = if is_bound { clocks.wall_ms.min(bound_ms) } else { clocks.wall_ms };
        let epoch_clocks = reading.epoch_clocks(self.settings.lease.window);
        if let (ClockVerdict::StoreBehind(_), Some(renewed)) = (verdict, renewed) {
            clocks = renewed.evenly(clocks.steady);
        }
        Ok(JudgedSurvey { survey, verdict, now_ms, clocks, epoch_clocks })
    }

    /// Reads the state of a scope, and the clocks.
    pub(crate) async fn timed(
        &self,
        survey: impl Future<Output = Result<Survey, StoreError>>,
    ) -> Result<(Survey, ClockReading, StoreReading), StoreError> {
        timed(&*self.shared.clock, self.call(StoreOperation::Read, survey)).await
    }

    /// Returns whether the last survey saw every row of the scope, and a record that tells of them.
    pub(crate) fn has_all_rows(&self) -> bool {
        let report = self.shared.report.borrow();
        self.made.is_some() && report.workers_held + report.workers_free >= self.scope.workers()
    }

    /// Whether a row was created as the record tells. Another one is not to be leased: should it be
    /// lost, it would be created again with no marks.
    pub(crate) fn is_made(&self, worker: u64) -> bool {
        self.made.is_some_and(|made| made.contains(worker)) || planted(Bug::UnrecordedRowTaken)
    }

    /// Returns whether the namespace's record is there and names our layout. Otherwise the present
    /// rows are not ours to take.
    pub(crate) fn is_recorded(&self, judged: &JudgedSurvey) -> bool {
        judged.survey.record.as_ref().is_some_and(|record| record.canonical == self.canonical)
    }

    /// Returns how far a lease reaches: little until this process renewed one.
    pub(crate) fn reach_ms(&self, whole_window: bool) -> i64 {
        let window = self.settings.lease.window;
        millis(if whole_window { window } else { window.min(FIRST_REACH) })
    }

    /// Sends the write of a new lease on a lane, from the mark that the tenure knows. Returns what
    /// was acknowledged; `None` when the row's token had changed.
    pub(crate) async fn take_lane(
        &mut self,
        tenure: &mut Tenure<WriteIntent>,
        lanes: &HeldLanes,
        lane: usize,
        judged: &JudgedSurvey,
        operation: LeaseOperation,
    ) -> Result<Option<WriteIntent>, StoreError> {
        let reach_ms = self.reach_ms(self.has_renewed);
        let marks = self.marks_of(tenure);
        let lease = Lease::from_mark(&self.settings.layout, &marks, lane, judged.now_ms, reach_ms);
        let expiry = RowExpiry::After(self.settings.lease.ttl);
        let write = self.write(tenure, lanes, lane, lease.limit, expiry);
        let intent = judged.intent(Purpose::Lease(lease), operation);
        Ok(self.swap(tenure, write, intent).await?.then_some(intent))
    }

    /// Returns the marks of a row in the present epoch.
    pub(crate) fn marks_of(&self, tenure: &Tenure<WriteIntent>) -> HighWaterMarks {
        let layout = &self.settings.layout;
        self.history.marks(layout, tenure.epoch(), tenure.marks())
    }

    /// Builds a write of a row under a fresh token and the present epoch, with the mark of `lane` at
    /// `mark`.
    pub(crate) fn write(
        &mut self,
        tenure: &Tenure<WriteIntent>,
        lanes: &HeldLanes,
        lane: usize,
        mark: u64,
        expiry: RowExpiry,
    ) -> RowWrite {
        let token = self.next_token(tenure);
        let (layout, history) = (&self.settings.layout, &self.history);
        let mut marks = lanes.marks_with(tenure.marks(), lane, mark);
        if !planted(Bug::OtherLanesNotRaised) {
            marks = history.marks(layout, tenure.epoch(), &marks);
        }
        RowWrite {
            token,
            epoch: history.epoch(),
            holder: self.settings.holder.clone(),
            lane,
            marks,
            expiry,
        }
    }

    fn next_token(&mut self, tenure: &Tenure<WriteIntent>) -> Token {
        next_token(tenure.token(), || self.random.fresh_token())
    }

    /// Sends a write, and returns whether it was acknowledged; `false` when the row's token had
    /// changed. It is noted before it is sent, so that this future may be dropped.
    pub(crate) async fn swap(
        &self,
        tenure: &mut Tenure<WriteIntent>,
        write: RowWrite,
        intent: WriteIntent,
    ) -> Result<bool, StoreError> {
        let (worker, expected) = (tenure.worker(), tenure.token());
        let ends_kept = |keeping: &Arc<Keeping>| keeping.has_lease_ended_by(worker, &write.marks);
        debug_assert!(
            !self.keeping.as_ref().is_some_and(ends_kept),
            "the file keeps what this ends"
        );
        tenure.sent(write.clone(), intent);
        let swap = self.store.swap_row(&self.scope, worker, expected, &write);
        let swapped = self.call(StoreOperation::Swap, swap).await;
        if let Ok(true) = swapped {
            tenure.acknowledged();
        }
        self.observe(
            intent.operation,
            match swapped {
                Ok(true) => LeaseOutcome::Done,
                Ok(false) => LeaseOutcome::Refused,
                Err(_) => LeaseOutcome::Unknown,
            },
        );
        swapped
    }

    /// Reads the row to learn the outcome of writes that were not acknowledged; returns it, too.
    pub(crate) async fn resolve(
        &self,
        tenure: &mut Tenure<WriteIntent>,
    ) -> Result<(Resolution, Option<Row>), StoreError> {
        let row = self.read_row(tenure.worker()).await?;
        Ok((tenure.resolve(row.as_ref()), row))
    }

    /// Reads a row.
    pub(crate) async fn read_row(&self, worker: u64) -> Result<Option<Row>, StoreError> {
        self.call(StoreOperation::Read, self.store.read_row(&self.scope, worker)).await
    }

    /// Settles writes whose outcome is unknown. Returns the one that took effect; `None` when none
    /// did: one may still arrive, which the next write refuses.
    ///
    /// A write that is visible need not be durable: it is repeated under a fresh token, and counts
    /// once that is acknowledged.
    pub(crate) async fn settle(
        &mut self,
        tenure: &mut Tenure<WriteIntent>,
    ) -> Result<Option<WriteIntent>, LeaseError> {
        if tenure.is_unresolved() {
            match self.resolve(tenure).await? {
                (Resolution::Unchanged | Resolution::Visible, _) => {}
                (Resolution::Lost, Some(row)) => return Err(LeaseError::Lost(row.into())),
                (Resolution::Lost | Resolution::Vanished, _) => return Err(LeaseError::Vanished),
            }
        }
        #[cfg(feature = "planted")]
        if planted(Bug::VisibleIsDurable)
            && let Some(believed) = tenure.take_visible()
        {
            return Ok(Some(believed.purpose));
        }
        let present = self.history.epoch();
        let Some(visible) = tenure.visible() else { return Ok(None) };
        if visible.write.epoch != present {
            // What it was for is decided anew.
            tenure.forget_before(present);
            return Ok(None);
        }
        let (write, intent) = (visible.write.clone(), visible.purpose);
        let write = RowWrite { token: self.next_token(tenure), ..write };
        if self.swap(tenure, write, intent).await? {
            Ok(Some(intent))
        } else {
            Err(LeaseError::Overtaken)
        }
    }

    /// Creates the grant of a lease that the store acknowledged. If it is kept in the state file,
    /// nothing can be issued before the file has it. `clocks` were judged for the lease.
    pub(crate) fn grant(
        &self,
        worker: u64,
        lease: Lease,
        is_kept: bool,
        clocks: Option<ClockReading>,
    ) -> Arc<Grant> {
        let Lease { lane, start, limit } = lease;
        let layout = self.shared.layout();
        let codes_max = self.settings.issue.codes_max;
        let keeping = self.keeping.as_ref().filter(|_| is_kept);
        let waker =
            waker(keeping.map(|keeping| &keeping.near_limit).into_iter().chain([&self.wake_up]));
        let grant = Grant::new(layout, worker, lane as u64, start, codes_max, waker)
            .expect("rows of the scope fit the layout");
        if let Some(ClockReading { wall_ms, .. }) = clocks {
            // A clock that goes back from here could not issue: that is seen before anything is issued.
            grant.note_reading(wall_ms.min(layout.start_of_tick_ms(layout.tick_of(start))));
        }
        self.extend(&grant, limit, is_kept);
        Arc::new(grant)
    }

    /// Extends a grant to the mark that the store acknowledged; one that is kept in the state file,
    /// only as soon as the file has a local mark beyond its limit.
    pub(crate) fn extend(&self, grant: &Grant, limit: u64, is_kept: bool) {
        if is_kept {
            grant.acknowledge(limit);
        } else {
            grant.raise_limit(limit, self.shared.present());
        }
    }

    pub(crate) fn observe(&self, operation: LeaseOperation, outcome: LeaseOutcome) {
        self.shared.observer.lease_operation(operation, outcome);
    }

    /// Reports that the store fails; the caller retries later.
    pub(crate) fn store_failed(&self, error: &StoreError) {
        let failure = StoreFailure::from(error);
        self.shared.set_reason(Some(UnavailableReason::StoreUnavailable(failure)));
    }

    /// Returns the instant of the barrier while that is ahead, as the reason why no lease begins
    /// before.
    pub(crate) fn barrier_ahead(&self) -> Option<UnavailableReason> {
        let layout = &self.settings.layout;
        let due_ms = layout.start_of_tick_ms(layout.tick_of(self.history.barrier(layout)));
        let now_ms = self.shared.clock.now_ms();
        let is_far = self.history.present().is_some_and(|present| present.is_far_ahead(now_ms));
        (due_ms > now_ms).then_some(if is_far {
            UnavailableReason::BarrierFarAhead { due_ms }
        } else {
            UnavailableReason::FailedOver { due_ms }
        })
    }

    /// Follows the history that the namespace's record tells; see
    /// [`KnownHistory::follow`](crate::history::known::KnownHistory::follow).
    ///
    /// A lease that is computed from an instant `ahead_ms`, which is ahead of the store's clock, must be
    /// within the reach that the record tells: a node whose clock is trusted although it is ahead first
    /// registers that.
    pub(crate) async fn follow_history(
        &mut self,
        survey: &Survey,
        record: &LayoutRecord,
        clocks: EpochClocks,
        ahead_ms: Option<i64>,
    ) -> Result<bool, StoreError> {
        let lease = &self.settings.lease;
        let own = lease.of_node();
        let context = HistoryContext {
            store: &*self.store,
            steady: self.shared.clock.steady(),
            observer: &*self.shared.observer,
            namespace: &self.scope.namespace,
            layout: Some(&self.settings.layout),
            clocks,
            own,
            leases: true,
            until_ms: ahead_ms.map(|now_ms| now_ms.saturating_add(own.reach_ms)),
        };
        let fresh = || self.random.fresh_token();
        self.history.follow(&context, survey, record, fresh).await
    }

    /// Follows the history that a survey found, if its record is ours.
    pub(crate) async fn is_followed(&mut self, judged: &JudgedSurvey) -> Result<bool, StoreError> {
        if judged.survey.record.is_some() {
            self.was_foreign = !self.is_recorded(judged);
        }
        match &judged.survey.record {
            Some(record) if self.is_recorded(judged) => {
                // Otherwise leases are bounded by the store's clock.
                let ahead_ms = judged.is_store_behind().then_some(judged.now_ms);
                self.follow_history(&judged.survey, record, judged.epoch_clocks, ahead_ms).await
            }
            _ => Ok(true),
        }
    }
}
