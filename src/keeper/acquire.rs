//! Taking a free row.

use std::time::Duration;

use super::{
    LeaseOperation, LeaseOutcome, StoreOperation, Trouble,
    context::{Context, Sent, Surveyed, Swapped, millis},
    hold::Held,
};
use crate::{
    core::{
        lease::{
            Choice, ClockVerdict, HeldLanes, Marks, Purpose, Recorded, Resolution, Row, Tenure,
            choose_row, first_due, marks_beyond, usable_lane,
        },
        policy::Policy,
    },
    keeper::KeeperError,
    store::{Scope, StoreError},
};

/// How many rows are read at first: enough for the first choices of many nodes.
const FIRST_ROWS: u32 = 64;
/// How often taking a row is tried before the caller has a look at the rest of the world.
const TRIES: u32 = 32;

/// A mark may be due in years, after a clock was; nobody should be told to wait that long.
const LONGEST_RETRY_AFTER: Duration = Duration::from_hours(1);

/// How a search for a row ended.
pub(super) enum Acquired<P: Policy> {
    Held(Box<Held<P>>),
    /// No row or lane is to be had; worth another try after this time.
    NoneFree(Duration),
    /// The node's clock is ahead by this many ms.
    ClockAhead(i64),
    /// The node's clock is before the layout's epoch or past its end.
    ClockOutOfRange,
    /// The namespace's record is gone, or says another layout.
    RecordVanished,
    /// Others were faster each time.
    Contended,
}

/// A search for a row. While a write's outcome is unknown, it holds on to that row: taking
/// another one could leave this one leased to nobody.
#[derive(Debug)]
pub(super) struct Search<P: Policy> {
    pub(super) unresolved: Option<Tenure<Sent, P>>,
    conflicts: u32,
}

impl<P: Policy> Default for Search<P> {
    fn default() -> Self {
        Self { unresolved: None, conflicts: 0 }
    }
}

impl<P: Policy> Search<P> {
    /// Tries to take a row.
    pub(super) async fn run(
        &mut self,
        context: &mut Context<P>,
        has_renewed: bool,
    ) -> Result<Acquired<P>, StoreError> {
        for _ in 0..TRIES {
            let surveyed = context.survey(None).await?;
            if !context.is_recorded(&surveyed) {
                return Ok(Acquired::RecordVanished);
            }
            if let ClockVerdict::Ahead(ahead_ms) = surveyed.verdict {
                context.observe(LeaseOperation::Acquire, LeaseOutcome::ClockAhead);
                return Ok(Acquired::ClockAhead(ahead_ms));
            }
            if context.settings.layout.tick_in_range(context.now_ms()).is_none() {
                return Ok(Acquired::ClockOutOfRange);
            }
            if let Some(held) = self.settle(context).await? {
                return Ok(Acquired::Held(held));
            }
            if self.unresolved.is_none() {
                match self.choose(context, surveyed.now_ms).await? {
                    Ok(row) => {
                        self.unresolved = Some(Tenure::of(&row));
                        // The record is looked at once more: rows that were read after the
                        // layout changed have marks in other units.
                        continue;
                    }
                    Err(not_due) => {
                        context.observe(LeaseOperation::Acquire, LeaseOutcome::NoneFree);
                        return Ok(none_free(context, &surveyed, &not_due));
                    }
                }
            }
            let reach_ms = context.reach_ms(has_renewed);
            if let Some(held) = self.take(context, &surveyed, reach_ms).await? {
                return Ok(Acquired::Held(held));
            }
        }
        Ok(Acquired::Contended)
    }

    /// Reads the row of a write whose outcome is unknown.
    async fn settle(&mut self, context: &Context<P>) -> Result<Option<Box<Held<P>>>, StoreError> {
        let Some(tenure) = self.unresolved.as_mut().filter(|tenure| tenure.is_unresolved()) else {
            return Ok(None);
        };
        match context.resolve(tenure).await? {
            // The next swap starts from the same token, which refuses the late one.
            Resolution::Unchanged => Ok(None),
            Resolution::TookPlace(attempt) => Ok(self.won(context, attempt.purpose)),
            Resolution::Lost | Resolution::Vanished => {
                self.unresolved = None;
                self.conflicts += 1;
                Ok(None)
            }
        }
    }

