//! The parts that every step of a lease's task shares: the store, the judged clocks, the history in
//! the record, and the writes of rows.
//!
//! [`LeaseContext::survey`] reads record, rows and clocks, and follows the store into a new epoch.
//! [`LeaseContext::swap`] records a write in its [`KnownRow`], sends it and notes the answer.
//! [`LeaseContext::resolve_writes`] learns the outcome of a write that the store did not answer.
//!
//! It holds no lease and decides no state: `held.rs`, `search.rs` and `task.rs` do. Callers check
//! the verdict about the clock before they write. They survey again after they read a row: a move
//! to another layout changes the unit of its marks. Tests: `lease_writes.rs`, `unknown_outcomes.rs`
//! and `epochs.rs` in `src/tests`.

use std::{sync::Arc, time::Duration};

use raindrop_core::{
    instant::millis,
    keeper_api::Grant,
    lease::{
        Acknowledged, Attempt, ClockCheck, ClockVerdict, EpochClocks, HeldLanes, HighWaterMarks,
        KnownRow, Lease, Purpose, Resolution, Row, RowExpiry, RowWrite, StoreReading, Token,
        judge_clock, next_token,
    },
};
use raindrop_store::{CreatedRows, LayoutRecord, Scope, Store, StoreError, Survey};
use tokio::sync::Notify;

use super::{
    planted,
    settings::KeeperSettings,
    shared::{KeeperState, waker},
    stale_wait::StaleStore,
    state_file_writer::{StateFileFailed, StateFileWriter},
};
use crate::{
    history::{Followed, HistoryContext, KnownHistory, contended},
    support::{
        observer::{LeaseOperation, LeaseOutcome, StoreOperation},
        random::Random,
        status::{StoreFailure, UnavailableReason},
        store_call::{ClockReading, store_call, timed},
    },
};

/// How far a process's first lease reaches ahead, so that a crash loop uses up seconds and not a
/// whole window each time.
const FIRST_REACH: Duration = Duration::from_secs(10);
/// How many times a survey is repeated because other nodes changed the record meanwhile.
const SURVEYS: u32 = 10;

/// The parts that every step of the lease's task needs, whatever its state.
pub(crate) struct LeaseContext {
    pub(crate) settings: KeeperSettings,
    pub(crate) scope: Scope,
    pub(crate) store: Arc<dyn Store>,
    pub(crate) shared: Arc<KeeperState>,
    /// Notified by claims that need a renewal.
    pub(crate) wake_up: Arc<Notify>,
    /// The canonical text of the configured layout.
    pub(crate) canonical: String,
    pub(crate) random: Random,
    /// Writes leases to the state file; `None` if there is none.
    pub(crate) file_writer: Option<Arc<StateFileWriter>>,
    /// Whether this process has renewed a lease before.
    pub(crate) has_renewed: bool,
    /// The history of the store as of the last survey.
    pub(crate) history: KnownHistory,
    /// Which rows were created, as of the last survey.
    created: Option<CreatedRows>,
    /// Whether the rows of a namespace without a record are known to be of the configured layout.
    pub(crate) rows_are_ours: bool,
    /// Whether this process lost a lease because its row cannot be read, and has not surveyed the
    /// heartbeats since. Such a row cannot show that the store was rolled back.
    pub(crate) lost_unreadable: bool,
    /// Whether the record named another layout when the last survey found one.
    pub(crate) was_foreign: bool,
}

/// The facts about a write that this process remembers until it knows the outcome.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WriteIntent {
    pub(crate) purpose: Purpose,
    pub(crate) operation: LeaseOperation,
    /// The clocks as they were judged for this write. Clocks that are read once the outcome is
    /// known would hide a jump in between.
    pub(crate) clocks: ClockReading,
    /// The store's clock in that survey, in Unix ms.
    pub(crate) store_ms: i64,
}

impl From<WriteIntent> for Purpose {
    fn from(intent: WriteIntent) -> Self {
        intent.purpose
    }
}

/// How old the counts of rows in a survey may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RowCounts {
    /// Up to two minutes.
    Recent,
    /// As of now: a search needs them.
    Fresh,
}

