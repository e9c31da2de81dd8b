//! Injects every fault on each engine, one after the other, on a cluster that lives through all of
//! them.
//!
//! `ROUNDS=5` injects each five times, and then the load must have been real; `SEED=…` repeats the
//! random choices of an earlier run.

mod clock;
mod database;
mod processes;

use crate::{
    cluster::Cluster,
    service::{PATIENCE, from_environment},
    support::{
        kubernetes::Kubernetes, mariadb::Mariadb, poll, postgres::Postgres, redis::Redis,
        server::Engine,
    },
};

/// The IDs that each round must issue on each engine.
const IDS: u64 = 1_000_000;
/// The IDs that a victim must issue in a second, in a run of several rounds.
const IDS_PER_SECOND: f64 = 1_000.0;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn on_mariadb() {
    every_fault(&Mariadb).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn on_postgresql() {
    every_fault(&Postgres).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn on_redis() {
    every_fault(&Redis).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "make kubernetes-test"]
async fn on_kubernetes() {
    every_fault(&Kubernetes).await;
}

async fn every_fault(engine: &'static dyn Engine) {
    let rounds = from_environment("ROUNDS").unwrap_or(1);
    let seed = from_environment("SEED").unwrap_or_else(rand::random);
    println!("{} · SEED={seed} ROUNDS={rounds}", engine.name());
    let mut cluster = Cluster::start(engine, seed).await;
    for round in 1..=rounds {
        println!("{} · round {round} of {rounds}", engine.name());
        cluster.suffer("process killed", processes::killed).await;
        cluster.suffer("process paused, its row taken", processes::paused).await;
        cluster.suffer("rolling restart", processes::rolling_restart).await;
        cluster.suffer("clock back by 5 s", clock::back_by_seconds).await;
        cluster.suffer("clock ahead by 5 s", clock::ahead_by_seconds).await;
        // A Redis that restarts begins an epoch. No lease of a later epoch begins so early that a
        // node whose clock is hours behind could use it.
        if round == 1 || engine.name() != Redis.name() {
            cluster.suffer("clock back by 2 h", clock::back_by_hours).await;
        }
        cluster.suffer("clock ahead by 2 h", clock::ahead_by_hours).await;
        cluster.suffer("database killed", database::killed).await;
        cluster.suffer("database restarted in order", database::restarted).await;
        cluster.suffer("database frozen", database::frozen).await;
        cluster.suffer("database unreachable for longer than leases reach", database::away).await;
        cluster.suffer("connections cut", database::cut).await;
        cluster.suffer("answers lost, writes late", database::lost_and_late).await;
    }
    let enough = IDS * rounds;
    poll::until(PATIENCE, "enough IDs", async || {
        (cluster.load.collected.count() as u64 >= enough).then_some(())
    })
    .await;
    cluster.load.stop().await;
    println!("\n{}", cluster.report);
    assert_eq!(cluster.load.unexpected(), [""; 0]);
    assert_eq!(cluster.load.collected.duplicates(), 0);
    if rounds > 1 {
        for row in cluster.report.rows() {
            assert!(row.ids_per_second >= IDS_PER_SECOND, "{row:?}");
        }
    }
}