    /// Swaps the row that was chosen, or that an earlier attempt may still change.
    async fn take(
        &mut self,
        context: &mut Context<P>,
        surveyed: &Surveyed,
        reach_ms: i64,
    ) -> Result<Option<Box<Held<P>>>, StoreError> {
        let Some(tenure) = &mut self.unresolved else { return Ok(None) };
        let now_ms = surveyed.now_ms;
        let due_ms = now_ms.saturating_add(millis(context.settings.issue.max_wait));
        let layout = &context.settings.layout;
        let lane = usable_lane(layout, tenure.marks(), now_ms, None)
            .or_else(|| usable_lane(layout, tenure.marks(), due_ms, None))
            // The clock went back meanwhile; the row must be settled all the same.
            .unwrap_or(layout.rollback_initial() as usize);
        let lanes = HeldLanes::on(lane);
        let (write, sent) = context.lease_write(tenure, &lanes, lane, surveyed, reach_ms);
        match context.swap(tenure, write, sent, LeaseOperation::Acquire).await {
            Swapped::Done(sent) => Ok(self.won(context, sent)),
            Swapped::Refused => self.settle(context).await,
            Swapped::Unknown(error) => Err(error),
        }
    }

    /// Ends the search: settles a write whose outcome is unknown. A row that turns out to be won
    /// is returned, to be given back.
    pub(super) async fn abandon(
        &mut self,
        context: &mut Context<P>,
    ) -> Result<Option<Box<Held<P>>>, StoreError> {
        if let Some(held) = self.settle(context).await? {
            return Ok(Some(held));
        }
        let Some(tenure) = self.unresolved.as_mut().filter(|tenure| tenure.is_unresolved()) else {
            self.unresolved = None;
            return Ok(None);
        };
        // The row is as it was, but our write may still arrive: this one refuses it.
        let mark = tenure.marks()[0];
        let write = context.release_write(tenure, &HeldLanes::on(0), mark);
        let sent = context.releasing();
        match context.swap(tenure, write, sent, LeaseOperation::Release).await {
            Swapped::Done(_) => {
                self.unresolved = None;
                Ok(None)
            }
            Swapped::Refused => self.settle(context).await,
            Swapped::Unknown(error) => Err(error),
        }
    }

    fn won(&mut self, context: &Context<P>, sent: Sent) -> Option<Box<Held<P>>> {
        let tenure = self.unresolved.take()?;
        self.conflicts = 0;
        let Purpose::Lease(lease) = sent.purpose else { return None };
        Some(Box::new(Held::new(context, tenure, lease, sent.judged)))
    }

    /// A row to take; where there is none, every row that is free, though none comes due soon.
    async fn choose(
        &self,
        context: &mut Context<P>,
        now_ms: i64,
    ) -> Result<Result<Row, Vec<Row>>, StoreError> {
        if context.settings.prefer_previous {
            let question = context.store.free_row_of(&context.scope, &context.settings.holder);
            let previous = context.ask(StoreOperation::Read, question).await?;
            let previous = previous.filter(|row| has_our_lanes(context, row));
            if let Ok(row) = choose_among(context, previous.into_iter().collect(), now_ms, 0) {
                return Ok(Ok(row));
            }
        }
        let few = FIRST_ROWS << self.conflicts.min(16);
        let rows = free_rows(context, few).await?;
        let complete = rows.len() < few as usize;
        match choose_among(context, rows, now_ms, self.conflicts) {
            // The longest unused rows may all have marks ahead while younger ones do not.
            Err(_) if !complete => {
                let rows = free_rows(context, u32::MAX).await?;
                Ok(choose_among(context, rows, now_ms, self.conflicts))
            }
            chosen => Ok(chosen),
        }
    }
}

/// How long it takes until the first of the free rows comes due, or a held one comes free.
fn none_free<P: Policy>(context: &Context<P>, surveyed: &Surveyed, not_due: &[Row]) -> Acquired<P> {
    let Surveyed { survey, now_ms, .. } = surveyed;
    let expires_in_ms = survey.next_expiry_ms.map(|at| at.saturating_sub(survey.now_ms));
    let due_in_ms =
        first_due(&context.settings.layout, not_due).map(|due_ms| due_ms.saturating_sub(*now_ms));
    let first = due_in_ms.into_iter().chain(expires_in_ms).min();
    let wait_ms = first.unwrap_or_else(|| millis(context.settings.lease.ttl));
    let wait_ms = wait_ms.clamp(0, millis(LONGEST_RETRY_AFTER));
    Acquired::NoneFree(Duration::from_millis(wait_ms.unsigned_abs()))
}

async fn free_rows<P: Policy>(context: &Context<P>, limit: u32) -> Result<Vec<Row>, StoreError> {
    let limit = limit.min(u32::try_from(context.scope.workers()).unwrap_or(u32::MAX));
    let question = context.store.free_rows(&context.scope, limit);
    let mut rows = context.ask(StoreOperation::Read, question).await?;
    rows.retain(|row| has_our_lanes(context, row));
    Ok(rows)
}

