//! Searches for a free row, and leases it.
//!
//! [`Search::run`] makes one pass after the other, and surveys before each. A pass either chooses a
//! row or swaps the one that an earlier pass chose. So a survey lies between the choice and the
//! swap: the layout may have changed before the rows were read, and their marks would be in other
//! units.
//!
//! It installs no grant and releases no row: the task does. While a write's outcome is unknown, the
//! search keeps to that row. So the task must keep the search until it succeeds, or release its row
//! with [`Search::abandon`]. It leaves only a row that cannot be read, unless its next swap can
//! decide: no process can lease such a row until a person repairs it. Tests: `searches.rs`,
//! `crowd.rs` and `leases.rs` in `src/tests`.

use raindrop_core::{
    instant::millis,
    lease::{
        Acknowledged, Choice, ClockVerdict, HeldLanes, HighWaterMarks, KnownRow, Purpose,
        ReleasingRow, Row, choose_row, first_due, usable_lane,
    },
};
use raindrop_store::{Scope, StoreError};
use rand::Rng;

use super::{
    context::{JudgedSurvey, LastAnswer, LeaseContext, LeaseError, WriteIntent},
    held::HeldLease,
    planted,
    prepare::create_more,
    stale_wait::{StaleStore, StaleWait},
};
use crate::support::{
    observer::{LeaseOperation, LeaseOutcome, StoreOperation},
    status::{StoreFailure, UnavailableReason},
};

/// Number of rows that are read at first: enough for the first choices of many nodes.
const FIRST_ROWS: u32 = 64;
/// Largest number of rows that are read to choose among those that were never written.
const PART: u64 = 4_096;
/// Number of passes before the search returns, so that the task can do its other work.
const PASSES: u32 = 32;

/// The result of a search for a row.
pub(crate) enum SearchOutcome {
    Leased(Box<HeldLease>),
    /// No row or lane is usable before this instant, Unix ms.
    NoneFree(i64),
    /// The node's clock is ahead by this many ms.
    ClockAhead(i64),
    /// The node's clock is before the layout's epoch or past its end.
    ClockOutOfRange,
    /// The epoch has no barrier yet.
    BarrierPending,
    /// The namespace has no record.
    RecordVanished,
    /// The namespace's record names another layout.
    RecordForeign,
    /// Other nodes took each row first.
    Contended,
    /// The store may be a restored one.
    Stale(StaleStore),
}

impl SearchOutcome {
    /// Returns the reason why no lease was found, if it is to be reported.
    pub(crate) fn reason(&self) -> Option<UnavailableReason> {
        match *self {
            Self::NoneFree(due_ms) => Some(UnavailableReason::NoFreeWorker { due_ms }),
            Self::ClockAhead(ahead_ms) => Some(UnavailableReason::ClockAhead(ahead_ms)),
            Self::ClockOutOfRange => Some(UnavailableReason::ClockOutOfRange),
            Self::RecordVanished | Self::RecordForeign => Some(UnavailableReason::StoreLost),
            Self::Contended => {
                let error = StoreError::Refused("other processes took each row first".into());
                Some(UnavailableReason::StoreUnavailable(StoreFailure::from(&error)))
            }
            Self::Leased(_) | Self::BarrierPending | Self::Stale(_) => None,
        }
    }
}

/// The result of one pass of a search.
enum Pass {
    Ended(SearchOutcome),
    /// The next pass continues, with a new survey.
    SurveyAgain,
}

/// The row to take, or all rows that the search read if none of them comes due soon enough.
enum Chosen {
    Row(Row),
    NoneDue(Vec<Row>),
}

/// A search for a row. While a write's outcome is unknown, the search keeps to that row. If it took
/// another one, the first could stay leased without a holder.
#[derive(Default)]
pub(crate) struct Search {
    /// The row that the search keeps to, and its writes whose outcome is unknown.
    chosen: Option<KnownRow<WriteIntent>>,
    /// The worker whose row this process holds meanwhile; that row may have expired.
    held_worker: Option<u64>,
    /// How many rows other processes took first. It widens the next choice.
    conflicts: u32,
    stale: StaleWait,
}

