//! Tests writes that arrive after the caller gave up, and answers that never come.

use std::time::Duration;

use raindrop::{
    core::lease::Token,
    store::{LayoutRecord, Store, StoreError, StoreSettings},
};

use crate::{
    backend::{Backend, birth, open, record, release, rows_record, scope, token, with_rows, write},
    conformance::on_every_engine,
    support::{
        kubernetes::Kubernetes,
        mariadb::Mariadb,
        poll,
        postgres::Postgres,
        proxy::{Fault, Proxy},
        redis::Redis,
        server::Engine,
    },
};

macro_rules! on_every_server {
    ($($case:ident)*) => {
        on_every_engine!(@ mariadb [] $($case)*);
        on_every_engine!(@ postgres [] $($case)*);
        on_every_engine!(@ redis [] $($case)*);
        on_every_engine!(@ kubernetes [ignore = "make kubernetes-test"] $($case)*);
    };
}

on_every_server! {
    a_late_write_is_refused_when_a_newer_one_went_first
    a_late_write_takes_place_when_nothing_else_did
    a_late_lowering_does_not_reach_the_next_lease
    a_write_whose_answer_is_lost_took_place
    a_late_write_of_the_record_is_refused_when_a_newer_one_went_first
    a_late_write_of_the_record_takes_place_when_nothing_else_did
    a_write_of_the_record_whose_answer_is_lost_took_place
}

/// Opens the store behind a proxy, with a short time-out and statements that the server knows.
async fn behind_a_proxy(backend: &Backend) -> (Proxy, std::sync::Arc<dyn Store>) {
    let (engine, url): (&dyn Engine, _) = match backend {
        Backend::Mariadb(url) => (&Mariadb, url),
        Backend::Postgres(url) => (&Postgres, url),
        Backend::Redis(url) => (&Redis, url),
        Backend::Kubernetes(url) => (&Kubernetes, url),
        _ => panic!("it is no server"),
    };
    let proxy = Proxy::start(url).await;
    let url = engine.through(url, proxy.port());
    let mut settings = StoreSettings::new(url);
    settings.timeout = Duration::from_secs(2);
    let store = open(&settings).await;
    // The client first sends the text of a statement that a server does not know yet.
    assert!(store.swap_row(&scope(1, 3), 3, birth(3), &write(99)).await.expect("an answer"));
    (proxy, store)
}

async fn token_of(store: &dyn Store) -> Token {
    store.read_row(&scope(1, 3), 1).await.expect("an answer").expect("the row").token
}

async fn a_late_write_is_refused_when_a_newer_one_went_first(backend: &Backend) {
    let direct = with_rows(backend, &scope(1, 3)).await;
    let (proxy, store) = behind_a_proxy(backend).await;
    proxy.fail(&token(1).to_string(), Fault::Hold);
    let error = store.swap_row(&scope(1, 3), 1, birth(1), &write(1)).await.expect_err("held");
    assert!(matches!(error, StoreError::TimedOut { .. }), "{error:?}");
    assert_eq!(token_of(&*store).await, birth(1));

    let newer = store.swap_row(&scope(1, 3), 1, birth(1), &write(2)).await;
    assert!(newer.expect("an answer"), "the newer write goes first");
    proxy.release();
    proxy.answered(1).await;
    assert_eq!(token_of(&*direct).await, token(2));
    assert!(store.swap_row(&scope(1, 3), 1, token(2), &write(3)).await.expect("an answer"));
}

async fn a_late_write_takes_place_when_nothing_else_did(backend: &Backend) {
    let direct = with_rows(backend, &scope(1, 3)).await;
    let (proxy, store) = behind_a_proxy(backend).await;
    proxy.fail(&token(1).to_string(), Fault::Hold);
    store.swap_row(&scope(1, 3), 1, birth(1), &write(1)).await.expect_err("held");
    assert_eq!(token_of(&*direct).await, birth(1));
    proxy.release();
    proxy.answered(1).await;
    poll::until(Duration::from_secs(300), "the late write takes place", async || {
        (token_of(&*direct).await == token(1)).then_some(())
    })
    .await;
    let second = store.swap_row(&scope(1, 3), 1, birth(1), &write(2)).await;
    assert!(!second.expect("an answer"), "its token is stale");
}

