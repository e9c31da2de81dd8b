//! Who gets which worker id, when processes come and go.

use std::time::Duration;

use crate::{
    collected::Collected,
    service::{PATIENCE, Setup},
    support::{mariadb::Mariadb, poll, server::Server},
};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn after_a_crash_a_spare_row_serves_within_two_seconds() {
    let mariadb = Server::shared(&Mariadb).await;
    let url = mariadb.database().await;
    let setup = Setup::new().set("store.url", &url);
    let node = setup.clone().start_leased().await;
    node.ids("order", 10).await;
    node.kill9().await;
    // The machine may be busy with other tests: one of five restarts shows what it takes.
    poll::within(Duration::from_secs(2), "serving again", async || {
        let again = setup.clone().start_leased().await;
        again.ids("order", 10).await;
        again.kill9().await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn seven_nodes_fill_three_bits_and_the_eighth_serves_when_one_leaves() {
    let mariadb = Server::shared(&Mariadb).await;
    let url = mariadb.database().await;
    let setup = Setup::new()
        .set("store.url", &url)
        .set("layout.worker_bits", 3)
        .set("lease.ttl", "10s")
        .set("lease.renew", "1s")
        .set("lease.window", "20s");
    let mut nodes = Vec::new();
    for _ in 0..7 {
        nodes.push(setup.clone().start_leased().await);
    }
    let eighth = setup.start().await;
    let refused = poll::until(PATIENCE, "the eighth is refused", async || {
        let (status, body) = eighth.json("/id/order").await;
        (body["code"] == "lease_unavailable").then_some(status)
    })
    .await;
    assert_eq!(refused, 503);
    let answer = eighth.get("/id/order").await.expect("an answer");
    let retry_after = answer.headers()["retry-after"].to_str().expect("text").parse::<u64>();
    assert!((1..=11).contains(&retry_after.expect("seconds")));
    let (status, _) = eighth.json("/health").await;
    assert_eq!(status, 503);
    // The log says so once, however often it looks; perhaps also that the store was slow.
    let searches = "operation=\"acquire\",outcome=\"none_free\"";
    let searched = async || eighth.metric("raindrop_lease_operations_total", searches).await;
    let again = async || (searched().await >= 4.0).then_some(());
    poll::until(PATIENCE, "four searches", again).await;
    assert!(eighth.log().matches("lease at risk").count() <= 2, "{}", eighth.log());

    let collected = Collected::default();
    for node in &nodes {
        collected.add(&node.ids("order", 1_000).await);
    }
    nodes.pop().expect("seven").stop().await;
    eighth.until_ready().await;
    collected.add(&eighth.ids("order", 1_000).await);
    assert_eq!((collected.count(), collected.duplicates()), (8_000, 0));
}