impl Search {
    /// Tries to lease a row other than that of the lease `held`, which this process has meanwhile.
    pub(crate) async fn run(
        &mut self,
        context: &mut LeaseContext,
        held: Option<&HeldLease>,
    ) -> Result<SearchOutcome, StoreError> {
        self.held_worker = held.map(|held| held.row.known_row.worker());
        for _ in 0..PASSES {
            let judged = context.survey_for_search(held.and_then(HeldLease::renewed)).await?;
            if let Pass::Ended(outcome) = self.pass(context, &judged).await? {
                return Ok(outcome);
            }
        }
        Ok(SearchOutcome::Contended)
    }

    /// Takes one pass, by a survey that was made for it. In this order:
    ///
    /// 1. ends the search if no lease may begin now;
    /// 2. if an earlier pass chose a row: waits while the store may be stale, releases rows that
    ///    crashed processes left, and resolves the writes of the row;
    /// 3. without a row, chooses one for the next pass, or creates more rows;
    /// 4. swaps the chosen row.
    async fn pass(
        &mut self,
        context: &mut LeaseContext,
        judged: &JudgedSurvey,
    ) -> Result<Pass, StoreError> {
        if let Some(outcome) = refusal(context, judged) {
            return Ok(Pass::Ended(outcome));
        }
        if self.chosen.is_some() {
            if let Some(stale) = self.wait_for_holders(context, judged).await? {
                context.observe(LeaseOperation::Acquire, LeaseOutcome::NoneFree);
                // The search chooses a row again after the wait.
                self.chosen.take_if(|known_row| known_row.unconfirmed().is_none());
                return Ok(Pass::Ended(SearchOutcome::Stale(stale)));
            }
            if self.release_rows_if_due(context, judged).await? {
                return Ok(Pass::SurveyAgain);
            }
            if let Some(lease) = self.resolve_writes(context, LastAnswer::Missing).await? {
                return Ok(Pass::Ended(SearchOutcome::Leased(lease)));
            }
            // If the record does not name the row's part, the store lost the write that named it.
            self.chosen.take_if(|known_row| !context.is_created(known_row.worker()));
        }
        if self.chosen.is_none() {
            let passed = self.choose_for_next_pass(context, judged).await?;
            if self.chosen.is_none() || planted::reads_record_again() {
                return Ok(passed);
            }
        }
        Ok(match self.take(context, judged).await? {
            Some(lease) => Pass::Ended(SearchOutcome::Leased(lease)),
            None => Pass::SurveyAgain,
        })
    }

    /// Chooses the row that the next pass takes. The survey of that pass finds whether the layout
    /// changed before the rows were read, whose marks would then be in other units. If no row is
    /// usable, creates more rows or ends the search.
    async fn choose_for_next_pass(
        &mut self,
        context: &mut LeaseContext,
        judged: &JudgedSurvey,
    ) -> Result<Pass, StoreError> {
        let not_due = match self.choose(context, judged.now_ms).await? {
            Chosen::Row(row) => {
                let (namespace, worker) = (&context.settings.namespace, row.worker);
                let was_used = !row.was_never_written();
                tracing::debug!(namespace, worker, was_used, "free worker id chosen");
                self.chosen = Some(KnownRow::of(&row));
                return Ok(Pass::SurveyAgain);
            }
            Chosen::NoneDue(rows) => rows,
        };
        if self.has_more_rows(context, judged).await? {
            return Ok(Pass::SurveyAgain);
        }
        // Waits for holders without a row, too: the search need not wait again once it has one.
        let stale = self.wait_for_holders(context, judged).await?;
        if stale.is_none() && self.release_rows_if_due(context, judged).await? {
            return Ok(Pass::SurveyAgain);
        }
        context.observe(LeaseOperation::Acquire, LeaseOutcome::NoneFree);
        Ok(Pass::Ended(none_free(context, judged, &not_due)))
    }

