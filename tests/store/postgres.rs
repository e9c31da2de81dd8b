//! Tests mistakes that only PostgreSQL allows.

use raindrop::store::StoreError;
use sqlx::{Connection as _, PgConnection};

use crate::{
    backend::{Backend, birth, create_rows, open, patient, scope, with_rows, write},
    corrupt_rows::{OddTime, rows_with_odd_times_are_used},
    outage::{MARGIN, PATIENCE, TIMEOUT, settings},
    support::{poll, postgres::Postgres, server::Server},
};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_session_is_durable() {
    let server = Server::start(&Postgres).await;
    let backend = Backend::Postgres(server.database().await);
    let database = backend.url().rsplit('/').next().expect("a name").to_owned();
    // The trigger notes the setting of a session when it writes.
    with_rows(&backend, &scope(1, 3)).await;
    backend.run("CREATE TABLE seen (setting TEXT)").await;
    backend
        .run(
            "CREATE FUNCTION note() RETURNS trigger LANGUAGE plpgsql AS \
         'BEGIN INSERT INTO seen VALUES (current_setting(''synchronous_commit'')); \
         RETURN NEW; END'",
        )
        .await;
    backend
        .run(
            "CREATE TRIGGER note BEFORE UPDATE ON soc_raindrop_worker \
         FOR EACH ROW EXECUTE FUNCTION note()",
        )
        .await;
    for (number, (default, expected)) in
        [("off", "on"), ("local", "on"), ("remote_apply", "remote_apply")].into_iter().enumerate()
    {
        server.run(&format!("ALTER DATABASE {database} SET synchronous_commit = {default}")).await;
        let worker = number as u64 + 1;
        let swapped =
            backend.store().await.swap_row(&scope(1, 3), worker, birth(worker), &write(1)).await;
        assert!(swapped.expect("an answer"));
        assert_eq!(backend.texts("SELECT setting FROM seen").await, [expected], "{default}");
        backend.run("DELETE FROM seen").await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn settings_that_lose_writes_are_warned_about() {
    let server = Server::start(&Postgres).await;
    let backend = Backend::Postgres(server.database().await);
    with_rows(&backend, &scope(1, 3)).await;
    for setting in ["fsync", "full_page_writes"] {
        server.run(&format!("ALTER SYSTEM SET {setting} = off")).await;
        server.run("SELECT pg_reload_conf()").await;
        poll::until(PATIENCE, "the warning", async || {
            let warnings = backend.unprepared().await.prepare().await.expect("tables");
            warnings.iter().any(|said| said.starts_with(&format!("{setting} is off"))).then_some(())
        })
        .await;
    }
    server.run("CREATE ROLE plain LOGIN").await;
    let plain = backend.url().replace("postgres@", "plain@");
    let error = open(&patient(plain)).await.prepare().await;
    assert!(matches!(error.expect_err("no right"), StoreError::Refused(_)));
    let error = open(&patient(format!("{}/nowhere", server.address()))).await.prepare().await;
    assert!(matches!(error.expect_err("no such database"), StoreError::Refused(_)));
    let read_only = format!("{}?options=-c%20default_transaction_read_only%3Don", backend.url());
    let store = open(&patient(read_only)).await;
    let error = store.read_row(&scope(1, 3), 1).await.expect_err("not even a read");
    assert!(matches!(error, StoreError::AcceptsNoWrites(_)), "{error:?}");
    assert!(error.to_string().contains("default_transaction_read_only is on"), "{error}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rows_with_infinite_times_are_used_like_any_other() {
    let server = Server::start(&Postgres).await;
    let (past, future) = (-62_135_596_800_000, 253_402_128_000_000);
    for (column, value, reads_ms, is_free) in [
        ("heartbeat_at", "infinity", future, false),
        ("heartbeat_at", "-infinity", past, false),
        ("expires_at", "infinity", future, false),
        ("expires_at", "-infinity", past, true),
    ] {
        let backend = Backend::Postgres(server.database().await);
        let odd = OddTime { column, value, reads_ms, is_free };
        rows_with_odd_times_are_used(&backend, odd).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tables_that_a_subscription_fills_are_not_written() {
    let server = Server::start(&Postgres).await;
    server.run("ALTER SYSTEM SET wal_level = logical").await;
    server.kill9();
    server.restart().await;
    let (published, subscribed) =
        (Backend::Postgres(server.database().await), Backend::Postgres(server.database().await));
    let store = open(&settings(subscribed.url())).await;
    for url in [published.url(), subscribed.url()] {
        let store = open(&settings(url)).await;
        store.prepare().await.expect("tables");
        store.close().await;
    }
    published.run("CREATE PUBLICATION all_of_it FOR ALL TABLES").await;
    published.run("SELECT pg_create_logical_replication_slot('copies', 'pgoutput')").await;
    subscribed
        .run(&format!(
            "CREATE SUBSCRIPTION copies CONNECTION '{}' PUBLICATION all_of_it \
             WITH (create_slot = false, copy_data = false)",
            published.url()
        ))
        .await;
    let error = store.prepare().await.expect_err("a replica");
    assert!(matches!(error, StoreError::AcceptsNoWrites(_)), "{error:?}");
    assert!(error.to_string().contains("it is a replica, which subscribes"), "{error}");
    open(&settings(published.url())).await.prepare().await.expect("the tables that are published");
    subscribed.run("ALTER SUBSCRIPTION copies DISABLE").await;
    subscribed.run("ALTER SUBSCRIPTION copies SET (slot_name = NONE)").await;
    subscribed.run("DROP SUBSCRIPTION copies").await;
    store.prepare().await.expect("it takes its place");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tables_are_looked_for_where_the_search_path_says() {
    let backend = Backend::postgres().await;
    backend.run("CREATE TABLE soc_raindrop_worker (id INT)").await;
    backend.run("CREATE SCHEMA \"of an application\"").await;
    let url =
        format!("{}?options=-c%20search_path%3D%22of\\%20an\\%20application%22", backend.url());
    let store = open(&patient(url)).await;
    store.prepare().await.expect("its own tables");
    create_rows(&store, &scope(1, 3), &write(1).marks).await.expect("rows");
    let here = "SELECT table_schema::text FROM information_schema.tables \
                WHERE table_name = 'soc_raindrop_worker' ORDER BY 1";
    assert_eq!(backend.texts(here).await, ["of an application", "public"]);
    let error = backend.unprepared().await.prepare().await.expect_err("somebody else's");
    assert!(matches!(error, StoreError::ForeignTable { .. }), "{error}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn locked_row_fails_within_the_timeout() {
    let backend = Backend::postgres().await;
    with_rows(&backend, &scope(1, 3)).await;
    let store = open(&settings(backend.url())).await;
    let mut other = PgConnection::connect(&backend.url()).await.expect("the server");
    let mut transaction = other.begin().await.expect("a transaction");
    sqlx::query("SELECT * FROM soc_raindrop_worker FOR UPDATE")
        .execute(&mut *transaction)
        .await
        .expect("locks");
    poll::within(TIMEOUT + MARGIN, "a swap of a locked row", async || {
        let swapped = store.swap_row(&scope(1, 3), 1, birth(1), &write(1)).await;
        swapped.expect_err("locked");
    })
    .await;
    poll::until(PATIENCE, "reading goes on", async || store.survey(&scope(1, 3)).await.ok()).await;
    let waiting = "SELECT wait_event FROM pg_stat_activity WHERE wait_event_type = 'Lock' \
                   AND datname = current_database()";
    poll::until(PATIENCE, "nothing waits on for the lock", async || {
        backend.texts(waiting).await.is_empty().then_some(())
    })
    .await;
    transaction.rollback().await.expect("the end of it");
    let swapped = backend.store().await.swap_row(&scope(1, 3), 1, birth(1), &write(2)).await;
    assert!(swapped.expect("an answer"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn few_connections_are_kept_and_not_for_long() {
    let backend = Backend::postgres().await;
    with_rows(&backend, &scope(1, 3)).await;
    let url = format!("{}?application_name=counted", backend.url());
    let store = open(&patient(url)).await;
    let connections = "SELECT application_name FROM pg_stat_activity \
                       WHERE application_name = 'counted'";
    let mut calls = tokio::task::JoinSet::new();
    for _ in 0..40 {
        let store = store.clone();
        calls.spawn(async move { store.survey(&scope(1, 3)).await.expect("a survey") });
    }
    while !calls.is_empty() {
        let connected = backend.texts(connections).await.len();
        assert!(connected <= 2, "{connected} connections");
        while calls.try_join_next().is_some() {}
    }
    assert!(!backend.texts(connections).await.is_empty());
    poll::until(PATIENCE, "idle connections are closed", async || {
        backend.texts(connections).await.is_empty().then_some(())
    })
    .await;
    store.survey(&scope(1, 3)).await.expect("a survey");
}
