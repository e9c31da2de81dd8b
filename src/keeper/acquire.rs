//! Taking a free row.

use std::time::Duration;

use super::{
    LeaseOperation, LeaseOutcome, StoreOperation, Trouble,
    context::{Context, Sent, Settled, Surveyed, Swapped, millis},
    hold::Held,
    leaving::Leaving,
};
use crate::{
    core::{
        lease::{
            Choice, ClockVerdict, HeldLanes, Purpose, Row, Tenure, choose_row, first_due,
            usable_lane,
        },
        planted::{Bug, planted},
    },
    store::StoreError,
};

/// How many rows are read at first: enough for the first choices of many nodes.
const FIRST_ROWS: u32 = 64;
/// How often taking a row is tried before the caller has a look at the rest of the world.
const TRIES: u32 = 32;

/// A mark may be due in years, after a clock was; nobody should be told to wait that long.
const LONGEST_RETRY_AFTER: Duration = Duration::from_hours(1);

/// How a search for a row ended.
pub(super) enum Acquired {
    Held(Box<Held>),
    /// No row or lane is to be had; worth another try after this time.
    NoneFree(Duration),
    /// The node's clock is ahead by this many ms.
    ClockAhead(i64),
    /// The node's clock is before the layout's epoch or past its end.
    ClockOutOfRange,
    /// The namespace's record is gone.
    RecordVanished,
    /// The namespace's record says another layout.
    RecordForeign,
    /// Others were faster each time.
    Contended,
}

/// A search for a row. While a write's outcome is unknown, it holds on to that row: taking
/// another one could leave this one leased to nobody.
#[derive(Debug, Default)]
pub(super) struct Search {
    chosen: Option<Tenure<Sent>>,
    conflicts: u32,
}