    /// Returns the stale store to wait for; see [`StaleWait::wait_for_holders`].
    ///
    /// If this process lost a lease whose row it could not read, nothing else may show that a stale
    /// store was rolled back: this process may be the only one that remembers. So it begins an
    /// epoch.
    async fn wait_for_holders(
        &mut self,
        context: &mut LeaseContext,
        judged: &JudgedSurvey,
    ) -> Result<Option<StaleStore>, StoreError> {
        let stale = self.stale.wait_for_holders(context, judged).await?;
        let lost_unreadable = std::mem::take(&mut context.lost_unreadable);
        context.history.epoch_must_end |= lost_unreadable && stale.is_some();
        Ok(stale)
    }

    /// Releases the rows that made this search wait, if that is due. Returns whether it was.
    async fn release_rows_if_due(
        &mut self,
        context: &mut LeaseContext,
        judged: &JudgedSurvey,
    ) -> Result<bool, StoreError> {
        let is_due = self.stale.is_release_due(judged);
        if is_due {
            self.stale.release_rows(context, judged).await?;
        }
        Ok(is_due)
    }

    /// Creates more rows, if the node's worker ids have parts that were not needed so far and whose
    /// rows could be leased now. Returns whether the caller must survey again.
    async fn has_more_rows(
        &self,
        context: &mut LeaseContext,
        judged: &JudgedSurvey,
    ) -> Result<bool, StoreError> {
        let Some(record) = judged.survey.record.clone() else { return Ok(false) };
        // New rows start at the barrier, as rows that were never written do.
        let layout = &context.settings.layout;
        let marks = HighWaterMarks::all_at(context.history.barrier(layout), layout.lanes());
        let due_ms = judged.now_ms.saturating_add(millis(context.settings.issue.max_wait));
        if usable_lane(layout, &marks, due_ms, None).is_none() {
            return Ok(false);
        }
        // If another process changed the record meanwhile, it may have created them.
        Ok(create_more(context, record).await?.is_some())
    }

    /// Resolves writes whose outcome is unknown. Returns the lease that they took, if any.
    async fn resolve_writes(
        &mut self,
        context: &mut LeaseContext,
        last_answer: LastAnswer,
    ) -> Result<Option<Box<HeldLease>>, StoreError> {
        let Some(known_row) = &mut self.chosen else { return Ok(None) };
        match context.resolve_writes(known_row, last_answer).await {
            Ok(Some(acknowledged)) => return Ok(self.won(context, &acknowledged)),
            // The next swap starts from the same token, so the store refuses a late write.
            Ok(None) | Err(LeaseError::Retry) => {}
            Err(LeaseError::Store(error)) => return Err(error),
            Err(_) => {
                let (namespace, worker) = (&context.settings.namespace, known_row.worker());
                tracing::debug!(
                    namespace,
                    worker,
                    "another process took the chosen worker id first"
                );
                self.chosen = None;
                self.conflicts += 1;
            }
        }
        Ok(None)
    }

    /// Sends the swap of the chosen row, or of the row that an earlier write may still change.
    async fn take(
        &mut self,
        context: &mut LeaseContext,
        judged: &JudgedSurvey,
    ) -> Result<Option<Box<HeldLease>>, StoreError> {
        // A visible write is resolved before another one is sent.
        let chosen = self.chosen.as_mut().filter(|known_row| known_row.visible().is_none());
        let Some(known_row) = chosen else { return Ok(None) };
        let now_ms = judged.now_ms;
        let due_ms = now_ms.saturating_add(millis(context.settings.issue.max_wait));
        let layout = &context.settings.layout;
        let marks = context.marks_of(known_row);
        let usable = |at_ms| usable_lane(layout, &marks, at_ms, None);
        let lane = match usable(now_ms).or_else(|| usable(due_ms)) {
            Some(lane) => lane,
            // The clock went back, or an epoch began, and no write is in flight: the row can be
            // left.
            None if !known_row.is_unresolved() => {
                self.chosen = None;
                return Ok(None);
            }
            // A write is in flight, so its outcome must be resolved, whether or not a lane comes
            // due.
            None => layout.rollback_initial() as usize,
        };
        let (lanes, operation) = (HeldLanes::on(lane), LeaseOperation::Acquire);
        match context.take_lane(known_row, &lanes, lane, judged, operation).await? {
            Some(taken) => Ok(self.won(context, &taken)),
            None => self.resolve_writes(context, LastAnswer::Refused).await,
        }
    }

