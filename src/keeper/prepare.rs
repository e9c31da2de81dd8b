//! Creating tables, layout record and rows where they are missing.

use std::time::Duration;

use super::{
    KeeperError, StoreOperation,
    context::{Context, millis},
};
use crate::{
    core::{
        lease::{HighWaterMarks, Recorded, Token, marks_beyond},
        planted::{Bug, planted},
    },
    store::{LayoutRecord, NewRows, Scope, StoreError},
};

/// How often it is tried while others change the record.
const RECORD_TRIES: u32 = 100;
/// For how long a decision about missing rows holds, by the store's clock.
pub(super) const DECIDED_FOR: Duration = Duration::from_secs(10);

/// Creates tables, layout record and rows where they are missing.
pub(super) async fn prepare(context: &mut Context) -> Result<(), KeeperError> {
    let (store, namespace) = (context.store.clone(), context.scope.namespace.clone());
    for warning in context.ask(StoreOperation::Prepare, store.prepare()).await? {
        tracing::warn!(namespace, warning, "the store may lose acknowledged writes");
    }
    for _ in 0..RECORD_TRIES {
        if add_what_is_missing(context).await? {
            return Ok(());
        }
    }
    Err(StoreError::Refused("the layout record is being changed all the time".into()).into())
}

/// Adds the record, the rows, and that they are complete; `false` when others changed the record
/// meanwhile.
async fn add_what_is_missing(context: &mut Context) -> Result<bool, KeeperError> {
    let (store, scope) = (context.store.clone(), context.scope.clone());
    let layout = context.settings.layout.clone();
    let lease = context.settings.lease;
    let (window_ms, skew_ms) = (millis(lease.window), millis(lease.max_clock_skew));
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
    let first_tick = layout.tick_clamped(before.now_ms.saturating_add(skew_ms)) + 1;
    let mut record = if before.record.is_some() {
        // One that vanishes now must not be created again, as if nothing had ever been issued.
        let question = store.read_record(&scope.namespace);
        let record = context.ask(StoreOperation::Read, question).await?;
        record.ok_or_else(|| StoreError::Vanished("the layout record is gone".to_owned()))?
    } else {
        let token = context.fresh_token();
        let record = LayoutRecord::new(&context.words, token, first_tick);
        let question = store.create_record(&scope.namespace, &record);
        context.ask(StoreOperation::Prepare, question).await?
    };
    check_words(context, &record)?;
    let is_complete = record.complete.contains(&scope.reserved_key);
    if before.held + before.free < all.workers() {
        // Once more, for the rows and the clock as they are after the record was read.
        let survey = context.ask(StoreOperation::Read, store.survey(&all)).await?;
        let until_ms = survey.now_ms.saturating_add(millis(DECIDED_FOR));
        let marks = if is_complete {
            // A row that is missing now may have been there, and in use.
            marks_beyond(&layout, until_ms, window_ms, skew_ms)
        } else {
            HighWaterMarks::all_at(0, layout.lanes())
        };
        let tokens = tokens_of_birth(&all, || context.fresh_token());
        let new = NewRows { marks, tokens, record: record.token, until_ms };
        let question = store.create_rows(&all, &new);
        if !context.ask(StoreOperation::Prepare, question).await? {
            return Ok(false);
        }
    }
    // Earlier versions wrote none.
    let has_first_tick = record.first_tick > 0;
    if is_complete && has_first_tick {
        return Ok(true);
    }
    let token = record.token;
    record.token = context.fresh_token();
    if !is_complete {
        record.complete.push(scope.reserved_key.clone());
    }
    if !has_first_tick {
        record.first_tick = first_tick;
    }
    let question = store.swap_record(&scope.namespace, token, &record);
    Ok(context.ask(StoreOperation::Prepare, question).await?)
}

/// A random token for each row of a scope: a swap that was prepared for a row that is gone must
/// not match the one that was created in its place.
pub(super) fn tokens_of_birth(scope: &Scope, mut fresh: impl FnMut() -> Token) -> Vec<Token> {
    let token = |_| if planted(Bug::TokenOfBirth) { Token::UNUSED } else { fresh() };
    (scope.min_worker..=scope.max_worker).map(token).collect()
}

/// Refuses the record of another layout.
fn check_words(context: &Context, record: &LayoutRecord) -> Result<(), KeeperError> {
    if record.words == context.words {
        return Ok(());
    }
    let namespace = context.scope.namespace.clone();
    let (ours, recorded) = (context.words.clone(), record.words.clone());
    Err(match Recorded::read(&record.words) {
        Ok(Recorded::Moving(relayout)) => KeeperError::Moving { namespace, to: relayout.to },
        _ => KeeperError::LayoutConflict { namespace, ours, recorded },
    })
}
