//! Stores that are restarted several times between two renewals of a node, and begin an epoch each time.

use std::{sync::Arc, time::Duration};

use tokio::time::sleep;

use crate::{
    load::Load,
    service::{PATIENCE, Service, Setup},
    support::{mariadb::Mariadb, poll, redis::Redis, server::Server},
};

const NODES: usize = 5;
/// How far leases reach. Twice the time that a write proves something for, as by default.
const WINDOW: Duration = Duration::from_secs(40);
/// How often nodes renew: more seldom than the store is restarted.
const RENEW: Duration = Duration::from_secs(8);

/// How often this node has renewed its lease.
async fn renewals(node: &Service) -> f64 {
    let done = "operation=\"renew\",outcome=\"done\"";
    node.metric("raindrop_lease_operations_total", done).await
}

async fn all_renewals(nodes: &[Service]) -> Vec<f64> {
    let mut all = Vec::new();
    for node in nodes {
        all.push(renewals(node).await);
    }
    all
}

/// How many epochs these nodes began.
async fn epochs(nodes: &[Service]) -> f64 {
    let mut epochs = 0.0;
    for node in nodes {
        epochs += node.metric("raindrop_store_epoch_changes_total", "").await;
    }
    epochs
}

/// Waits until each node has renewed its lease once more.
async fn until_renewed(nodes: &[Service], before: &[f64]) {
    for (node, before) in nodes.iter().zip(before) {
        poll::until(PATIENCE, "the lease is renewed", async || {
            (renewals(node).await > *before).then_some(())
        })
        .await;
    }
}

/// Restarts the store, and waits until one of the nodes begins an epoch.
async fn restart(server: &Server, nodes: &[Service]) {
    let before = epochs(nodes).await;
    server.restart().await;
    poll::until(PATIENCE, "a node begins an epoch", async || {
        (epochs(nodes).await > before).then_some(())
    })
    .await;
}

/// Some nodes check the store between two restarts, others only afterwards. No node refuses a request,
/// not even when the leases of the time before the restarts have ended.
async fn nodes_issue_without_a_gap(server: Server) {
    let setup = Setup::new()
        .set("store.url", server.database().await)
        .set("lease.window", format!("{}s", WINDOW.as_secs()))
        .set("lease.ttl", format!("{}s", WINDOW.as_secs() / 2))
        .set("lease.renew", format!("{}s", RENEW.as_secs()))
        .set("lease.max_clock_skew", "500ms");
    let (load, mut nodes, mut homes) = (Arc::new(Load::default()), Vec::new(), Vec::new());
    for _ in 0..NODES {
        let node = setup.clone().start_leased().await;
        homes.push(load.join(&node));
        nodes.push(node);
    }
    until_renewed(&nodes, &[0.0; NODES]).await;
    let before = all_renewals(&nodes).await;
    restart(&server, &nodes).await;
    let slept = all_renewals(&nodes).await;
    restart(&server, &nodes).await;
    let through = slept.iter().zip(&before).filter(|(slept, before)| slept == before).count();
    assert!(through > 0, "each node renewed between the restarts: {before:?} {slept:?}");
    until_renewed(&nodes, &all_renewals(&nodes).await).await;
    sleep(WINDOW).await;
    load.stop().await;
    let figures = load.figures();
    let gap = homes.iter().map(|home| home.served().gap.longest()).max().unwrap_or_default();
    println!(
        "two restarts, {through} of {NODES} nodes slept through: requests {} · refused {} · IDs {} · \
         longest gap of a node {gap:?}",
        figures.requests,
        figures.refused,
        load.collected.count(),
    );
    assert_eq!((figures.refused, figures.broken, load.unexpected()), (0, 0, Vec::new()));
    assert_eq!(load.collected.duplicates(), 0);
}

// At the same time: what such a case does most is wait.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn redis_and_mariadb_that_restart_twice_leave_no_gap() {
    // Its settings may lose writes, so each start of it has another identity.
    let may_lose = vec!["--innodb-flush-log-at-trx-commit=2".to_owned()];
    let (mariadb, redis) =
        (Server::start_with(&Mariadb, may_lose).await, Server::start(&Redis).await);
    tokio::join!(nodes_issue_without_a_gap(mariadb), nodes_issue_without_a_gap(redis));
}