    /// Ends the search. Returns the row that it may have taken, or may still take, which the caller
    /// must release. A row that may have expired is left, since another process may have taken it.
    pub(crate) fn abandon(self, context: &LeaseContext) -> Option<ReleasingRow<WriteIntent>> {
        let known_row = self.chosen?;
        let sent = known_row.unconfirmed().map(|attempt| &attempt.intent.clocks);
        (!context.may_have_expired(sent)).then(|| ReleasingRow::of_search(known_row))
    }

    /// Ends the search with the lease that an acknowledged write took.
    fn won(
        &mut self,
        context: &LeaseContext,
        write: &Acknowledged<WriteIntent>,
    ) -> Option<Box<HeldLease>> {
        let intent = write.intent();
        let known_row = self.chosen.take()?;
        (self.conflicts, self.stale) = (0, StaleWait::default());
        let Purpose::Lease(lease) = intent.purpose else { return None };
        Some(Box::new(HeldLease::new(context, known_row, lease, Some(intent))))
    }

    /// Chooses a row to take. If none of the first rows comes due soon, reads every free row.
    async fn choose(&self, context: &mut LeaseContext, now_ms: i64) -> Result<Chosen, StoreError> {
        let scope = context.scope.clone();
        if context.settings.prefer_previous {
            let holder = Some(&*context.settings.holder);
            let previous = self.free_rows(context, &scope, holder, 1).await?;
            let chosen = choose_among(context, previous, now_ms, 0);
            if let Chosen::Row(_) = chosen {
                return Ok(chosen);
            }
        }
        if self.stale.has_begun() {
            // Rows of crashed nodes first: until such a row is released, each start waits for it.
            let mut unreleased = self.free_rows(context, &scope, None, u32::MAX).await?;
            unreleased.retain(|row| row.expires_ms != 0);
            let chosen = choose_among(context, unreleased, now_ms, self.conflicts);
            if let Chosen::Row(_) = chosen {
                return Ok(chosen);
            }
        }
        let few = FIRST_ROWS << self.conflicts.min(16);
        let first_rows = self.free_rows(context, &scope, None, few).await?;
        let complete = first_rows.len() < few as usize;
        // Rows that were never written are all alike. So that nodes that start together choose
        // different ones, one is chosen from a random part of the range below.
        let may_be_fresher = !complete && first_rows.iter().all(Row::was_never_written);
        match choose_among(context, first_rows, now_ms, self.conflicts) {
            chosen @ Chosen::Row(_) if !may_be_fresher => Ok(chosen),
            // The longest-unused rows may all have marks ahead of the clock, while other rows do
            // not.
            _ if !complete => {
                if may_be_fresher && let Some(row) = self.choose_in_part(context, now_ms).await? {
                    return Ok(Chosen::Row(row));
                }
                let all_rows = self.free_rows(context, &scope, None, u32::MAX).await?;
                Ok(choose_among(context, all_rows, now_ms, self.conflicts))
            }
            chosen => Ok(chosen),
        }
    }

    /// Chooses among the never-written rows of a random part of the worker ids, so that a start
    /// need not read tens of thousands of rows. Returns `None` if the part has no usable row, or if
    /// there are too few worker ids to divide.
    async fn choose_in_part(
        &self,
        context: &mut LeaseContext,
        now_ms: i64,
    ) -> Result<Option<Row>, StoreError> {
        let Scope { min_worker, max_worker, .. } = context.scope;
        let parts = context.scope.workers().div_ceil(PART);
        if parts == 1 {
            return Ok(None);
        }
        // Of equal size, so that no part is so small that many starts choose the same rows.
        let size = context.scope.workers().div_ceil(parts);
        let min_worker = min_worker + context.random.0.next_u64() % parts * size;
        let max_worker = max_worker.min(min_worker + size - 1);
        let part = Scope { min_worker, max_worker, ..context.scope.clone() };
        let mut rows = self.free_rows(context, &part, None, u32::MAX).await?;
        rows.retain(Row::was_never_written);
        Ok(match choose_among(context, rows, now_ms, self.conflicts) {
            Chosen::Row(row) => Some(row),
            Chosen::NoneDue(_) => None,
        })
    }

