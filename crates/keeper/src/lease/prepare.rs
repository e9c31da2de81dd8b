//! Creates tables, layout record and rows where they are missing, and more rows when a node needs
//! them.
//!
//! The order makes a lost row safe. The record names a part of the rows before one of them is
//! leased. So a row of an unnamed part was never leased, and starts with marks at 0. A missing row
//! of a named part may have been in use, and starts beyond everything that any node can have
//! leased. Creating is bound to the record's token and to a deadline by the store's clock.
//!
//! This module takes no row and lowers no mark. `false` means that another process changed the
//! record: the caller reads everything again. Tests: `preparing.rs` and `lost_records.rs` in
//! `src/tests`.

use std::ops::RangeInclusive;

use raindrop_core::{
    instant::millis,
    lease::{EpochClocks, HighWaterMarks, Token},
};
use raindrop_store::{CreatedRows, LayoutRecord, NewRows, Scope, Store, StoreError, Survey};

use super::context::LeaseContext;
use crate::{
    history::{self, Followed, contended},
    support::{
        error::{KeeperError, LayoutError},
        observer::StoreOperation,
    },
};

/// How many times a start is retried because other processes changed the record.
const START_TRIES: u32 = 100;

/// Returns the instant, by the store's clock in Unix ms, until which a decision made at `now_ms`
/// about missing rows holds. The call that acts on the decision may take as long. Marks are chosen
/// for that instant, and the store refuses the call after it.
pub(crate) fn valid_until_ms(store: &dyn Store, now_ms: i64) -> i64 {
    now_ms.saturating_add(millis(store.longest_call()))
}

/// Creates tables, layout record and rows where they are missing.
pub(crate) async fn prepare(context: &mut LeaseContext) -> Result<(), KeeperError> {
    let (store, namespace) = (context.store.clone(), context.scope.namespace.clone());
    let warnings = context.call(StoreOperation::Prepare, store.prepare()).await?;
    context.shared.observer.store_prepared(&warnings);
    for warning in warnings {
        tracing::warn!(namespace, warning, "store may lose acknowledged writes");
    }
    for _ in 0..START_TRIES {
        if create_missing(context).await? {
            return Ok(());
        }
    }
    Err(contended().into())
}

/// Creates the record and the rows, and records the rows as created. Returns `false` if another
/// process changed the record meanwhile.
async fn create_missing(context: &mut LeaseContext) -> Result<bool, KeeperError> {
    let (store, scope) = (context.store.clone(), context.scope.clone());
    let layout = context.settings.layout.clone();
    // All workers of the layout, not only this node's range: a range that comes into use later must
    // not look like rows that the store lost.
    let all = Scope { min_worker: 0, max_worker: layout.largest_worker(), ..scope.clone() };
    let (before, _, reading) = context.timed(store.survey(&all)).await?;
    let clocks = reading.epoch_clocks(context.settings.lease.window);
    let Some(record) = before.record.clone() else {
        create_record(context, &before, clocks).await?;
        // The next try reads the record together with the server's identity and clock.
        return Ok(false);
    };
    context.was_foreign = record.canonical != context.canonical;
    LayoutError::check(&scope.namespace, &context.canonical, &record.canonical)?;
    if context.follow_history(&before, &record, clocks, None).await? == Followed::ReadAgain {
        return Ok(false);
    }
    let created = record.created_rows(&scope.reserved_key);
    // Besides the parts that the record names there may be rows that it does not name yet.
    let is_whole = created == Some(CreatedRows::All) && before.held + before.free == all.workers();
    for range in
        created.filter(|_| !is_whole).iter().flat_map(|created| created.ranges(all.workers()))
    {
        // Rows and clock, read after the record.
        let part = part_of(&scope, &range);
        let (survey, _, reading) = context.timed(store.survey(&part)).await?;
        if survey.held + survey.free == part.workers() {
            continue;
        }
        // A row that is missing now may have been in use.
        let Some(later_ms) = reading.epoch_clocks(context.settings.lease.window).later_ms else {
            let why = "rows are missing, and the clocks differ too much to create them";
            return Err(StoreError::Unavailable(why.into()).into());
        };
        let [until_ms, later_ms] = [survey.now_ms, later_ms].map(|ms| valid_until_ms(&*store, ms));
        let marks =
            HighWaterMarks::all_at(record.history.beyond(&layout, later_ms), layout.lanes());
        if !create_rows(context, &part, marks, record.token, until_ms).await? {
            return Ok(false);
        }
    }
    let range = scope.min_worker..=scope.max_worker;
    if created.is_some_and(|created| created.count(&range) > 0) {
        return Ok(true);
    }
    Ok(create_more(context, record).await?.unwrap_or(true))
}

