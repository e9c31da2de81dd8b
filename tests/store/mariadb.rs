//! Tests mistakes that only MariaDB and MySQL allow.

use std::{sync::Arc, time::Duration};

use raindrop::{
    core::lease::{HighWaterMarks, History, NodeTimes, RowWrite, Token},
    store::{Failover, LayoutRecord, NewSegment, Store, StoreError, StoreSettings, with_sources},
};
use sqlx::{AssertSqlSafe, Connection as _, Executor as _, MySqlConnection};

use crate::{
    backend::{
        Backend, birth, create_rows, open, patient, record, rows_record, scope, token, with_rows,
        write,
    },
    corrupt_rows::{OddTime, rows_with_odd_times_are_used},
    support::{mariadb::Mariadb, mysql::Mysql, pair::Replicated, poll, server::Server},
};

/// Each is read as the year 1. But the server compares an expiry as it stands, so one that is no
/// date of a far year holds its row.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rows_with_times_that_are_no_dates_are_used_like_any_other() {
    let server = Server::start(&Mariadb).await;
    server.run("SET GLOBAL sql_mode = ''").await;
    for (column, value, is_free) in [
        ("heartbeat_at", "0000-00-00", false),
        ("heartbeat_at", "2026-00-10", false),
        ("heartbeat_at", "2026-10-00", false),
        ("heartbeat_at", "9999-00-00", false),
        ("expires_at", "0000-00-00", true),
        ("expires_at", "2026-00-10", true),
        ("expires_at", "2026-10-00", true),
        ("expires_at", "9998-00-10", false),
        ("expires_at", "9999-00-00", false),
        ("expires_at", "9999-12-00", false),
    ] {
        let backend = Backend::Mariadb(server.database().await);
        let odd = OddTime { column, value, reads_ms: -62_135_596_800_000, is_free };
        rows_with_odd_times_are_used(&backend, odd).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn few_connections_are_kept_and_not_for_long() {
    let server = Server::start(&Mariadb).await;
    let backend = Backend::Mariadb(server.database().await);
    with_rows(&backend, &scope(1, 3)).await;
    // A separate user, to tell the server's connections of this store from others.
    server.run("CREATE USER 'counted'@'127.0.0.1'").await;
    server.run("GRANT ALL ON *.* TO 'counted'@'127.0.0.1'").await;
    let url = backend.url().replace("root@", "counted@");
    let store = open(&patient(url)).await;
    let connections = "SELECT user FROM information_schema.processlist WHERE user = 'counted'";
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
    poll::until(Duration::from_secs(300), "idle connections are closed", async || {
        backend.texts(connections).await.is_empty().then_some(())
    })
    .await;
    store.survey(&scope(1, 3)).await.expect("a survey");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn settings_that_lose_writes_are_warned_about() {
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
    assert_eq!(error.kind(), "it denied access");
    server.run("INSTALL SONAME 'auth_ed25519'").await;
    server.run("CREATE USER 'key'@'127.0.0.1' IDENTIFIED VIA ed25519 USING PASSWORD('p')").await;
    let by_key = format!("mysql://key:p@127.0.0.1:{}/{database}", server.port());
    let error = open(&patient(by_key)).await.prepare().await.expect_err("another plugin");
    let said = error.to_string();
    assert!(error.is_permanent() && said.contains("plugin client_ed25519,"), "{error:?}");
    let error = open(&patient(format!("{}/nowhere", server.address()))).await.prepare().await;
    assert!(refused(&error.expect_err("no such database")));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sessions_read_what_is_committed_whatever_the_servers_default() {
    let server = Server::start(&Mariadb).await;
    let backend = Backend::Mariadb(server.database().await);
    with_rows(&backend, &scope(1, 3)).await;
    server.run("SET GLOBAL TRANSACTION ISOLATION LEVEL READ UNCOMMITTED").await;
    // The trigger notes the level of a session when it writes.
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
    assert!(store.swap_row(&scope(1, 3), 1, birth(1), &write(1)).await.expect("an answer"));
    assert_eq!(backend.texts("SELECT level FROM seen").await, ["REPEATABLE-READ"]);

    let mut other = MySqlConnection::connect(&backend.url()).await.expect("the server");
    let mut transaction = other.begin().await.expect("a transaction");
    for table in ["soc_raindrop_worker", "soc_raindrop_worker_layout"] {
        let sql = format!("UPDATE {table} SET token = '{}'", token(2));
        transaction.execute(AssertSqlSafe(sql)).await.expect("uncommitted tokens");
    }
    // A session with the server's default would read them.
    let tokens = backend.texts("SELECT token FROM soc_raindrop_worker_layout").await;
    assert_eq!(tokens, [token(2).to_string()]);
    let row = store.read_row(&scope(1, 3), 1).await.expect("an answer").expect("the row");
    assert_eq!(row.token, token(1));
    let read = store.read_record("default").await.expect("an answer");
    assert_eq!(read, Some(words));
    transaction.rollback().await.expect("the end of it");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn replicas_have_every_write_whatever_the_format_of_the_binary_log() {
    replicas_have_every_write(&Mariadb).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "make mysql-test"]
async fn replicas_of_mysql_have_every_write_whatever_the_format_of_the_binary_log() {
    replicas_have_every_write(&Mysql).await;
}

async fn replicas_have_every_write(engine: &dyn Replicated) {
    let servers = engine.start_pair().await;
    // The user may not change the format of a session.
    let url = engine.nodes_database(&servers[0]).await;
    servers[0].run("SET GLOBAL binlog_format = 'MIXED'").await;
    let store = open(&patient(&url)).await;
    store.prepare().await.expect("tables");
    create_rows(&store, &scope(1, 3), &HighWaterMarks::all_at(0, 2)).await.expect("rows");
    write_as_this_server(&store, [rows_record().token, birth(1)], 1).await;
    assert_eq!(replicated(engine, &servers, &url).await, vec![token(1).to_string(); 2]);

    servers[0].run("SET GLOBAL binlog_format = 'STATEMENT'").await;
    for failover in Failover::ALL {
        let settings = StoreSettings { failover, ..patient(&url) };
        let error = open(&settings).await.prepare().await.expect_err("replicas would diverge");
        let said = error.to_string();
        assert!(error.is_permanent() && said.contains("binlog_format is STATEMENT"), "{said}");
    }

    servers[0].run("GRANT ALL ON *.* TO 'node'@'127.0.0.1'").await;
    let store = open(&patient(&url)).await;
    write_as_this_server(&store, [token(1); 2], 2).await;
    assert_eq!(replicated(engine, &servers, &url).await, vec![token(2).to_string(); 2]);
}

/// Writes the record and a row by statements that name the server.
async fn write_as_this_server(store: &Arc<dyn Store>, [record_token, row]: [Token; 2], bits: u128) {
    let survey = store.survey(&scope(1, 1)).await.expect("a survey");
    let epoch = token(0xe1);
    let history =
        History::first(&survey.identity.expect("it is compared"), epoch, NodeTimes::default());
    let record = LayoutRecord { history, ..record(bits, "rows") };
    assert!(store.swap_record("default", record_token, &record).await.expect("an answer"));
    let write = RowWrite { epoch, ..write(bits) };
    assert!(store.swap_row(&scope(1, 1), 1, row, &write).await.expect("an answer"));
}

/// Returns the tokens of the record and of the row of worker 1 on the replica.
async fn replicated(engine: &dyn Replicated, servers: &[Server; 2], url: &str) -> Vec<String> {
    let [primary, replica] = servers;
    engine.until_caught_up(primary, replica).await;
    let url = engine.through(&url.replace("node@", "root@"), replica.port());
    let sql = "SELECT token FROM soc_raindrop_worker_layout \
               UNION ALL SELECT token FROM soc_raindrop_worker WHERE worker_id = 1";
    replica.texts(&url, sql).await
}

/// The store writes nothing through a server that applies the changes of another one, writable or
/// not.
async fn writable_replica_is_refused(engine: &dyn Replicated) {
    let servers = engine.start_pair().await;
    let [primary, replica] = &servers;
    let url = engine.nodes_database(primary).await.replace("node@", "root@");
    let store = open(&patient(&url)).await;
    store.prepare().await.expect("tables");
    engine.until_caught_up(primary, replica).await;
    replica.run("SET GLOBAL read_only = 0").await;
    let there = open(&patient(engine.through(&url, replica.port()))).await;
    for _ in 0..2 {
        let error = there.prepare().await.expect_err("a replica");
        let said = with_sources(&error);
        assert!(!error.is_permanent(), "{error:?}");
        assert!(said.contains("it is a replica, which applies the changes of"), "{said}");
        assert!(said.contains("STOP REPLICA"), "{said}");
    }
    engine.promote(replica).await;
    there.prepare().await.expect("the new primary");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "make mysql-test"]
async fn account_of_mysql_that_may_not_ask_for_replicas_is_told_the_grant() {
    let server = Server::start(&Mysql).await;
    let url = server.database().await;
    server.run("CREATE USER 'node'@'127.0.0.1'").await;
    server.run("GRANT ALL ON *.* TO 'node'@'127.0.0.1'").await;
    server.run("REVOKE SELECT ON *.* FROM 'node'@'127.0.0.1'").await;
    let (_, database) = url.rsplit_once('/').expect("a database");
    server.run(&format!("GRANT ALL ON {database}.* TO 'node'@'127.0.0.1'")).await;
    for (user, is_warned) in [("node", true), ("root", false)] {
        let store = open(&patient(url.replace("root@", &format!("{user}@")))).await;
        let warnings = store.prepare().await.expect("tables").join("\n");
        let warned = warnings.contains("GRANT SELECT ON performance_schema.*");
        assert_eq!(warned, is_warned, "{user}: {warnings}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn writable_replica_of_mariadb_is_refused() {
    writable_replica_is_refused(&Mariadb).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "make mysql-test"]
async fn writable_replica_of_mysql_is_refused() {
    writable_replica_is_refused(&Mysql).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn names_of_codes_are_kept_whatever_the_character_set_of_the_database() {
    let server = Server::shared(&Mariadb).await;
    for charset in ["latin1", "ucs2", "utf8mb4"] {
        let url = server.database().await;
        let (_, database) = url.rsplit_once('/').expect("a database");
        server.run(&format!("ALTER DATABASE {database} CHARACTER SET {charset}")).await;
        let store = with_rows(&Backend::Mariadb(url.clone()), &scope(1, 1)).await;
        store.prepare_segments().await.expect("tables");
        let codes = ["a", "\u{fc}\u{20ac}\u{1f600}"];
        let new = codes.map(|code| NewSegment { code: code.into(), first: 1 });
        store.create_segments("numbers", &new).await.expect(charset);
        let listed = store.list_segments().await.expect(charset);
        let listed: Vec<_> = listed.iter().map(|segment| segment.code.as_str()).collect();
        assert_eq!(listed, codes, "{charset}");
        let too_long = NewSegment { code: "a".repeat(97), first: 1 };
        store.create_segments("numbers", &[too_long]).await.expect_err("too long");
    }
}
