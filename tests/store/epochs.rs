//! Rows and records name the epoch and the server of their last write, on every engine.

use std::{sync::Arc, time::Duration};

use raindrop::{
    core::{
        clock::SystemClock,
        lease::{BarrierStays, EpochClocks, History, NodeTimes, RowWrite, Token},
        preset::Preset,
    },
    keeper::{KeeperSettings, Operator, OperatorError},
    store::{LayoutRecord, Store},
};

use crate::{
    backend::{Backend, birth, new_rows, record, rows_record, scope, token, with_rows, write},
    conformance::on_every_engine,
};

const FIRST: Token = Token::from_bits(0xe1);
const SECOND: Token = Token::from_bits(0xe2);
/// An identity that no server has.
const OTHER: &str = "another server";

on_every_engine! {
    histories_are_kept_exactly
    a_swap_names_the_epoch_of_the_record
    a_record_of_another_server_is_not_written
    no_row_of_another_server_is_written
    lossless_fail_overs_compare_no_servers
    a_barrier_far_ahead_is_lowered_once
}

/// Returns the identity of the server, while the namespace has a record.
async fn server(store: &Arc<dyn Store>) -> String {
    let survey = store.survey(&scope(1, 1)).await.expect("a survey");
    survey.identity.expect("identities are compared")
}

async fn swap(store: &Arc<dyn Store>, expected: Token, write: &RowWrite) -> bool {
    store.swap_row(&scope(1, 1), 1, expected, write).await.expect("an answer")
}

async fn swap_record(store: &Arc<dyn Store>, expected: Token, record: &LayoutRecord) -> bool {
    store.swap_record("default", expected, record).await.expect("an answer")
}

fn with_history(bits: u128, history: History) -> LayoutRecord {
    LayoutRecord { history, ..record(bits, "rows") }
}

async fn histories_are_kept_exactly(backend: &Backend) {
    let store = with_rows(backend, &scope(1, 1)).await;
    let server = server(&store).await;
    let first = History::first(&server, FIRST, NodeTimes { reach_ms: 320_000, renew_ms: 30_000 });
    let mut expected = rows_record().token;
    for (bits, history) in [
        (1, first.clone()),
        (
            2,
            first.next(
                &server,
                SECOND,
                EpochClocks::of_store(1 << 53),
                NodeTimes { reach_ms: 7, renew_ms: 0 },
            ),
        ),
    ] {
        let written = with_history(bits, history);
        assert!(swap_record(&store, expected, &written).await);
        let read = store.read_record("default").await.expect("an answer");
        assert_eq!(read.as_ref(), Some(&written));
        let survey = store.survey(&scope(1, 1)).await.expect("a survey");
        assert_eq!(survey.record, Some(written));
        expected = token(bits);
    }
}

async fn a_swap_names_the_epoch_of_the_record(backend: &Backend) {
    let store = with_rows(backend, &scope(1, 1)).await;
    let first = History::first(&server(&store).await, FIRST, NodeTimes::default());
    assert!(swap_record(&store, rows_record().token, &with_history(1, first.clone())).await);
    let in_epoch = |bits, epoch| RowWrite { epoch, ..write(bits) };
    assert!(swap(&store, birth(1), &in_epoch(1, FIRST)).await);
    let row = store.read_row(&scope(1, 1), 1).await.expect("an answer").expect("the row");
    assert_eq!((row.token, row.epoch), (token(1), FIRST));
    let second =
        first.next(&first.identity, SECOND, EpochClocks::of_store(1), NodeTimes::default());
    assert!(swap_record(&store, token(1), &with_history(2, second)).await);
    // On Kubernetes the record is another object, and so is a restored row.
    let is_compared = !matches!(backend, Backend::Kubernetes(_));
    assert_eq!(swap(&store, token(1), &in_epoch(2, FIRST)).await, !is_compared);
    if is_compared {
        assert!(!swap(&store, token(1), &in_epoch(2, Token::UNUSED)).await);
        assert!(swap(&store, token(1), &in_epoch(2, SECOND)).await);
    }
}

