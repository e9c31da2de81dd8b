//! Creates tables, layout record and rows where they are missing.

use std::time::Duration;

use super::{
    KeeperError, LayoutError, StoreOperation, history::contended, lease_store::LeaseStore,
};
use crate::{
    core::{
        instant::millis,
        lease::{HighWaterMarks, History, Token, marks_beyond},
        planted::{Bug, planted},
    },
    store::{Counts, LayoutRecord, NewRows, Scope, StoreError},
};

/// How often a start is retried because others changed the record.
const TRIES: u32 = 100;
/// How long a decision about missing rows holds, by the store's clock.
pub(super) const DECISION_VALID_FOR: Duration = Duration::from_secs(10);

/// Creates tables, layout record and rows where they are missing. A process that `has_held` a lease
/// knows that the namespace is in use: it creates no record, and rows only beyond every lease.
pub(super) async fn prepare(leases: &mut LeaseStore, has_held: bool) -> Result<(), KeeperError> {
    let (store, namespace) = (leases.store.clone(), leases.scope.namespace.clone());
    for warning in leases.call(StoreOperation::Prepare, store.prepare()).await? {
        tracing::warn!(namespace, warning, "store may lose acknowledged writes");
    }
    for _ in 0..TRIES {
        if create_missing(leases, has_held).await? {
            return Ok(());
        }
    }
    Err(contended().into())
}

/// Creates the record and the rows, and marks the rows as complete; `false` when others changed
/// the record meanwhile.
async fn create_missing(leases: &mut LeaseStore, has_held: bool) -> Result<bool, KeeperError> {
    let (store, scope) = (leases.store.clone(), leases.scope.clone());
    let layout = leases.settings.layout.clone();
    let lease = leases.settings.lease;
    let (window_ms, skew_ms) = (millis(lease.window), millis(lease.max_clock_skew));
    // All workers of the layout, not only those of this node's range: a range that comes into use
    // later must not look like rows that were lost.
    let all = Scope { min_worker: 0, max_worker: layout.largest_worker(), ..scope.clone() };
    let before = leases.call(StoreOperation::Read, store.survey(&all, Counts::Exact)).await?;
    let vanished = |what: &str| KeeperError::Store(StoreError::Vanished(what.to_owned()));
    if before.record.is_none() && has_held {
        return Err(vanished("the layout record is gone"));
    }
    if before.record.is_none() && before.held + before.free > 0 {
        return Err(KeeperError::Store(StoreError::Unusable(format!(
            "namespace {} has worker rows but no layout record, which says what their marks mean: \
             stop the nodes, restore the record and run raindrop workers raise, or delete the rows",
            scope.namespace
        ))));
    }
    let first_tick = layout.tick_clamped(before.now_ms.saturating_add(skew_ms)) + 1;
    let Some(mut record) = before.record.clone() else {
        let (token, epoch) = (leases.random.fresh_token(), leases.random.fresh_token());
        let identity = before.identity.as_deref().unwrap_or_default();
        let history = History::first(identity, epoch, lease.reach_beyond_ms());
        let record = LayoutRecord::new(&leases.canonical, token, first_tick);
        let record = LayoutRecord { history, ..record };
        let created = store.create_record(&scope.namespace, &record);
        leases.call(StoreOperation::Prepare, created).await?;
        // Read together with the identity of the server and its clock.
        return Ok(false);
    };
    LayoutError::check(&scope.namespace, &leases.canonical, &record.canonical)?;
    if !leases.follow_history(&before, &record, before.now_ms).await? {
        return Ok(false);
    }
    let is_complete = record.complete.contains(&scope.reserved_key);
    if has_held && !is_complete && !record.history.has_failed_over() {
        return Err(vanished("the layout record was created again"));
    }
    if before.held + before.free < all.workers() {
        // Once more, for the rows and the clock as they are after the record was read.
        let survey = leases.call(StoreOperation::Read, store.survey(&all, Counts::Exact)).await?;
        let until_ms = survey.now_ms.saturating_add(millis(DECISION_VALID_FOR));
        let marks = if is_complete {
            // A row that is missing now may have been there, and in use.
            marks_beyond(&layout, until_ms, window_ms, skew_ms)
        } else {
            HighWaterMarks::all_at(0, layout.lanes())
        };
        let seed = initial_seed(|| leases.random.fresh_token());
        let new = NewRows { marks, seed, record: record.token, until_ms };
        if !leases.call(StoreOperation::Prepare, store.create_rows(&all, &new)).await? {
            return Ok(false);
        }
    }
    // Earlier versions recorded no first tick.
    let has_first_tick = record.first_tick > 0;
    if is_complete && has_first_tick {
        return Ok(true);
    }
    let token = record.token;
    record.token = leases.random.fresh_token();
    if !is_complete {
        record.complete.push(scope.reserved_key.clone());
    }
    if !has_first_tick {
        record.first_tick = first_tick;
    }
    let swap = store.swap_record(&scope.namespace, token, &record);
    Ok(leases.call(StoreOperation::Prepare, swap).await?)
}

/// Draws the random seed of the tokens of new rows.
pub(super) fn initial_seed(fresh: impl FnOnce() -> Token) -> Token {
    if planted(Bug::TokenOfBirth) { Token::UNUSED } else { fresh() }
}