fn has_our_lanes<P: Policy>(context: &Context<P>, row: &Row) -> bool {
    let lanes = context.settings.layout.lanes();
    let fits = row.marks.lanes() == lanes;
    if !fits {
        tracing::error!(
            namespace = context.settings.namespace,
            worker = row.worker,
            marks = %row.marks,
            lanes,
            "a row is left alone: it has other lanes than the layout"
        );
    }
    fits
}

/// One of the rows, or all of them back when none comes due soon enough.
fn choose_among<P: Policy>(
    context: &mut Context<P>,
    mut rows: Vec<Row>,
    now_ms: i64,
    conflicts: u32,
) -> Result<Row, Vec<Row>> {
    let max_wait_ms = millis(context.settings.issue.max_wait);
    let random = context.random_number();
    let layout = &context.settings.layout;
    match choose_row(layout, &rows, now_ms, max_wait_ms, conflicts, random) {
        Some(Choice { index, .. }) => Ok(rows.swap_remove(index)),
        None => Err(rows),
    }
}

/// Creates tables, layout record and rows where they are missing.
pub(super) async fn prepare<P: Policy>(context: &Context<P>) -> Result<(), KeeperError> {
    let store = &context.store;
    let scope = &context.scope;
    for warning in context.ask(StoreOperation::Prepare, store.prepare()).await? {
        tracing::warn!(
            namespace = scope.namespace,
            warning,
            "the store may lose acknowledged writes"
        );
    }
    let layout = &context.settings.layout;
    // All workers of the layout, not only those of this node's range: a range that starts being
    // used later must not look like rows that were lost.
    let all = Scope { min_worker: 0, max_worker: layout.largest_worker(), ..scope.clone() };
    let before = context.ask(StoreOperation::Read, store.survey(&all)).await?;
    if before.record.is_none() && before.held + before.free > 0 {
        return Err(KeeperError::Store(StoreError::Unusable(format!(
            "namespace {} has worker rows but no layout record, so nobody knows what their marks \
             mean: restore the record, or delete the rows while no node runs",
            scope.namespace
        ))));
    }
    let ours = context.words.clone();
    let record = if before.record.is_some() {
        // One that vanishes now must not be made anew, as if nothing had ever been issued.
        let question = store.read_record(&scope.namespace);
        let record = context.ask(StoreOperation::Read, question).await?;
        record.ok_or_else(|| StoreError::Vanished("the layout record is gone".to_owned()))?
    } else {
        let question = store.layout_record(&scope.namespace, &ours);
        context.ask(StoreOperation::Prepare, question).await?
    };
    if record.words != ours {
        let (namespace, recorded) = (scope.namespace.clone(), record.words);
        return Err(match Recorded::read(&recorded) {
            Ok(Recorded::Moving(relayout)) => KeeperError::Moving { namespace, to: relayout.to },
            _ => KeeperError::LayoutConflict { namespace, ours, recorded },
        });
    }
    let was_complete = record.complete.contains(&scope.reserved_key);
    if before.held + before.free < all.workers() {
        // Once more, for the rows and the clock as they are after the record was read.
        let survey = context.ask(StoreOperation::Read, store.survey(&all)).await?;
        let marks = if was_complete {
            // A row that is missing now may have been there, and in use.
            let lease = context.settings.lease;
            let (window_ms, skew_ms) = (millis(lease.window), millis(lease.max_clock_skew));
            marks_beyond(layout, survey.now_ms, window_ms, skew_ms)
        } else {
            Marks::all_at(0, layout.lanes())
        };
        context.ask(StoreOperation::Prepare, store.create_rows(&all, &marks)).await?;
    }
    if !was_complete {
        let question = store.mark_complete(&scope.namespace, &scope.reserved_key);
        context.ask(StoreOperation::Prepare, question).await?;
    }
    Ok(())
}

/// What is said about a search that found nothing.
pub(super) fn trouble_of<P: Policy>(acquired: &Acquired<P>) -> Option<Trouble> {
    match acquired {
        Acquired::NoneFree(wait) => {
            Some(Trouble::NoFreeWorker { retry_after_seconds: wait.as_secs() + 1 })
        }
        Acquired::ClockAhead(ahead_ms) => Some(Trouble::ClockAhead(*ahead_ms)),
        Acquired::ClockOutOfRange => Some(Trouble::ClockOutOfRange),
        Acquired::RecordVanished => Some(Trouble::StoreLost),
        Acquired::Held(_) | Acquired::Contended => None,
    }
}