/// A survey of the namespace's rows and record, and the verdict about the node's clock.
pub(crate) struct JudgedSurvey {
    pub(crate) survey: Survey,
    pub(crate) verdict: ClockVerdict,
    /// The instant from which limits are computed, in Unix ms.
    pub(crate) now_ms: i64,
    /// The clocks that were judged. While the store's clock is behind or the node's is ahead, the
    /// wall clock in here is no reading. The keeper computes it: the reading when both clocks last
    /// agreed, plus the time that passed by the steady clock. Without such a reading, it is the
    /// store's clock. If the keeper took the reading itself, a clock could gain in steps too small
    /// to notice, and a write would make a clock that is ahead the agreed one.
    pub(crate) clocks: ClockReading,
    /// The clocks for an epoch that begins now.
    pub(crate) epoch_clocks: EpochClocks,
}

impl JudgedSurvey {
    /// Returns whether the store's clock is known to be behind.
    pub(crate) const fn is_store_behind(&self) -> bool {
        matches!(self.verdict, ClockVerdict::StoreBehind(_))
    }

    /// Returns the facts to remember about a write that this survey decided.
    pub(crate) const fn intent(&self, purpose: Purpose, operation: LeaseOperation) -> WriteIntent {
        let (clocks, store_ms) = (self.clocks, self.survey.now_ms);
        WriteIntent { purpose, operation, clocks, store_ms }
    }
}

/// The store's answer to the last write of a row, before the outcome of that write is resolved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LastAnswer {
    /// It gave no answer, so the row may still have the token that the write names.
    Missing,
    /// It refused the write: the row has another token, or an epoch began.
    Refused,
}

/// Why a write of a row was not made, or had no effect. Each variant says what follows from it.
pub(crate) enum LeaseError {
    /// The facts that decided the write no longer hold, so the next step decides again. An earlier
    /// write of this process took effect instead, an epoch began or must begin, a read found the
    /// row changed, or the record had to name the row again.
    Retry,
    /// The node's clock is ahead by this many ms. Mending the clock is up to the operator.
    ClockAhead(i64),
    /// The store may be a restored one, and another process may have taken the row since this one
    /// wrote it. The caller waits.
    Stale(StaleStore),
    /// The row has a token of another process, or the store lost writes and nothing proves it. The
    /// lease ends, and the task searches for another row.
    Lost(Box<Row>),
    /// A value of the row cannot be read, because another program or a person changed it. The next
    /// swap cannot decide either: the row has another token, or an epoch began. As after
    /// [`Self::Lost`], the lease ends, and the task searches for another row.
    Unreadable(StoreError),
    /// The row or the namespace's record is not there. The task creates it again.
    Vanished,
    /// The namespace's record names another layout. An operator may revert the move.
    RecordForeign,
    /// The epoch has no barrier, so no lease begins in it. The task waits for clocks that agree.
    BarrierPending,
    /// The store failed. A write that was sent may have taken effect, or still may.
    Store(StoreError),
    /// The state file failed. The lease ends at the local mark that the file has.
    NotSaved(StateFileFailed),
}

impl From<StateFileFailed> for LeaseError {
    fn from(failure: StateFileFailed) -> Self {
        Self::NotSaved(failure)
    }
}

impl From<StoreError> for LeaseError {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

/// Returns whether the row that cannot be read may still have a known token, because another value
/// is what cannot be read. A store reads the token first.
pub(crate) fn may_have_token(error: &StoreError) -> bool {
    !matches!(error, StoreError::Corrupt { column: "token", .. })
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
        let file_writer = settings.state_file.clone().map(|file| {
            let (shared, wake_up) = (Arc::clone(&shared), Arc::clone(&wake_up));
            Arc::new(StateFileWriter::new(file, shared, scope.reserved_key.clone(), wake_up))
        });
        Self {
            canonical,
            settings,
            scope,
            store,
            shared,
            wake_up,
            random,
            file_writer,
            has_renewed: false,
            history: KnownHistory::default(),
            created: None,
            rows_are_ours: false,
            lost_unreadable: false,
            was_foreign: false,
        }
    }

    /// Returns the state file, if new leases are saved in it.
    pub(crate) fn usable_file_writer(&self) -> Option<&Arc<StateFileWriter>> {
        self.file_writer.as_ref().filter(|file_writer| !file_writer.has_failed())
    }

