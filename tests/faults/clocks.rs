//! Tests clocks of real processes that step; the metrics show each action.

use reqwest::StatusCode;
use serde_json::Value;

use crate::{
    collected::Collected,
    service::{PATIENCE, Service, Setup, unix_ms},
    support::{mariadb::Mariadb, poll, server::Server},
};

/// From the present to about 2099.
const DECADES: f64 = 2_300_000_000.0;

/// Short leases over SQLite, with a clock that tests shift.
fn quick() -> Setup {
    Setup::new()
        .set("lease.ttl", "3s")
        .set("lease.renew", "500ms")
        .set("lease.window", "10s")
        .with_clock()
}

/// Returns a node that has renewed once and has just issued.
async fn settled(setup: Setup, collected: &Collected) -> Service {
    let node = setup.start_leased().await;
    poll::until(PATIENCE, "the first renewal", async || {
        let done = "operation=\"renew\",outcome=\"done\"";
        (node.metric("raindrop_lease_operations_total", done).await >= 1.0).then_some(())
    })
    .await;
    collected.add(&node.ids("order", 1_000).await);
    node
}

async fn rollbacks(node: &Service, action: &str) -> f64 {
    let label = format!("action=\"{action}\"");
    node.metric("raindrop_clock_rollbacks_total", &label).await
}

async fn until_rolled_back(node: &Service, collected: &Collected, action: &str) {
    poll::until(PATIENCE, action, async || {
        collected.add(&node.ids("order", 10).await);
        (rollbacks(node, action).await >= 1.0).then_some(())
    })
    .await;
}

async fn refused(node: &Service) -> (StatusCode, Value) {
    poll::until(PATIENCE, "a refusal", async || {
        let (status, body) = node.json("/id/order").await;
        (status != StatusCode::OK).then_some((status, body))
    })
    .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_small_step_back_is_held() {
    let collected = Collected::default();
    // The hold is so long that the clock has not caught up before the next request.
    let node = settled(quick().set("rollback.hold", "5s"), &collected).await;
    let lane = node.lane().await;
    node.shift_clock(-4.0);
    until_rolled_back(&node, &collected, "held").await;
    collected.add(&node.ids("order", 1_000).await);
    assert_eq!((node.lane().await, rollbacks(&node, "rotated").await), (lane, 0.0));
    assert_eq!(collected.duplicates(), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn seconds_and_hours_back_rotate_or_swap() {
    for shift in [-20.0, -7_200.0] {
        let collected = Collected::default();
        let node = settled(quick(), &collected).await;
        let worker = node.worker().await;
        node.shift_clock(shift);
        until_rolled_back(&node, &collected, "rotated").await;
        assert_eq!(node.worker().await, worker);
        collected.add(&node.ids("order", 1_000).await);
        assert_eq!(collected.duplicates(), 0);

        let node = settled(quick().set("rollback.policy", "swap"), &collected).await;
        let worker = node.worker().await;
        node.shift_clock(shift);
        let collected = Collected::default();
        until_rolled_back(&node, &collected, "swapped").await;
        assert_ne!(node.worker().await, worker);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_must_wait_says_how_long() {
    let collected = Collected::default();
    let node = settled(quick().set("rollback.policy", "wait"), &collected).await;
    node.shift_clock(-12.0);
    let (status, body) = refused(&node).await;
    assert_eq!((status.as_u16(), &body["code"]), (503, &"clock_rollback".into()));
    let answer = node.get("/id/order").await.expect("an answer");
    let seconds = answer.headers()["retry-after"].to_str().expect("text").parse::<u64>();
    assert!((1..=12).contains(&seconds.expect("seconds")));
    poll::until(PATIENCE, "the clock has caught up", async || {
        (node.get("/id/order").await.ok()?.status() == StatusCode::OK).then_some(())
    })
    .await;
    collected.add(&node.ids("order", 1_000).await);
    assert_eq!(collected.duplicates(), 0);
    assert_eq!(rollbacks(&node, "refused").await, 1.0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_jump_ahead_burns_nothing() {
    let collected = Collected::default();
    let node = settled(quick(), &collected).await;
    let lane = node.lane().await;
    node.shift_clock(7_200.0);
    let (status, body) = refused(&node).await;
    assert_eq!((status.as_u16(), &body["code"]), (503, &"lease_unavailable".into()));
    let clock_ahead = "operation=\"renew\",outcome=\"clock_ahead\"";
    poll::until(PATIENCE, "renewals are refused", async || {
        let count = node.metric("raindrop_lease_operations_total", clock_ahead).await;
        (count >= 1.0).then_some(())
    })
    .await;
    node.shift_clock(0.0);
    node.until_ready().await;
    collected.add(&node.ids("order", 1_000).await);
    assert_eq!(collected.duplicates(), 0);
    // If the marks had followed the clock, this lane would be unusable for two hours.
    assert_eq!((node.lane().await, rollbacks(&node, "rotated").await), (lane, 0.0));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_clock_that_is_ahead_of_the_database_gets_no_lease() {
    let mariadb = Server::shared(&Mariadb).await;
    let setup = quick().set("store.url", mariadb.database().await);
    for ahead in [30.0, DECADES] {
        let node = setup.clone().with_shifted_clock(ahead).start().await;
        let reason = poll::until(PATIENCE, "the reason", async || {
            let reason = node.health().await["reason"].as_str().unwrap_or_default().to_owned();
            reason.contains("ahead").then_some(reason)
        })
        .await;
        assert!(reason.contains("no lease"), "{reason}");
        assert_eq!(node.get("/readyz").await.expect("an answer").status(), 503);
        node.shift_clock(0.0);
        node.until_ready().await;
        node.ids("order", 10).await;
        node.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_boot_in_1970_or_2099_waits_for_the_clock() {
    // A machine without a battery starts a little after the epoch of Unix.
    let to_1970 = -(unix_ms() as f64) / 1_000.0 + 86_400.0;
    for shift in [to_1970, DECADES] {
        let node = quick().with_shifted_clock(shift).start().await;
        let (status, body) = refused(&node).await;
        assert_eq!((status.as_u16(), &body["code"]), (503, &"clock_out_of_range".into()), "{body}");
        node.shift_clock(0.0);
        node.until_ready().await;
        node.ids("order", 10).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_wrong_clock_of_the_database_is_ridden_out() {
    let mariadb = Server::start_with_clock(&Mariadb).await;
    let collected = Collected::default();
    let setup = quick().set("store.url", mariadb.database().await);
    let node = settled(setup, &collected).await;
    for shift in [-7_200.0, 7_200.0] {
        mariadb.shift_clock(shift);
        let renewed = "operation=\"renew\",outcome=\"done\"";
        let before = node.metric("raindrop_lease_operations_total", renewed).await;
        poll::until(PATIENCE, "more than a window's renewals", async || {
            collected.add(&node.ids("order", 10).await);
            let now = node.metric("raindrop_lease_operations_total", renewed).await;
            (now > before + 22.0).then_some(())
        })
        .await;
    }
    assert_eq!(collected.duplicates(), 0);
}