/// Creates the record. A process that knew the namespace writes it again with a new epoch: every
/// earlier lease ends below the barrier. If there are rows, an operator may have moved them to
/// another layout. Only a holder that finds its row as it wrote it knows that no operator did.
async fn create_record(
    context: &mut LeaseContext,
    before: &Survey,
    clocks: EpochClocks,
) -> Result<(), KeeperError> {
    let namespace = context.scope.namespace.clone();
    let (layout, lease) = (&context.settings.layout, context.settings.lease);
    let (token, epoch) = (context.random.fresh_token(), context.random.fresh_token());
    let history = context.history.created(before, clocks, epoch, lease.of_node());
    let is_known = context.history.is_known();
    let has_rows = before.held + before.free > 0;
    let may_not = is_known && (context.was_foreign || context.history.present().is_none());
    if may_not || has_rows && !context.rows_are_ours {
        let text = format!(
            "namespace {namespace} has no layout record, which says what the marks of its worker \
             rows mean: stop the nodes, restore the record and run raindrop workers raise, or \
             delete the rows"
        );
        return Err(KeeperError::Store(match is_known {
            true => StoreError::Vanished(text),
            false => StoreError::Unusable(text),
        }));
    }
    let skew_ms = millis(lease.max_clock_skew);
    let now_ms = clocks.later_ms.unwrap_or(clocks.store_ms);
    let first_tick = layout.tick_clamped(now_ms.saturating_add(skew_ms)) + 1;
    let first_tick = first_tick.max(layout.tick_of(history.barrier(layout)));
    let mut record = LayoutRecord::new(&context.canonical, token, first_tick, history);
    if record.history.has_failed_over() {
        // Which IDs for a past time were reserved is unknown, so earlier ticks are closed.
        record.since_tick = first_tick;
    }
    history::create_record(&*context.store, &*context.shared.observer, &namespace, &record).await?;
    context.rows_are_ours = false;
    Ok(())
}

/// Creates the rows of the next part of the node's worker ids, and records the part. Returns `None`
/// if all parts are recorded, and `false` if another process changed the record meanwhile.
///
/// No row of the new part was ever leased, since a row is leased only once the record names its
/// part. So the rows start with marks at 0. After a fail-over the barrier raises these, since the
/// rows carry no epoch.
pub(crate) async fn create_more(
    context: &mut LeaseContext,
    mut record: LayoutRecord,
) -> Result<Option<bool>, StoreError> {
    let (scope, lanes) = (context.scope.clone(), context.settings.layout.lanes());
    let range = scope.min_worker..=scope.max_worker;
    let Some((part, created)) = next_part(context, &record, &range) else { return Ok(None) };
    // The clock, read after the record.
    let survey = context.store.summary(&scope);
    let now_ms = context.call(StoreOperation::Read, survey).await?.now_ms;
    let until_ms = valid_until_ms(&*context.store, now_ms);
    let marks = HighWaterMarks::all_at(0, lanes);
    if !create_rows(context, &part_of(&scope, &part), marks, record.token, until_ms).await? {
        return Ok(Some(false));
    }
    record.set_created_rows(&scope.reserved_key, created);
    swap_record(context, record).await.map(Some)
}

/// Records the part of a worker as created again, after the store lost that. The store may have
/// lost rows of the part, too, so from now on none of them is created with marks at 0.
pub(crate) async fn record_part(
    context: &mut LeaseContext,
    mut record: LayoutRecord,
    worker: u64,
) -> Result<(), StoreError> {
    if let Some((_, created)) = next_part(context, &record, &(worker..=worker)) {
        record.set_created_rows(&context.scope.reserved_key, created);
        swap_record(context, record).await?;
    }
    Ok(())
}

/// Returns the first part of a range that the record does not name, and the rows that count as
/// created once it does.
fn next_part(
    context: &LeaseContext,
    record: &LayoutRecord,
    range: &RangeInclusive<u64>,
) -> Option<(RangeInclusive<u64>, CreatedRows)> {
    let workers = context.settings.layout.largest_worker() + 1;
    let created = record.created_rows(&context.scope.reserved_key);
    let created =
        created.unwrap_or_else(|| CreatedRows::none(workers, context.settings.rows_at_once));
    created.next(range, workers)
}

/// Returns the scope of a part of the worker ids.
fn part_of(scope: &Scope, workers: &RangeInclusive<u64>) -> Scope {
    Scope { min_worker: *workers.start(), max_worker: *workers.end(), ..scope.clone() }
}

/// Creates the missing rows of a scope. Returns `false` if the decision no longer holds.
async fn create_rows(
    context: &mut LeaseContext,
    scope: &Scope,
    marks: HighWaterMarks,
    record: Token,
    until_ms: i64,
) -> Result<bool, StoreError> {
    let new = NewRows { marks, seed: context.random.fresh_token(), record, until_ms };
    context.call(StoreOperation::Prepare, context.store.create_rows(scope, &new)).await
}

/// Writes the record under a fresh token. Returns `false` if another process changed it meanwhile.
/// Has the time of [`StoreOperation::Prepare`], like the other calls of a start.
async fn swap_record(
    context: &mut LeaseContext,
    mut record: LayoutRecord,
) -> Result<bool, StoreError> {
    let token = record.token;
    record.token = context.random.fresh_token();
    let swap = context.store.swap_record(&context.scope.namespace, token, &record);
    context.call(StoreOperation::Prepare, swap).await
}
