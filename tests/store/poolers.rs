//! Tests poolers between Raindrop and PostgreSQL.

use std::time::Duration;

use raindrop::store::StoreError;
use sqlx::{Connection as _, Executor as _, PgConnection, Row as _};

use crate::{
    backend::{Backend, birth, open, patient, scope, token, with_rows, write},
    outage::PATIENCE,
    support::{
        pgbouncer::{PgBouncer, options},
        poll,
        postgres::Postgres,
        server::Server,
    },
};

/// Opens a connection of another application through the pooler.
async fn another(url: &str) -> PgConnection {
    PgConnection::connect_with(&options(url)).await.expect("the pooler")
}

/// Makes a pooler open several sessions among which it can choose.
async fn with_several_sessions(url: &str) {
    let mut others = Vec::new();
    for _ in 0..3 {
        let mut other = another(url).await;
        other.execute("BEGIN").await.expect("a session of its own");
        others.push(other);
    }
    for other in &mut others {
        other.execute("ROLLBACK").await.expect("the end of it");
    }
}

async fn is_refused_and_gets_no_settings(mode: &str, settings: &str) {
    let server = Server::start(&Postgres).await;
    let pooler = PgBouncer::start(&server, mode, settings).await;
    let url = pooler.through(&server.database().await);
    if mode == "transaction" {
        with_several_sessions(&url).await;
    }
    let error = open(&patient(&url)).await.prepare().await.expect_err(mode);
    let said = error.to_string();
    assert!(error.is_permanent(), "{error:?}");
    assert!(said.contains("a pooler in transaction mode stands between"), "{said}");
    assert!(said.contains("pg_backend_pid") && said.contains("session mode"), "{said}");
    let sql = "SELECT current_setting('statement_timeout') || current_setting('lock_timeout')";
    for _ in 0..4 {
        let left = another(&url).await.fetch_one(sqlx::raw_sql(sql)).await.expect("an answer");
        assert_eq!(left.get::<String, _>(0), "00");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pooler_in_transaction_mode_is_refused_and_gets_no_settings() {
    is_refused_and_gets_no_settings("transaction", "").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pooler_in_transaction_mode_that_goes_round_is_refused_and_gets_no_settings() {
    is_refused_and_gets_no_settings("transaction", "server_round_robin = 1").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pooler_in_statement_mode_is_refused_and_gets_no_settings() {
    is_refused_and_gets_no_settings("statement", "").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pooler_in_session_mode_is_used() {
    let server = Server::start(&Postgres).await;
    let backend = Backend::Postgres(server.database().await);
    with_rows(&backend, &scope(1, 3)).await;
    for (worker, sessions) in [(1, ""), (2, "default_pool_size = 1")] {
        let pooler = PgBouncer::start(&server, "session", sessions).await;
        let mut settings = patient(pooler.through(&backend.url()));
        // The pooler may not grant the second session, which tells poolers apart.
        settings.timeout = Duration::from_secs(5);
        settings.max_connections = 1;
        let store = open(&settings).await;
        store.prepare().await.expect("tables");
        let swapped = store.swap_row(&scope(1, 3), worker, birth(worker), &write(1)).await;
        assert!(swapped.expect("an answer"));
        store.survey(&scope(1, 3)).await.expect("its identity");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pooler_is_refused_once_it_is_in_transaction_mode() {
    let server = Server::start(&Postgres).await;
    let backend = Backend::Postgres(server.database().await);
    with_rows(&backend, &scope(1, 3)).await;
    let pooler = PgBouncer::start(&server, "session", "server_round_robin = 1").await;
    let url = pooler.through(&backend.url());
    let store = open(&patient(&url)).await;
    assert!(store.swap_row(&scope(1, 3), 1, birth(1), &write(1)).await.expect("an answer"));
    pooler.set_mode("transaction").await;
    with_several_sessions(&url).await;
    let said = poll::until(PATIENCE, "it is refused", async || {
        match store.survey(&scope(1, 3)).await {
            Err(StoreError::Unusable(said)) => Some(said),
            // The former connection keeps its session until the pooler moves it.
            Ok(_) | Err(StoreError::Unavailable(_)) => None,
            Err(error) => panic!("{error}"),
        }
    })
    .await;
    assert!(said.contains("a pooler in transaction mode stands between"), "{said}");
    let write = store.swap_row(&scope(1, 3), 1, token(1), &write(2)).await;
    assert!(matches!(write, Err(StoreError::Unusable(_))), "{write:?}");
}