    /// Returns whether leases wait while the store may be a restored one. An embedded store has no
    /// other holders to wait for.
    pub(crate) fn waits_if_stale(&self) -> bool {
        let has_wait = !self.settings.lease.stale_wait.is_zero();
        planted::waits_if_stale(has_wait && !self.store.clock_is_local())
    }

    /// Returns whether a row that was written under these clocks may have expired since, so that
    /// another process may have taken it.
    pub(crate) fn may_have_expired(&self, written: Option<&ClockReading>) -> bool {
        let ttl_ms = millis(self.settings.lease.ttl);
        written.is_none_or(|written| written.elapsed_ms(&*self.shared.clock) >= ttl_ms)
    }

    /// Records a row that another process took from a lease of this lane, which ends at `limit`. A
    /// lawful owner starts at `limit` or above, so a lower mark proves that the store was rolled
    /// back.
    pub(crate) fn note_new_owner(&mut self, row: &Row, lane: usize, limit: u64) {
        let mark = row.marks.iter().nth(lane);
        self.history.epoch_must_end |= mark.is_some_and(|mark| mark < limit);
    }

    /// Awaits a call of the store, with a deadline and timed for the observer.
    pub(crate) async fn call<T>(
        &self,
        operation: StoreOperation,
        call: impl Future<Output = Result<T, StoreError>>,
    ) -> Result<T, StoreError> {
        store_call(&*self.store, &*self.shared.observer, operation, call).await
    }

    /// Reads the rows and the record, follows the store's history, and judges the node's clock: by
    /// the store's clock and, while a lease is held, by the steady clock since `renewed`, its last
    /// write.
    pub(crate) async fn survey(
        &mut self,
        renewed: Option<&ClockReading>,
    ) -> Result<JudgedSurvey, StoreError> {
        // Only a holder may use row counts that are up to two minutes old.
        let counts = if renewed.is_some() { RowCounts::Recent } else { RowCounts::Fresh };
        self.survey_with(counts, renewed).await
    }

    /// Surveys for a search. `renewed` are the clocks of the last write of the lease that this
    /// process holds meanwhile. Without a clock of the store, only they show that the node's is
    /// ahead. With a store's clock they do not count: they could make the verdict `StoreBehind`,
    /// and the new lease would follow the node's clock.
    pub(crate) async fn survey_for_search(
        &mut self,
        renewed: Option<&ClockReading>,
    ) -> Result<JudgedSurvey, StoreError> {
        let renewed = renewed.filter(|_| self.store.clock_is_local());
        self.survey_with(RowCounts::Fresh, renewed).await
    }

    async fn survey_with(
        &mut self,
        counts: RowCounts,
        renewed: Option<&ClockReading>,
    ) -> Result<JudgedSurvey, StoreError> {
        for _ in 0..SURVEYS {
            let judged = self.survey_once(counts, renewed).await?;
            if self.follow_survey(&judged).await? == Followed::Current {
                return Ok(judged);
            }
        }
        Err(contended())
    }

    /// Surveys once, judges the node's clock, and updates the report. Does not follow the history.
    async fn survey_once(
        &mut self,
        counts: RowCounts,
        renewed: Option<&ClockReading>,
    ) -> Result<JudgedSurvey, StoreError> {
        let call = match counts {
            RowCounts::Recent => self.store.summary(&self.scope),
            RowCounts::Fresh => self.store.survey(&self.scope),
        };
        let (survey, mut clocks, reading) = self.timed(call).await?;
        let store_ms = survey.now_ms;
        let is_local = self.store.clock_is_local();
        let max_skew = self.settings.lease.max_clock_skew;
        let agreed = renewed.map(|renewed| renewed.evenly(clocks.steady));
        let verdict = judge_clock(&ClockCheck {
            store: (!is_local).then_some(reading),
            ahead_since_renewal_ms: agreed
                .map(|agreed| clocks.wall_ms.saturating_sub(agreed.wall_ms)),
            max_skew,
        });
        let record = survey.record.as_ref();
        self.created = record.and_then(|record| record.created_rows(&self.scope.reserved_key));
        let range = self.scope.min_worker..=self.scope.max_worker;
        // Worker ids whose rows are not created yet are free.
        let not_created =
            self.created.map_or(0, |created| self.scope.workers() - created.count(&range));
        self.shared.report.send_if_modified(|report| {
            report.clock_ahead_ms = if is_local { 0 } else { reading.node_ahead_ms() };
            // Some rows may be there that the record does not name yet.
            let unheld = self.scope.workers().saturating_sub(survey.held);
            let free = unheld.min(survey.free + not_created);
            (report.workers_held, report.workers_free) = (survey.held, free);
            false
        });
        // A lease reaches at most the skew beyond the store's clock, unless that clock is wrong.
        let bounding_ms = match verdict {
            ClockVerdict::StoreBehind(_) => None,
            _ if is_local => agreed.map(|agreed| agreed.wall_ms),
            _ => Some(store_ms),
        };
        let bound_ms = bounding_ms.map_or(i64::MAX, |ms| ms.saturating_add(millis(max_skew)));
        let now_ms = clocks.wall_ms.min(bound_ms);
        let epoch_clocks = reading.epoch_clocks(self.settings.lease.window);
        if verdict != ClockVerdict::Trusted {
            // Without a last write, as after a resume, only the store's clock can be the right one.
            let right = agreed.unwrap_or(ClockReading { wall_ms: store_ms, ..clocks });
            clocks = planted::agreed(verdict, right, clocks);
        }
        Ok(JudgedSurvey { survey, verdict, now_ms, clocks, epoch_clocks })
    }

