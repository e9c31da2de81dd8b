//! What only MariaDB and MySQL can get wrong.

use std::time::Duration;

use raindrop::{core::lease::Token, store::StoreError};

use crate::{
    site::{Site, open, patient, scope, with_rows, write},
    support::{mariadb::Mariadb, poll, server::Server},
};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn few_connections_are_kept_and_not_for_long() {
    let server = Server::start(&Mariadb).await;
    let site = Site::Mariadb(server.database().await);
    with_rows(&site, &scope(1, 3)).await;
    // Its own user, to tell its connections from ours.
    server.run("CREATE USER 'counted'@'127.0.0.1'").await;
    server.run("GRANT ALL ON *.* TO 'counted'@'127.0.0.1'").await;
    let url = site.url().replace("root@", "counted@");
    let store = open(&patient(url)).await;
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
    poll::until(Duration::from_secs(60), "idle connections are closed", async || {
        site.texts(connections).await.is_empty().then_some(())
    })
    .await;
    store.survey(&scope(1, 3)).await.expect("a survey");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_the_operator_should_know() {
    let server = Server::start(&Mariadb).await;
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
        patient(format!("mysql://plain:{password}@127.0.0.1:{port}/{database}"))
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
    let error = open(&patient(format!("{}/nowhere", server.address()))).await.prepare().await;
    assert!(refused(&error.expect_err("no such database")));
}