    /// Reads free rows that this process may lease, longest unused first, with their marks as they
    /// count in the present epoch.
    async fn free_rows(
        &self,
        context: &LeaseContext,
        scope: &Scope,
        holder: Option<&str>,
        wanted: u32,
    ) -> Result<Vec<Row>, StoreError> {
        let most = wanted.min(u32::try_from(scope.workers()).unwrap_or(u32::MAX));
        let call = context.store.free_rows(scope, holder, most);
        let mut rows = context.call(StoreOperation::Read, call).await?;
        rows.retain(|row| {
            Some(row.worker) != self.held_worker
                && context.is_created(row.worker)
                && has_our_lanes(context, row)
        });
        let (history, layout) = (&context.history, &context.settings.layout);
        for row in &mut rows {
            row.marks = history.marks(layout, row.epoch, &row.marks);
        }
        Ok(rows)
    }
}

/// Returns why no lease may begin now; `None` if one may.
fn refusal(context: &LeaseContext, judged: &JudgedSurvey) -> Option<SearchOutcome> {
    if !context.is_recorded(judged) {
        return Some(match judged.survey.record {
            None => SearchOutcome::RecordVanished,
            Some(_) => SearchOutcome::RecordForeign,
        });
    }
    if context.history.lacks_barrier() {
        context.observe(LeaseOperation::Acquire, LeaseOutcome::NoneFree);
        return Some(SearchOutcome::BarrierPending);
    }
    if let ClockVerdict::Ahead(ahead_ms) = judged.verdict {
        context.observe(LeaseOperation::Acquire, LeaseOutcome::ClockAhead);
        return Some(SearchOutcome::ClockAhead(ahead_ms));
    }
    let is_in_range = context.settings.layout.tick_in_range(context.shared.clock.now_ms());
    is_in_range.is_none().then_some(SearchOutcome::ClockOutOfRange)
}

/// Computes when the first free row comes due, or the first held row expires.
fn none_free(context: &LeaseContext, judged: &JudgedSurvey, not_due: &[Row]) -> SearchOutcome {
    let JudgedSurvey { survey, now_ms, .. } = judged;
    let expires_in_ms = survey.next_expiry_ms.map(|at| at.saturating_sub(survey.now_ms));
    let due_in_ms =
        first_due(&context.settings.layout, not_due).map(|due_ms| due_ms.saturating_sub(*now_ms));
    let first = due_in_ms.into_iter().chain(expires_in_ms).min();
    let wait_ms = first.unwrap_or_else(|| millis(context.settings.lease.ttl));
    let clock_ms = context.shared.clock.now_ms();
    SearchOutcome::NoneFree(clock_ms.saturating_add(wait_ms.max(0)))
}

/// Returns whether a row has as many lanes as the layout. Logs one that has not.
fn has_our_lanes(context: &LeaseContext, row: &Row) -> bool {
    let lanes = context.settings.layout.lanes();
    let fits = row.marks.lanes() == lanes;
    if !fits {
        tracing::error!(
            namespace = context.settings.namespace,
            worker = row.worker,
            marks = %row.marks,
            lanes,
            "row skipped: it has other lanes than the layout"
        );
    }
    fits
}

/// Chooses one of the rows at random, as [`choose_row`] does.
fn choose_among(
    context: &mut LeaseContext,
    mut rows: Vec<Row>,
    now_ms: i64,
    conflicts: u32,
) -> Chosen {
    let max_wait_ms = millis(context.settings.issue.max_wait);
    let random = context.random.0.next_u64();
    let layout = &context.settings.layout;
    match choose_row(layout, &rows, now_ms, max_wait_ms, conflicts, random) {
        Some(Choice { index, .. }) => Chosen::Row(rows.swap_remove(index)),
        None => Chosen::NoneDue(rows),
    }
}