    /// Awaits a survey, and returns it with both clocks.
    pub(crate) async fn timed(
        &self,
        survey: impl Future<Output = Result<Survey, StoreError>>,
    ) -> Result<(Survey, ClockReading, StoreReading), StoreError> {
        timed(&*self.shared.clock, self.call(StoreOperation::Read, survey)).await
    }

    /// Returns whether the last survey found a record and every row of the scope.
    pub(crate) fn has_all_rows(&self) -> bool {
        let report = self.shared.report.borrow();
        self.created.is_some() && report.workers_held + report.workers_free >= self.scope.workers()
    }

    /// Returns whether the record names this row as created. Another one must not be leased: if the
    /// store lost it, a node would create it again with marks at 0.
    pub(crate) fn is_created(&self, worker: u64) -> bool {
        planted::is_created(self.created.is_some_and(|created| created.contains(worker)))
    }

    /// Returns whether the namespace has a record that names the configured layout. Otherwise this
    /// process may not take its rows.
    pub(crate) fn is_recorded(&self, judged: &JudgedSurvey) -> bool {
        judged.survey.record.as_ref().is_some_and(|record| record.canonical == self.canonical)
    }

    /// Returns how far ahead a lease reaches, in ms: a window, or at most 10 s unless
    /// `whole_window`.
    pub(crate) fn reach_ms(&self, whole_window: bool) -> i64 {
        let window = self.settings.lease.window;
        millis(if whole_window { window } else { window.min(FIRST_REACH) })
    }

    /// Sends the write that leases a lane from its known mark on. Returns the acknowledged write,
    /// or `None` if the row's token had changed.
    pub(crate) async fn take_lane(
        &mut self,
        known_row: &mut KnownRow<WriteIntent>,
        lanes: &HeldLanes,
        lane: usize,
        judged: &JudgedSurvey,
        operation: LeaseOperation,
    ) -> Result<Option<Acknowledged<WriteIntent>>, StoreError> {
        let reach_ms = self.reach_ms(self.has_renewed);
        let marks = self.marks_of(known_row);
        let lease = Lease::from_mark(&self.settings.layout, &marks, lane, judged.now_ms, reach_ms);
        let expiry = RowExpiry::After(self.settings.lease.ttl);
        let write = self.build_write(known_row, lanes, lane, lease.limit, expiry);
        self.swap(known_row, write, judged.intent(Purpose::Lease(lease), operation)).await
    }

    /// Returns the marks of a row as they count in the present epoch.
    pub(crate) fn marks_of(&self, known_row: &KnownRow<WriteIntent>) -> HighWaterMarks {
        let layout = &self.settings.layout;
        self.history.marks(layout, known_row.epoch(), known_row.marks())
    }

