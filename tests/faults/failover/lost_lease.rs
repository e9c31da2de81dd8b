//! Loses the last renewals of a lease, and lets another node lease the worker id from the former
//! mark.

use std::{sync::Arc, time::Duration};

use rustix::process::Signal;
use tokio::{join, task::JoinSet, time::sleep};

use crate::{
    collected::Collected,
    day_ticks::{USED, issue, issue_what_it_may, setup, until_it_stays_the_same_day},
    load::Load,
    service::{PATIENCE, Setup},
    support::{
        pair::{Pair, Replicated},
        poll,
        proxy::Proxy,
    },
};

const WORKER: u64 = 5;
/// The time after which another node may take the row; on the replica it counts from the last
/// renewal there.
const TTL: Duration = Duration::from_secs(3);
/// A node that issues no IDs for this long waits for something that this test does not wait for.
const IDLE: Duration = TTL.saturating_mul(3);
/// More than a limit reaches beyond the issued IDs, so that the node refuses once it has used them
/// up.
const ENOUGH: usize = 4 * USED;

pub(super) async fn lost_leases(engine: &'static dyn Replicated) {
    join!(
        lease(engine, Holder::Paused, Replication::Complete),
        lease(engine, Holder::Paused, Replication::Stopped),
        lease(engine, Holder::Running, Replication::Stopped),
    );
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Holder {
    /// From before the fail-over until another node has issued.
    Paused,
    /// Throughout. The holder may lease its own row again.
    Running,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Replication {
    Stopped,
    /// The replica has every write, so that marks alone keep the nodes apart.
    Complete,
}

async fn lease(engine: &'static dyn Replicated, state: Holder, replication: Replication) {
    until_it_stays_the_same_day().await;
    let mut pair = Pair::start(engine).await;
    let setup =
        setup(&pair.url()).set("lease.ttl", format!("{}s", TTL.as_secs())).set("worker.id", WORKER);
    let holder = setup.clone().start_leased().await;
    let collected = Collected::default();
    pair.until_caught_up().await;
    if replication == Replication::Stopped {
        pair.stop_replication().await;
    }
    // More than the first limit: the replica lacks the renewals that allowed it.
    issue(&holder, &collected, 2 * USED).await;
    // With one more renewal the holder has range left.
    let renewals = async || {
        holder
            .metric("raindrop_lease_operations_total", "operation=\"renew\",outcome=\"done\"")
            .await
    };
    let before = renewals().await;
    poll::until(PATIENCE, "a renewal", async || (renewals().await > before).then_some(())).await;
    if state == Holder::Paused {
        holder.signal(Signal::STOP);
    }
    if replication == Replication::Complete {
        pair.settle().await;
    }
    pair.kill_primary();
    pair.promote().await;

    let other = setup.start().await;
    let of_other = async || issue_what_it_may(&other, &collected, ENOUGH, IDLE).await;
    let of_holder = async || issue_what_it_may(&holder, &collected, ENOUGH, IDLE).await;
    let (others, own) = if state == Holder::Paused {
        let others = of_other().await;
        holder.signal(Signal::CONT);
        (others, of_holder().await)
    } else {
        join!(of_other(), of_holder())
    };
    let duplicates = collected.duplicates();
    println!(
        "{} · {state:?}, {replication:?} · after the fail-over {own} IDs of the holder, {others} of \
         another node: {duplicates} duplicates of {}",
        engine.name(),
        collected.count(),
    );
    assert!(own > 0, "the holder has range left");
    assert_eq!(duplicates, 0);
}

/// How far leases reach, in a layout of milliseconds.
const WINDOW: Duration = Duration::from_secs(4);
/// The rest between two rushes on both nodes.
const RESTING: Duration = Duration::from_millis(500);

/// Limits are times: the replica's mark is past. That of the holder, which does not find the new
/// primary, is not.
pub(super) async fn holder_of_a_lease_lost_in_time(engine: &'static dyn Replicated) {
    let mut pair = Pair::start(engine).await;
    let way = Proxy::start(&pair.url()).await;
    let setup = Setup::new()
        .set("store.timeout", "1s")
        .set("layout.rollback_bits", 0)
        .set("worker.id", WORKER)
        .set("lease.window", format!("{}s", WINDOW.as_secs()))
        .set("lease.ttl", format!("{}s", TTL.as_secs()))
        .set("lease.renew", "1s")
        .set("lease.max_clock_skew", "500ms");
    let holders = setup.clone().set("store.url", pair.url_through(way.port()));
    let setup = setup.set("store.url", pair.url());
    let load = Arc::new(Load::default());
    let holder = holders.start_leased().await;
    let holders_home = load.join(&holder);
    pair.until_caught_up().await;
    pair.stop_replication().await;
    // The lease in the replica ends.
    sleep(WINDOW + Duration::from_secs(1)).await;
    way.disconnect();
    pair.kill_primary();
    pair.promote().await;

    let other = setup.start().await;
    let others_home = load.join(&other);
    poll::until(PATIENCE, "the holder's range ends", async || {
        let mut requests = JoinSet::new();
        for home in [&holders_home, &others_home] {
            load.rush(home, &mut requests);
        }
        requests.join_all().await;
        sleep(RESTING).await;
        let answer = holder.get("/readyz").await.ok()?;
        (!answer.status().is_success()).then_some(())
    })
    .await;
    // Now both nodes request the row.
    way.point_to(&pair.url());
    let issued = || holders_home.served().ids + others_home.served().ids;
    let before = issued();
    poll::until(PATIENCE, "one of them issues", async || {
        (issued() > before + 10_000).then_some(())
    })
    .await;
    load.stop().await;
    let duplicates = load.collected.duplicates();
    println!(
        "{} · limits are times · {} IDs of the holder, {} of another node: {duplicates} duplicates \
         of {}",
        engine.name(),
        holders_home.served().ids,
        others_home.served().ids,
        load.collected.count(),
    );
    assert_eq!(load.unexpected(), [""; 0]);
    assert_eq!(duplicates, 0);
}
