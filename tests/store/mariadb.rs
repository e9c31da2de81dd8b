//! A database server that fails, on servers of the tests' own.

use std::time::Duration;

use raindrop::{
    core::lease::{Marks, Token},
    store::{Store, StoreError, StoreSettings},
};
use tokio::time::Instant;

use crate::{
    site::{Site, open, scope, token, with_rows, write},
    support::{mariadb::Mariadb, poll},
};

const TIMEOUT: Duration = Duration::from_secs(1);
/// For a busy machine: no answer may take as long as a second time-out on top.
const MARGIN: Duration = Duration::from_millis(900);

fn settings(url: String) -> StoreSettings {
    let mut settings = StoreSettings::new(url);
    settings.timeout = TIMEOUT;
    settings
}

/// Every kind of call; each fails as `expected` says, within the time-out.
async fn every_call_fails(store: &dyn Store, expected: impl Fn(&StoreError) -> bool) {
    let scope = scope(1, 3);
    macro_rules! fails {
        ($($call:ident($($arg:expr),*))*) => {$(
            let begin = Instant::now();
            let error = store.$call($($arg),*).await.map(drop).expect_err("nobody is there");
            assert!(expected(&error), "{}: {error:?}", stringify!($call));
            let took = begin.elapsed();
            assert!(took < TIMEOUT + MARGIN, "{} took {took:?}", stringify!($call));
        )*};
    }
    fails! {
        prepare()
        layout_record("default", "words")
        mark_complete("default", "0/0")
        create_rows(&scope, &Marks::all_at(0, 2))
        survey(&scope)
        free_rows(&scope, 9)
        free_row_of(&scope, "me")
        row(&scope, 1)
        swap(&scope, 1, Token::UNUSED, &write(1))
        list()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_frozen_server_hangs_nobody() {
    let server = Mariadb::start().await;
    let site = Site::Mariadb(server.database().await);
    with_rows(&site, &scope(1, 3)).await;
    let store = open(&settings(site.url())).await;
    store.survey(&scope(1, 3)).await.expect("a survey");

    server.freeze();
    let timed_out = |error: &StoreError| matches!(error, StoreError::TimedOut { .. });
    every_call_fails(&*store, timed_out).await;
    // More at once than there are connections.
    let begin = Instant::now();
    let mut calls = tokio::task::JoinSet::new();
    for _ in 0..10 {
        let store = store.clone();
        calls.spawn(async move { store.survey(&scope(1, 3)).await.is_err() });
    }
    assert_eq!(calls.join_all().await, [true; 10]);
    assert!(begin.elapsed() < TIMEOUT + MARGIN, "{:?}", begin.elapsed());

    server.thaw();
    poll::until(Duration::from_secs(20), "the store works again", async || {
        store.survey(&scope(1, 3)).await.ok()
    })
    .await;
    // The swap that timed out may still arrive, but only as a whole.
    poll::until(Duration::from_secs(20), "a swap takes place", async || {
        let row = store.row(&scope(1, 3), 1).await.expect("an answer").expect("the row");
        assert!([Token::UNUSED, token(1)].contains(&row.token), "{row:?}");
        let swapped = store.swap(&scope(1, 3), 1, row.token, &write(2)).await;
        swapped.expect("an answer").then_some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_is_gone_is_found_again() {
    let server = Mariadb::start().await;
    let site = Site::Mariadb(server.database().await);
    with_rows(&site, &scope(1, 3)).await;
    let store = open(&settings(site.url())).await;
    let mut before = Token::UNUSED;
    for (bits, stop) in [(1, Mariadb::kill9 as fn(&Mariadb)), (2, Mariadb::stop)] {
        let swapped = store.swap(&scope(1, 3), 2, before, &write(bits)).await;
        assert!(swapped.expect("an answer"));
        before = token(bits);
        stop(&server);
        let unavailable = |error: &StoreError| matches!(error, StoreError::Unavailable(_));
        every_call_fails(&*store, unavailable).await;
        // An address where nobody listens is no reason not to start.
        every_call_fails(&*open(&settings(site.url())).await, unavailable).await;
        server.restart().await;
        let row = store.row(&scope(1, 3), 2).await.expect("an answer").expect("the row");
        assert_eq!(row.token, before, "an acknowledged write was lost");
        store.prepare().await.expect("tables");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_that_is_given_up_blocks_nobody() {
    let site = Site::mariadb().await;
    let store = with_rows(&site, &scope(1, 3)).await;
    let scope = scope(1, 3);
    for _ in 0..20 {
        let _ = tokio::time::timeout(Duration::from_micros(300), store.survey(&scope)).await;
    }
    assert_eq!(store.survey(&scope).await.expect("a survey").free, 3);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn few_connections_are_kept_and_not_for_long() {
    let server = Mariadb::start().await;
    let site = Site::Mariadb(server.database().await);
    with_rows(&site, &scope(1, 3)).await;
    // Its own user, to tell its connections from ours.
    server.run("CREATE USER 'counted'@'127.0.0.1'").await;
    server.run("GRANT ALL ON *.* TO 'counted'@'127.0.0.1'").await;
    let url = site.url().replace("root@", "counted@");
    let store = open(&StoreSettings::new(url)).await;
    let connections = "SELECT user FROM information_schema.processlist WHERE user = 'counted'";
    let mut calls = tokio::task::JoinSet::new();
    for _ in 0..40 {
        let store = store.clone();
        calls.spawn(async move { store.survey(&scope(1, 3)).await.expect("a survey") });
    }
    while !calls.is_empty() {
        let connected = site.texts(connections).await.len();
        assert!(connected <= 2, "{connected} connections");
        while calls.try_join_next().is_some() {}
    }
    assert!(!site.texts(connections).await.is_empty());
    poll::until(Duration::from_secs(20), "idle connections are closed", async || {
        site.texts(connections).await.is_empty().then_some(())
    })
    .await;
    store.survey(&scope(1, 3)).await.expect("a survey");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_the_operator_should_know() {
    let server = Mariadb::start().await;
    let site = Site::Mariadb(server.database().await);
    let database = site.url().rsplit('/').next().expect("a name").to_owned();
    with_rows(&site, &scope(1, 3)).await;

    server.run("SET GLOBAL innodb_flush_log_at_trx_commit = 2").await;
    let warnings = site.unprepared().await.prepare().await.expect("tables");
    assert_eq!(warnings.len(), 1, "{warnings:?}");
    assert!(warnings[0].starts_with("innodb_flush_log_at_trx_commit is 2, not 1"), "{warnings:?}");

    server.run("CREATE USER 'plain'@'127.0.0.1' IDENTIFIED BY 'p@ss:w/rd'").await;
    server.run(&format!("GRANT ALL ON {database}.* TO 'plain'@'127.0.0.1'")).await;
    let plain = |password: &str| {
        let port = server.port();
        settings(format!("mysql://plain:{password}@127.0.0.1:{port}/{database}"))
    };
    let store = open(&plain("p%40ss%3Aw%2Frd")).await;
    assert!(!format!("{store:?}").contains("p@ss"), "{store:?}");
    store.prepare().await.expect("the tables are there");
    server.run("SET GLOBAL read_only = 1").await;
    let refused = |error: &StoreError| matches!(error, StoreError::Refused(_));
    let error = store.swap(&scope(1, 3), 1, Token::UNUSED, &write(1)).await.expect_err("read-only");
    assert!(refused(&error) && !error.is_permanent(), "{error:?}");
    let error = open(&plain("wrong")).await.prepare().await.expect_err("a wrong password");
    assert!(refused(&error) && !error.is_permanent(), "{error:?}");
    let error = open(&settings(server.url("nowhere"))).await.prepare().await;
    assert!(refused(&error.expect_err("no such database")));
}