    /// Builds a write of a row under a fresh token and the present epoch, which sets the mark of
    /// `lane` to `mark`.
    pub(crate) fn build_write(
        &mut self,
        known_row: &KnownRow<WriteIntent>,
        lanes: &HeldLanes,
        lane: usize,
        mark: u64,
        expiry: RowExpiry,
    ) -> RowWrite {
        let token = self.next_token(known_row);
        let (layout, history) = (&self.settings.layout, &self.history);
        let known = lanes.marks_with(known_row.marks(), lane, mark);
        let raised = history.marks(layout, known_row.epoch(), &known);
        RowWrite {
            token,
            epoch: history.epoch(),
            holder: self.settings.holder.clone(),
            lane,
            marks: planted::marks(raised, known),
            expiry,
        }
    }

    fn next_token(&mut self, known_row: &KnownRow<WriteIntent>) -> Token {
        next_token(known_row.token(), || self.random.fresh_token())
    }

    /// Sends a write. Returns the acknowledged write, or `None` if the row's token had changed. The
    /// write is recorded before it is sent, so the caller may drop this future at any time.
    pub(crate) async fn swap(
        &self,
        known_row: &mut KnownRow<WriteIntent>,
        write: RowWrite,
        intent: WriteIntent,
    ) -> Result<Option<Acknowledged<WriteIntent>>, StoreError> {
        let sent = known_row.sent(write, intent);
        debug_assert!(
            !self.file_writer.as_ref().is_some_and(|file_writer| {
                file_writer.has_lease_ended_by(sent.worker(), &sent.write().marks)
            }),
            "the file keeps what this ends"
        );
        let swap = self.store.swap_row(&self.scope, sent.worker(), sent.expected(), sent.write());
        let swapped = self.call(StoreOperation::Swap, swap).await;
        self.observe(
            intent.operation,
            match swapped {
                Ok(true) => LeaseOutcome::Done,
                Ok(false) => LeaseOutcome::Refused,
                Err(_) => LeaseOutcome::Unknown,
            },
        );
        Ok(swapped?.then(|| sent.acknowledged()))
    }

    /// Reads the row to learn the outcome of unacknowledged writes, and returns the row as well.
    ///
    /// # Errors
    ///
    /// [`LeaseError::Unreadable`] if a value of the row cannot be read. If the token itself can be
    /// read ([`may_have_token`]), a caller whose next write names the known token may continue
    /// without this read: that write decides.
    pub(crate) async fn read_and_resolve(
        &self,
        known_row: &mut KnownRow<WriteIntent>,
    ) -> Result<(Resolution, Option<Row>), LeaseError> {
        let worker = known_row.worker();
        match self.read_row(worker).await {
            Ok(row) => Ok((known_row.resolve(row.as_ref()), row)),
            Err(error) => {
                // On Kubernetes, it may also be a value of the record.
                let is_of_row = matches!(&error, StoreError::Corrupt { row, .. }
                    if *row == self.scope.row_name(worker));
                Err(if is_of_row { LeaseError::Unreadable(error) } else { error.into() })
            }
        }
    }

    pub(crate) async fn read_row(&self, worker: u64) -> Result<Option<Row>, StoreError> {
        self.call(StoreOperation::Read, self.store.read_row(&self.scope, worker)).await
    }

    /// Resolves writes whose outcome is unknown. Returns the one that took effect, or `None` if
    /// none did; the next write makes the store refuse one that still arrives.
    ///
    /// If another value than the token cannot be read, the next write decides without a read. It
    /// names the same token as these, so the store refuses it if one of them took effect, and
    /// otherwise it repairs the row. A refusal means that the row has another token or that an
    /// epoch began; either ends the lease ([`LeaseError::Unreadable`]).
    ///
    /// A write that is only visible need not be durable: the keeper repeats it under a fresh token,
    /// and counts on it once the store acknowledges the repetition.
    pub(crate) async fn resolve_writes(
        &mut self,
        known_row: &mut KnownRow<WriteIntent>,
        last_answer: LastAnswer,
    ) -> Result<Option<Acknowledged<WriteIntent>>, LeaseError> {
        let mut unreadable = None;
        if known_row.is_unresolved() {
            match self.read_and_resolve(known_row).await {
                Ok((Resolution::Unchanged | Resolution::Visible, _)) => {}
                Ok((Resolution::Lost, Some(row))) => return Err(LeaseError::Lost(row.into())),
                Ok((Resolution::Lost | Resolution::Vanished, _)) => {
                    return Err(LeaseError::Vanished);
                }
                Err(LeaseError::Unreadable(error))
                    if last_answer == LastAnswer::Missing && may_have_token(&error) =>
                {
                    unreadable = Some(error);
                }
                Err(error) => return Err(error),
            }
        }
        let epoch = self.history.epoch();
        let Some(visible) = known_row.visible() else { return Ok(None) };
        if visible.write.epoch != epoch {
            // The purpose of that write is decided again in the present epoch.
            known_row.forget_before(epoch);
            return Ok(None);
        }
        let Attempt { write, intent } = visible.clone();
        if let Some(taken) = planted::taken_as_acknowledged(known_row, &write, intent) {
            return Ok(Some(taken));
        }
        let write = RowWrite { token: self.next_token(known_row), ..write };
        match self.swap(known_row, write, intent).await? {
            Some(acknowledged) => Ok(Some(acknowledged)),
            None => Err(unreadable.map_or(LeaseError::Retry, LeaseError::Unreadable)),
        }
    }