async fn a_record_of_another_server_is_not_written(backend: &Backend) {
    let store = with_rows(backend, &scope(1, 1)).await;
    let server = server(&store).await;
    assert!(!server.is_empty());
    let other = with_history(1, History::first(OTHER, FIRST, NodeTimes::default()));
    assert!(!swap_record(&store, rows_record().token, &other).await);
    let ours = with_history(1, History::first(&server, FIRST, NodeTimes::default()));
    assert!(swap_record(&store, rows_record().token, &ours).await);
    // Each connection reaches the same server.
    assert_eq!(self::server(&backend.store().await).await, server);
}

async fn no_row_of_another_server_is_written(backend: &Backend) {
    let store = backend.store().await;
    let other = with_history(1, History::first(OTHER, FIRST, NodeTimes::default()));
    store.create_record("default", &other).await.expect("a record");
    let marks = &write(1).marks;
    let new = new_rows(marks, token(1));
    let is_compared = !matches!(backend, Backend::Kubernetes(_));
    let created = store.create_rows(&scope(1, 1), &new).await.expect("an answer");
    assert_eq!(created, !is_compared);
    if let Some(lossless) = backend.lossless().await.filter(|_| is_compared) {
        assert!(lossless.create_rows(&scope(1, 1), &new).await.expect("an answer"));
        let write = RowWrite { epoch: FIRST, ..write(1) };
        assert!(!swap(&store, birth(1), &write).await);
        assert!(swap(&lossless, birth(1), &write).await);
    }
}

async fn lossless_fail_overs_compare_no_servers(backend: &Backend) {
    let store = with_rows(backend, &scope(1, 1)).await;
    let Some(lossless) = backend.lossless().await else { return };
    let survey = lossless.survey(&scope(1, 1)).await.expect("a survey");
    assert_eq!(survey.identity, None);
    let other = with_history(1, History::first(OTHER, FIRST, NodeTimes::default()));
    assert!(!swap_record(&store, rows_record().token, &other).await);
    assert!(swap_record(&lossless, rows_record().token, &other).await);
}

async fn a_barrier_far_ahead_is_lowered_once(backend: &Backend) {
    const AHEAD_MS: i64 = 8 * 3_600_000;
    let window = Duration::from_mins(5);
    let store = backend.store().await;
    let settings = KeeperSettings::new(Preset::Raindrop.layout(), "operator");
    let mut operator = Operator::new(settings, store.clone(), Arc::new(SystemClock::default()));
    operator.raise(window).await.expect("an epoch");
    let right = store.read_record("default").await.expect("an answer").expect("a record");
    let error = operator.lower_barrier(window).await.expect_err("by right clocks");
    let OperatorError::BarrierStays { why: BarrierStays::InReach { .. }, .. } = error else {
        panic!("{error}")
    };
    let barrier_ms = right.history.barrier_ms + AHEAD_MS;
    let history = History { barrier_ms, identity: server(&store).await, ..right.history.clone() };
    let far = LayoutRecord { token: token(3), history, ..right.clone() };
    assert!(swap_record(&store, right.token, &far).await);
    let preview = operator.preview_lower_barrier(window).await.expect("far ahead");
    assert!(preview.far_ms.is_some_and(|far_ms| far_ms > barrier_ms - 1_000), "{preview:?}");
    let unchanged = store.read_record("default").await.expect("an answer");
    assert_eq!(unchanged.as_ref(), Some(&far));
    let due_ms = operator.lower_barrier(window).await.expect("far ahead");
    let lowered = store.read_record("default").await.expect("an answer").expect("a record");
    let LayoutRecord { history, .. } = &lowered;
    assert!((right.history.barrier_ms..barrier_ms).contains(&history.barrier_ms), "{history:?}");
    assert!((history.barrier_ms..history.barrier_ms + 1_001).contains(&due_ms), "{due_ms}");
    assert_eq!(history.ordinal, far.history.ordinal + 2);
    assert_eq!(history.missed(far.history.epoch()), 2);
    assert_eq!((lowered.since_tick, &lowered.complete), (far.since_tick, &far.complete));
    let error = operator.lower_barrier(window).await.expect_err("once is enough");
    assert!(matches!(error, OperatorError::BarrierStays { .. }), "{error}");
}
