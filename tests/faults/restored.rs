//! Stores that are restored in place, emptied or robbed of rows while nodes run.

use std::{sync::Arc, time::Duration};

use crate::{
    load::Load,
    service::{PATIENCE, Service, Setup, parse_ids},
    support::{
        mariadb::Mariadb,
        poll,
        postgres::Postgres,
        server::{Engine, Server},
    },
};

const TABLES: [&str; 2] = ["soc_raindrop_worker", "soc_raindrop_worker_layout"];

/// Puts the copies of the tables back, in one transaction.
fn put_back() -> String {
    let put_back = TABLES.map(|table| {
        format!("DELETE FROM {table}; INSERT INTO {table} SELECT * FROM {table}_copy; ")
    });
    format!("START TRANSACTION; {}COMMIT", put_back.concat())
}

/// Three nodes under load; each thing that happens to the store refuses no request, and no ID comes
/// twice.
async fn nodes_go_on(engine: &'static dyn Engine) {
    let server = Server::shared(engine).await;
    let url = server.database().await;
    let run = async |sql: &str| engine.run(&url, sql).await;
    let setup = Setup::new()
        .set("store.url", &url)
        .set("lease.window", "30s")
        .set("lease.ttl", "20s")
        .set("lease.renew", "1s")
        .set("lease.max_clock_skew", "1s");
    let load = Arc::new(Load::default());
    let mut nodes = Vec::new();
    for _ in 0..3 {
        let node = setup.clone().start_leased().await;
        load.join(&node);
        nodes.push(node);
    }
    until_renewed(&nodes, 3.0).await;
    for table in TABLES {
        run(&format!("CREATE TABLE {table}_copy AS SELECT * FROM {table}")).await;
    }
    let epochs = async |nodes: &[Service]| {
        let mut epochs = 0.0;
        for node in nodes {
            epochs += node.metric("raindrop_store_epoch_changes_total", "").await;
        }
        epochs
    };
    for (happens, begins_epochs) in [
        (put_back(), true),
        (format!("DELETE FROM {}", TABLES[0]), false),
        (format!("DELETE FROM {}", TABLES[1]), true),
        (TABLES.map(|table| format!("DELETE FROM {table}; ")).concat(), true),
    ] {
        // Older than the skew.
        until_renewed(&nodes, 4.0).await;
        let before = epochs(&nodes).await;
        run(&happens).await;
        until_renewed(&nodes, 4.0).await;
        let began = epochs(&nodes).await - before;
        assert_eq!(began > 0.0, begins_epochs, "{happens}: {began} epochs");
    }
    load.stop().await;
    assert_eq!(load.unexpected(), [""; 0]);
    assert_eq!(load.collected.duplicates(), 0);
    assert_eq!(load.figures().refused, 0, "no request was refused");
}

/// A node that starts as soon as a backup was put back waits until the living ones have looked: the backup
/// shows the rows of two of them as free.
async fn start_waits_for_living_nodes(engine: &'static dyn Engine) {
    let server = Server::shared(engine).await;
    let url = server.database().await;
    let setup = Setup::new()
        .set("store.url", &url)
        .set("worker.max_id", 3)
        .set("lease.window", "30s")
        .set("lease.ttl", "20s")
        .set("lease.renew", "4s")
        .set("lease.max_clock_skew", "1s");
    let load = Arc::new(Load::default());
    let mut nodes = vec![setup.clone().start_leased().await];
    until_renewed(&nodes, 1.0).await;
    for table in TABLES {
        engine.run(&url, &format!("CREATE TABLE {table}_copy AS SELECT * FROM {table}")).await;
    }
    for _ in 0..2 {
        nodes.push(setup.clone().start_leased().await);
    }
    // Older than holders take to look.
    until_renewed(&nodes, 3.0).await;
    for node in &nodes {
        load.join(node);
    }
    engine.run(&url, &put_back()).await;
    let late = setup.start().await;
    late.logged("no lease was renewed since").await;
    let (_, health) = late.json("/health").await;
    let reason = health["namespaces"]["default"]["reason"].as_str().unwrap_or_default();
    assert!(reason.contains("lease.stale_wait"), "{health}");
    for _ in 0..80 {
        let (status, answer) = late.json("/ids/order?n=100").await;
        if status.is_success() {
            load.collected.add(&parse_ids(&answer));
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    load.stop().await;
    assert_eq!(load.unexpected(), [""; 0]);
    assert_eq!(load.collected.duplicates(), 0);
    assert_eq!(load.figures().refused, 0, "no request was refused");
    late.logged("the store failed over").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn start_on_a_restored_mariadb_waits_for_living_nodes() {
    start_waits_for_living_nodes(&Mariadb).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn start_on_a_restored_postgres_waits_for_living_nodes() {
    start_waits_for_living_nodes(&Postgres).await;
}

/// Waits until each node has renewed its lease so often.
async fn until_renewed(nodes: &[Service], times: f64) {
    let renewals = async |node: &Service| {
        node.metric("raindrop_lease_operations_total", r#"operation="renew",outcome="done""#).await
    };
    let mut enough = Vec::new();
    for node in nodes {
        enough.push(renewals(node).await + times);
    }
    for (node, enough) in nodes.iter().zip(enough) {
        poll::until(PATIENCE, "the lease is renewed", async || {
            (renewals(node).await >= enough).then_some(())
        })
        .await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nodes_go_on_whatever_happens_to_mariadb() {
    nodes_go_on(&Mariadb).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nodes_go_on_whatever_happens_to_postgres() {
    nodes_go_on(&Postgres).await;
}
