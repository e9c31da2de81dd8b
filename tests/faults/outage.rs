use std::{sync::Arc, time::Duration};

use tokio::time::sleep;

use crate::{
    collected::Collected,
    service::Setup,
    support::{mariadb::Mariadb, poll, server::Server},
};

/// The length of the outage is what is tested, with the default settings.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_minute_without_the_database_ten_seconds_after_the_start_fails_no_request() {
    let mariadb = Server::start(&Mariadb).await;
    let node = Setup::new().set("store.url", mariadb.database().await).start_leased().await;
    let collected = Arc::new(Collected::default());
    let clients: Vec<_> =
        [1, 1, 50].into_iter().map(|count| collected.client(&node, "order", count)).collect();
    sleep(Duration::from_secs(10)).await;
    mariadb.stop();
    sleep(Duration::from_secs(60)).await;
    let valid_until = node.health().await["valid_until"].clone();
    mariadb.restart().await;
    poll::until(Duration::from_secs(60), "the lease is renewed", async || {
        let renewed = node.health().await["valid_until"].clone();
        (renewed.as_str() > valid_until.as_str()).then_some(())
    })
    .await;
    collected.stop();
    for client in clients {
        client.await.expect("no panic");
    }
    println!("requests {} · ids {}", collected.requests(), collected.count());
    assert_eq!(collected.failures(), [""; 0]);
    assert_eq!(collected.duplicates(), 0);
    node.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_service_starts_without_its_database_and_serves_when_it_is_there() {
    let mariadb = Server::start(&Mariadb).await;
    let url = mariadb.database().await;
    mariadb.stop();
    let node = Setup::new().set("store.url", url).start().await;
    assert_eq!(node.get("/livez").await.expect("an answer").status(), 200);
    let refused = poll::until(Duration::from_secs(30), "the failure is seen", async || {
        let (status, body) = node.json("/id/order").await;
        (body["code"] == "store_unavailable").then_some(status)
    })
    .await;
    assert_eq!(refused, 503);
    assert_eq!(node.get("/readyz").await.expect("an answer").status(), 503);
    mariadb.restart().await;
    node.until_ready().await;
    node.ids("order", 10).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_frozen_database_holds_nothing_up() {
    let mariadb = Server::start(&Mariadb).await;
    let setup = Setup::new()
        .set("store.url", mariadb.database().await)
        .set("store.timeout", "500ms")
        .set("lease.renew", "500ms");
    let node = setup.start_leased().await;
    let renewed = "raindrop_lease_operations_total";
    let done = "operation=\"renew\",outcome=\"done\"";
    poll::until(Duration::from_secs(30), "the first renewal", async || {
        (node.metric(renewed, done).await >= 1.0).then_some(())
    })
    .await;
    mariadb.freeze();
    let collected = Arc::new(Collected::default());
    let client = collected.client(&node, "order", 100);
    sleep(Duration::from_secs(5)).await;
    let before = node.metric(renewed, done).await;
    mariadb.thaw();
    poll::until(Duration::from_secs(30), "the lease is renewed", async || {
        (node.metric(renewed, done).await > before).then_some(())
    })
    .await;
    collected.stop();
    client.await.expect("no panic");
    assert_eq!(collected.failures(), [""; 0]);
    assert_eq!(collected.duplicates(), 0);
    mariadb.freeze();
    // A stop with a frozen database is over within its deadline, and says so.
    node.stop().await;
    mariadb.thaw();
}