async fn a_late_lowering_does_not_reach_the_next_lease(backend: &Backend) {
    let direct = with_rows(backend, &scope(1, 3)).await;
    let (proxy, store) = behind_a_proxy(backend).await;
    assert!(store.swap_row(&scope(1, 3), 1, birth(1), &write(1)).await.expect("an answer"));
    let mut lowering = release(2);
    lowering.marks = lowering.marks.with(1, 3);
    proxy.fail(&token(2).to_string(), Fault::Hold);
    store.swap_row(&scope(1, 3), 1, token(1), &lowering).await.expect_err("held");
    assert!(direct.swap_row(&scope(1, 3), 1, token(1), &write(3)).await.expect("an answer"));
    proxy.release();
    proxy.answered(1).await;
    let row = direct.read_row(&scope(1, 3), 1).await.expect("an answer").expect("the row");
    assert_eq!((row.token, &row.marks, row.free), (token(3), &write(3).marks, false));
}

async fn a_write_whose_answer_is_lost_took_place(backend: &Backend) {
    let direct = with_rows(backend, &scope(1, 3)).await;
    let (proxy, store) = behind_a_proxy(backend).await;
    proxy.fail(&token(1).to_string(), Fault::SwallowReplies);
    let error = store.swap_row(&scope(1, 3), 1, birth(1), &write(1)).await.expect_err("lost");
    assert!(matches!(error, StoreError::TimedOut { .. }), "{error:?}");
    assert_eq!(token_of(&*direct).await, token(1));

    proxy.fail(&token(2).to_string(), Fault::CutReplies);
    let error = store.swap_row(&scope(1, 3), 1, token(1), &write(2)).await.expect_err("cut");
    assert!(matches!(error, StoreError::Unavailable(_)), "{error:?}");
    assert_eq!(token_of(&*store).await, token(2));
    assert!(store.swap_row(&scope(1, 3), 1, token(2), &write(3)).await.expect("an answer"));
}

/// Returns a record with the same words whatever its token.
fn written(bits: u128, since_tick: u64, complete: &[&str]) -> LayoutRecord {
    let complete = complete.iter().map(|key| (*key).to_owned()).collect();
    LayoutRecord { complete, since_tick, first_tick: 3, ..record(bits, "words") }
}

async fn record_in(store: &dyn Store) -> LayoutRecord {
    store.read_record("default").await.expect("an answer").expect("a record")
}

/// Opens the store behind a proxy with a record, whose swap the server knows.
async fn with_a_record(
    backend: &Backend,
) -> (std::sync::Arc<dyn Store>, Proxy, std::sync::Arc<dyn Store>) {
    let direct = with_rows(backend, &scope(1, 3)).await;
    let (proxy, store) = behind_a_proxy(backend).await;
    let old = written(11, 7, &[]);
    assert!(store.swap_record("default", rows_record().token, &old).await.expect("an answer"));
    assert_eq!(record_in(&*store).await, old);
    (direct, proxy, store)
}

async fn a_late_write_of_the_record_is_refused_when_a_newer_one_went_first(backend: &Backend) {
    let (direct, proxy, store) = with_a_record(backend).await;
    proxy.fail(&token(12).to_string(), Fault::Hold);
    let first = store.swap_record("default", token(11), &written(12, 7, &["0/0"])).await;
    assert!(matches!(first, Err(StoreError::TimedOut { .. })), "{first:?}");
    assert_eq!(record_in(&*store).await, written(11, 7, &[]));
    let newer = written(13, 900, &["0/0", "1/1"]);
    assert!(store.swap_record("default", token(11), &newer).await.expect("an answer"));
    proxy.release();
    proxy.answered(1).await;
    assert_eq!(record_in(&*direct).await, newer, "neither ticks nor keys come back");
}

async fn a_late_write_of_the_record_takes_place_when_nothing_else_did(backend: &Backend) {
    let (direct, proxy, store) = with_a_record(backend).await;
    proxy.fail(&token(12).to_string(), Fault::Hold);
    let late = written(12, 7, &["0/0"]);
    store.swap_record("default", token(11), &late).await.expect_err("held");
    proxy.release();
    proxy.answered(1).await;
    poll::until(Duration::from_secs(10), "the late write takes place", async || {
        (record_in(&*direct).await == late).then_some(())
    })
    .await;
    let second = store.swap_record("default", token(11), &written(13, 7, &[])).await;
    assert!(!second.expect("an answer"), "its token is stale");
}

async fn a_write_of_the_record_whose_answer_is_lost_took_place(backend: &Backend) {
    let (direct, proxy, store) = with_a_record(backend).await;
    proxy.fail(&token(12).to_string(), Fault::SwallowReplies);
    let first = store.swap_record("default", token(11), &written(12, 8, &["0/0"])).await;
    assert!(matches!(first, Err(StoreError::TimedOut { .. })), "{first:?}");
    assert_eq!(record_in(&*direct).await, written(12, 8, &["0/0"]));
    let next = store.swap_record("default", token(12), &written(13, 9, &[])).await;
    assert!(next.expect("an answer"));
}
