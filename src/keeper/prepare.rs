//! Creating tables, layout record and rows where they are missing.

use super::{
    KeeperError, StoreOperation,
    context::{Context, millis},
};
use crate::{
    core::{
        lease::{Marks, Recorded, Token, marks_beyond},
        planted::{Bug, planted},
    },
    store::{LayoutRecord, Scope, StoreError},
};

/// How often an update of the record is tried when others update it too.
const RECORD_TRIES: u32 = 100;

/// Creates tables, layout record and rows where they are missing.
pub(super) async fn prepare(context: &mut Context) -> Result<(), KeeperError> {
    let store = context.store.clone();
    let scope = context.scope.clone();
    for warning in context.ask(StoreOperation::Prepare, store.prepare()).await? {
        tracing::warn!(
            namespace = scope.namespace,
            warning,
            "the store may lose acknowledged writes"
        );
    }
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
    let record = if before.record.is_some() {
        // One that vanishes now must not be created again, as if nothing had ever been issued.
        let question = store.read_record(&scope.namespace);
        let record = context.ask(StoreOperation::Read, question).await?;
        record.ok_or_else(|| StoreError::Vanished("the layout record is gone".to_owned()))?
    } else {
        let first_tick = layout.tick_clamped(before.now_ms.saturating_add(skew_ms)) + 1;
        let token = context.fresh_token();
        let record = LayoutRecord::new(&context.words, token, first_tick);
        let question = store.create_record(&scope.namespace, &record);
        context.ask(StoreOperation::Prepare, question).await?
    };
    check_words(context, &record)?;
    let was_complete = record.complete.contains(&scope.reserved_key);
    if before.held + before.free < all.workers() {
        // Once more, for the rows and the clock as they are after the record was read.
        let survey = context.ask(StoreOperation::Read, store.survey(&all)).await?;
        let marks = if was_complete {
            // A row that is missing now may have been there, and in use.
            marks_beyond(&layout, survey.now_ms, window_ms, skew_ms)
        } else {
            Marks::all_at(0, layout.lanes())
        };
        let tokens = tokens_of_birth(&all, || context.fresh_token());
        let question = store.create_rows(&all, &marks, &tokens);
        context.ask(StoreOperation::Prepare, question).await?;
    }
    complete(context, record).await
}

/// A random token for each row of a scope: a swap that was prepared for a row that is gone must
/// not match the one that was created in its place.
pub(super) fn tokens_of_birth(scope: &Scope, mut fresh: impl FnMut() -> Token) -> Vec<Token> {
    let token = |_| if planted(Bug::TokenOfBirth) { Token::UNUSED } else { fresh() };
    (scope.min_worker..=scope.max_worker).map(token).collect()
}

/// Records that the rows are all there.
async fn complete(context: &mut Context, mut record: LayoutRecord) -> Result<(), KeeperError> {
    let (store, scope) = (context.store.clone(), context.scope.clone());
    for _ in 0..RECORD_TRIES {
        if record.complete.contains(&scope.reserved_key) {
            return Ok(());
        }
        let before = record.token;
        record.token = context.fresh_token();
        record.complete.push(scope.reserved_key.clone());
        let question = store.swap_record(&scope.namespace, before, &record);
        if context.ask(StoreOperation::Prepare, question).await? {
            return Ok(());
        }
        let question = store.read_record(&scope.namespace);
        let present = context.ask(StoreOperation::Read, question).await?;
        record = present.ok_or_else(|| StoreError::Vanished("the layout record is gone".into()))?;
        check_words(context, &record)?;
    }
    Err(StoreError::Refused("the layout record is being changed all the time".into()).into())
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
