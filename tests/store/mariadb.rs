//! What only MariaDB and MySQL can get wrong.

use std::time::Duration;

use raindrop::store::{Counts, StoreError};
use sqlx::{AssertSqlSafe, Connection as _, Executor as _, MySqlConnection};

use crate::{
    backend::{Backend, birth, open, patient, record, rows_record, scope, token, with_rows, write},
    support::{mariadb::Mariadb, poll, server::Server},
};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn few_connections_are_kept_and_not_for_long() {
    let server = Server::start(&Mariadb).await;
    let backend = Backend::Mariadb(server.database().await);
    with_rows(&backend, &scope(1, 3)).await;
    // Its own user, to tell its connections from ours.
    server.run("CREATE USER 'counted'@'127.0.0.1'").await;
    server.run("GRANT ALL ON *.* TO 'counted'@'127.0.0.1'").await;
    let url = backend.url().replace("root@", "counted@");
    let store = open(&patient(url)).await;
    let connections = "SELECT user FROM information_schema.processlist WHERE user = 'counted'";
    let mut calls = tokio::task::JoinSet::new();
    for _ in 0..40 {
        let store = store.clone();
        calls.spawn(
            async move { store.survey(&scope(1, 3), Counts::Exact).await.expect("a survey") },
        );
    }
    while !calls.is_empty() {
        let connected = backend.texts(connections).await.len();
        assert!(connected <= 2, "{connected} connections");
        while calls.try_join_next().is_some() {}
    }
    assert!(!backend.texts(connections).await.is_empty());
    poll::until(Duration::from_secs(60), "idle connections are closed", async || {
        backend.texts(connections).await.is_empty().then_some(())
    })
    .await;
    store.survey(&scope(1, 3), Counts::Exact).await.expect("a survey");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_the_operator_should_know() {
    let server = Server::start(&Mariadb).await;
    let backend = Backend::Mariadb(server.database().await);
    let database = backend.url().rsplit('/').next().expect("a name").to_owned();
    with_rows(&backend, &scope(1, 3)).await;

    server.run("SET GLOBAL innodb_flush_log_at_trx_commit = 2").await;
    let warnings = backend.unprepared().await.prepare().await.expect("tables");
    assert_eq!(warnings.len(), 1, "{warnings:?}");
    assert!(warnings[0].starts_with("innodb_flush_log_at_trx_commit is 2, not 1"), "{warnings:?}");

    server.run("CREATE USER 'plain'@'127.0.0.1' IDENTIFIED BY 'p@ss:w/rd'").await;
    server.run(&format!("GRANT ALL ON {database}.* TO 'plain'@'127.0.0.1'")).await;
    let plain = |password: &str| {
        let port = server.port();
        patient(format!("mysql://plain:{password}@127.0.0.1:{port}/{database}"))
    };
    let store = open(&plain("p%40ss%3Aw%2Frd")).await;
    assert!(!format!("{store:?}").contains("p@ss"), "{store:?}");
    store.prepare().await.expect("the tables are there");
    let refused = |error: &StoreError| matches!(error, StoreError::Refused(_));
    let error = open(&plain("wrong")).await.prepare().await.expect_err("a wrong password");
    assert!(refused(&error) && !error.is_permanent(), "{error:?}");
    let error = open(&patient(format!("{}/nowhere", server.address()))).await.prepare().await;
    assert!(refused(&error.expect_err("no such database")));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sessions_read_what_is_committed_whatever_the_servers_default() {
    let server = Server::start(&Mariadb).await;
    let backend = Backend::Mariadb(server.database().await);
    with_rows(&backend, &scope(1, 3)).await;
    server.run("SET GLOBAL TRANSACTION ISOLATION LEVEL READ UNCOMMITTED").await;
    // The level of a session, seen by a trigger on its writes.
    backend.run("CREATE TABLE seen (level VARCHAR(64))").await;
    backend
        .run(
            "CREATE TRIGGER note BEFORE UPDATE ON soc_raindrop_worker FOR EACH ROW \
         INSERT INTO seen VALUES (@@SESSION.tx_isolation)",
        )
        .await;
    let store = backend.store().await;
    let words = record(1, "words");
    assert!(store.swap_record("default", rows_record().token, &words).await.expect("an answer"));
    assert!(store.swap(&scope(1, 3), 1, birth(1), &write(1)).await.expect("an answer"));
    assert_eq!(backend.texts("SELECT level FROM seen").await, ["REPEATABLE-READ"]);

    let mut other = MySqlConnection::connect(&backend.url()).await.expect("the server");
    let mut transaction = other.begin().await.expect("a transaction");
    for table in ["soc_raindrop_worker", "soc_raindrop_worker_layout"] {
        let sql = format!("UPDATE {table} SET token = '{}'", token(2));
        transaction.execute(AssertSqlSafe(sql)).await.expect("uncommitted tokens");
    }
    // A session with the server's default reads them.
    let tokens = backend.texts("SELECT token FROM soc_raindrop_worker_layout").await;
    assert_eq!(tokens, [token(2).to_string()]);
    let row = store.row(&scope(1, 3), 1).await.expect("an answer").expect("the row");
    assert_eq!(row.token, token(1));
    let read = store.read_record("default").await.expect("an answer");
    assert_eq!(read, Some(words));
    transaction.rollback().await.expect("the end of it");
}