    /// Creates the grant of an acknowledged lease. If `is_saved`, claims can use the grant only
    /// once the state file has the lease. `clocks` were judged for the lease.
    pub(crate) fn grant(
        &self,
        worker: u64,
        lease: Lease,
        is_saved: bool,
        clocks: Option<ClockReading>,
    ) -> Arc<Grant> {
        let Lease { lane, start, limit } = lease;
        let layout = self.shared.layout();
        let codes_max = self.settings.issue.codes_max;
        let file_writer = self.file_writer.as_ref().filter(|_| is_saved);
        let waker = waker(
            file_writer
                .map(|file_writer| &file_writer.near_limit)
                .into_iter()
                .chain([&self.wake_up]),
        );
        let grant = Grant::new(layout, worker, lane as u64, start, codes_max, waker)
            .expect("rows of the scope fit the layout");
        if let Some(ClockReading { wall_ms, .. }) = clocks {
            // If the clock goes back from this reading, the keeper must notice that even before an
            // ID is issued: the grant could not issue.
            grant.note_reading(wall_ms.min(layout.start_of_tick_ms(layout.tick_of(start))));
        }
        self.extend(&grant, limit, is_saved);
        Arc::new(grant)
    }

    /// Extends a grant to the acknowledged mark. If `is_saved`, its limit rises only once the state
    /// file has a local mark beyond it.
    pub(crate) fn extend(&self, grant: &Grant, limit: u64, is_saved: bool) {
        if is_saved {
            grant.acknowledge(limit);
        } else {
            grant.raise_limit(limit, self.shared.present_position());
        }
    }

    pub(crate) fn observe(&self, operation: LeaseOperation, outcome: LeaseOutcome) {
        self.shared.observer.lease_operation(operation, outcome);
    }

    /// Reports that the store failed. The caller retries later.
    pub(crate) fn store_failed(&self, error: &StoreError) {
        let failure = StoreFailure::from(error);
        self.shared.set_reason(Some(UnavailableReason::StoreUnavailable(failure)));
    }

    /// Returns the barrier as the reason why no lease begins before it, if it is ahead of the
    /// clock.
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

    /// Follows the history in the namespace's record; see
    /// [`KnownHistory::follow`](crate::history::KnownHistory::follow).
    ///
    /// `ahead_ms` is set if leases are computed from an instant ahead of the store's clock, in Unix
    /// ms, because the node's clock is trusted more. Such leases may exceed the longest lease that
    /// the record names, so the node first registers the instant that they reach.
    pub(crate) async fn follow_history(
        &mut self,
        survey: &Survey,
        record: &LayoutRecord,
        clocks: EpochClocks,
        ahead_ms: Option<i64>,
    ) -> Result<Followed, StoreError> {
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

    /// Follows the history that a survey found, if the record names the configured layout.
    async fn follow_survey(&mut self, judged: &JudgedSurvey) -> Result<Followed, StoreError> {
        if judged.survey.record.is_some() {
            self.was_foreign = !self.is_recorded(judged);
        }
        match &judged.survey.record {
            Some(record) if self.is_recorded(judged) => {
                // Only then: otherwise the store's clock bounds the lease.
                let ahead_ms = judged.is_store_behind().then_some(judged.now_ms);
                self.follow_history(&judged.survey, record, judged.epoch_clocks, ahead_ms).await
            }
            _ => Ok(Followed::Current),
        }
    }
}
