//! Tests servers that answer late, and more nodes than a server has connections.

use std::{sync::Arc, time::Duration};

use raindrop::{
    core::{
        clock::{Clock as _, SystemClock},
        preset::Preset,
    },
    keeper::{Issuer, Keeper, KeeperSettings, NoObserver, Released},
    store::{StoreSettings, connect},
};
use tokio::time::timeout;

use crate::support::{
    mariadb::Mariadb,
    poll,
    postgres::Postgres,
    proxy::Proxy,
    redis::Redis,
    server::{Engine, Server},
};

/// How long nodes may take on a machine that is busy with other tests.
const PATIENCE: Duration = Duration::from_secs(300);
/// How long a node may take to release its row.
const STOPPING: Duration = Duration::from_secs(30);
/// A lease reaches this far only from its first renewal on.
const RENEWED_MS: i64 = 60_000;

/// A node with the default settings.
fn start(url: &str, holder: String) -> (Keeper, Issuer) {
    let layout = Preset::Raindrop.spec().build().expect("a preset is valid");
    let clock = Arc::new(SystemClock::default());
    let store = connect(&StoreSettings::new(url), clock.clone()).expect("usable settings");
    Keeper::start(KeeperSettings::new(layout, holder), store, clock, Arc::new(NoObserver))
}

/// Waits until a node has leased a worker and renewed the lease.
async fn renewed(issuer: &Issuer) {
    timeout(PATIENCE, issuer.leased()).await.expect("a lease");
    poll::until(PATIENCE, "a renewal", async || {
        let beyond = SystemClock::default().now_ms() + RENEWED_MS;
        issuer.status().lease.is_some_and(|lease| lease.valid_until_ms > beyond).then_some(())
    })
    .await;
}

async fn leases_and_renews(engine: &'static dyn Engine, late: Duration) {
    let server = Server::start(engine).await;
    let url = server.database().await;
    let proxy = Proxy::start(&url).await;
    proxy.delay(late);
    let late_url = url.replace(&format!(":{}/", server.port()), &format!(":{}/", proxy.port()));
    let (keeper, issuer) = start(&late_url, "late".to_owned());
    renewed(&issuer).await;
    assert_eq!(keeper.release(STOPPING).await, Released::Done);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn node_of_a_late_mariadb_leases_and_renews() {
    leases_and_renews(&Mariadb, Duration::from_millis(400)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn node_of_a_late_postgres_leases_and_renews() {
    leases_and_renews(&Postgres, Duration::from_millis(400)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn node_of_a_late_redis_leases_and_renews() {
    leases_and_renews(&Redis, Duration::from_millis(900)).await;
}

/// The nodes start at once on a server with fewer connections than nodes.
async fn three_hundred_nodes_renew(engine: &'static dyn Engine, connections: &[&str]) {
    let arguments = connections.iter().map(ToString::to_string).collect();
    let server = Server::start_with(engine, arguments).await;
    let url = server.database().await;
    let nodes: Vec<_> = (0..300).map(|node| start(&url, format!("node-{node}"))).collect();
    for (_, issuer) in &nodes {
        renewed(issuer).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn three_hundred_nodes_renew_on_a_mariadb_with_151_connections() {
    three_hundred_nodes_renew(&Mariadb, &["--max-connections=151"]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn three_hundred_nodes_renew_on_a_postgres_with_100_connections() {
    three_hundred_nodes_renew(&Postgres, &["-c", "max_connections=100"]).await;
}