impl Search {
    /// Tries to take a row.
    pub(super) async fn run(
        &mut self,
        context: &mut Context,
        has_renewed: bool,
    ) -> Result<Acquired, StoreError> {
        for _ in 0..TRIES {
            let surveyed = context.survey(None).await?;
            if !context.is_recorded(&surveyed) {
                return Ok(match surveyed.survey.record {
                    None => Acquired::RecordVanished,
                    Some(_) => Acquired::RecordForeign,
                });
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
            if self.chosen.is_none() {
                match self.choose(context, surveyed.now_ms).await? {
                    Ok(row) => {
                        self.chosen = Some(Tenure::of(&row));
                        // The record is looked at once more: rows that were read after the
                        // layout changed have marks in other units.
                        if !planted(Bug::RecordNotReread) {
                            continue;
                        }
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

    /// Settles writes whose outcome is unknown.
    async fn settle(&mut self, context: &mut Context) -> Result<Option<Box<Held>>, StoreError> {
        let Some(tenure) = &mut self.chosen else { return Ok(None) };
        Ok(match context.settle(tenure).await? {
            // The next swap starts from the same token, which refuses the late one.
            Settled::Unchanged | Settled::Overtaken => None,
            Settled::Acknowledged(sent) => self.won(context, sent),
            Settled::Lost | Settled::Vanished => {
                self.chosen = None;
                self.conflicts += 1;
                None
            }
        })
    }

    /// Swaps the row that was chosen, or that an earlier attempt may still change.
    async fn take(
        &mut self,
        context: &mut Context,
        surveyed: &Surveyed,
        reach_ms: i64,
    ) -> Result<Option<Box<Held>>, StoreError> {
        // One that is visible is settled before anything else is written.
        let chosen = self.chosen.as_mut().filter(|tenure| tenure.visible().is_none());
        let Some(tenure) = chosen else { return Ok(None) };
        let now_ms = surveyed.now_ms;
        let due_ms = now_ms.saturating_add(millis(context.settings.issue.max_wait));
        let layout = &context.settings.layout;
        let lane = usable_lane(layout, tenure.marks(), now_ms, None)
            .or_else(|| usable_lane(layout, tenure.marks(), due_ms, None))
            // The clock went back meanwhile; the row must be settled all the same.
            .unwrap_or(layout.rollback_initial() as usize);
        let (lanes, operation) = (HeldLanes::on(lane), LeaseOperation::Acquire);
        let (write, sent) =
            context.lease_write(tenure, &lanes, lane, surveyed, reach_ms, operation);
        match context.swap(tenure, write, sent).await {
            Swapped::Done(sent) => Ok(self.won(context, sent)),
            Swapped::Refused => self.settle(context).await,
            Swapped::Unknown(error) => Err(error),
        }
    }

    /// Whether no row was chosen.
    pub(super) const fn is_idle(&self) -> bool {
        self.chosen.is_none()
    }

    /// Ends the search. A row that was perhaps taken, or may still be, is to be given back.
    pub(super) fn abandon(&mut self) -> Option<Leaving> {
        let chosen = self.chosen.take()?;
        let is_written = chosen.is_unresolved() || chosen.visible().is_some();
        is_written.then(|| Leaving::of_search(chosen))
    }

    fn won(&mut self, context: &Context, sent: Sent) -> Option<Box<Held>> {
        let tenure = self.chosen.take()?;
        self.conflicts = 0;
        let Purpose::Lease(lease) = sent.purpose else { return None };
        Some(Box::new(Held::new(context, tenure, lease, sent.judged)))
    }

    /// A row to take; where there is none, every row that is free, though none comes due soon.
    async fn choose(
        &self,
        context: &mut Context,
        now_ms: i64,
    ) -> Result<Result<Row, Vec<Row>>, StoreError> {
        if context.settings.prefer_previous {
            let previous = free_rows(context, Some(&context.settings.holder), 1).await?;
            if let Ok(row) = choose_among(context, previous, now_ms, 0) {
                return Ok(Ok(row));
            }
        }
        let few = FIRST_ROWS << self.conflicts.min(16);
        let rows = free_rows(context, None, few).await?;
        let complete = rows.len() < few as usize;
        // All rows that were never written are equal.
        let may_be_fresher = !complete && rows.iter().all(Row::was_never_written);
        match choose_among(context, rows, now_ms, self.conflicts) {
            Ok(row) if !may_be_fresher => Ok(Ok(row)),
            // The longest unused rows may all have marks ahead while younger ones do not.
            _ if !complete => {
                let rows = free_rows(context, None, u32::MAX).await?;
                Ok(choose_among(context, rows, now_ms, self.conflicts))
            }
            chosen => Ok(chosen),
        }
    }
}

/// How long it takes until the first of the free rows comes due, or a held one comes free.
fn none_free(context: &Context, surveyed: &Surveyed, not_due: &[Row]) -> Acquired {
    let Surveyed { survey, now_ms, .. } = surveyed;
    let expires_in_ms = survey.next_expiry_ms.map(|at| at.saturating_sub(survey.now_ms));
    let due_in_ms =
        first_due(&context.settings.layout, not_due).map(|due_ms| due_ms.saturating_sub(*now_ms));
    let first = due_in_ms.into_iter().chain(expires_in_ms).min();
    let wait_ms = first.unwrap_or_else(|| millis(context.settings.lease.ttl));
    let wait_ms = wait_ms.clamp(0, millis(LONGEST_RETRY_AFTER));
    Acquired::NoneFree(Duration::from_millis(wait_ms.unsigned_abs()))
}

async fn free_rows(
    context: &Context,
    holder: Option<&str>,
    limit: u32,
) -> Result<Vec<Row>, StoreError> {
    let limit = limit.min(u32::try_from(context.scope.workers()).unwrap_or(u32::MAX));
    let question = context.store.free_rows(&context.scope, holder, limit);
    let mut rows = context.ask(StoreOperation::Read, question).await?;
    rows.retain(|row| has_our_lanes(context, row));
    Ok(rows)
}

fn has_our_lanes(context: &Context, row: &Row) -> bool {
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
fn choose_among(
    context: &mut Context,
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

/// What is said about a search that found nothing.
pub(super) fn trouble_of(acquired: &Acquired) -> Option<Trouble> {
    match acquired {
        Acquired::NoneFree(wait) => {
            Some(Trouble::NoFreeWorker { retry_after_seconds: wait.as_secs() + 1 })
        }
        Acquired::ClockAhead(ahead_ms) => Some(Trouble::ClockAhead(*ahead_ms)),
        Acquired::ClockOutOfRange => Some(Trouble::ClockOutOfRange),
        Acquired::RecordVanished | Acquired::RecordForeign => Some(Trouble::StoreLost),
        Acquired::Held(_) | Acquired::Contended => None,
    }
}
