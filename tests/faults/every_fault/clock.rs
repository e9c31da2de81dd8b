//! Injects clocks that step at run time, there and back again.

use crate::{
    cluster::{Cluster, Member, Struck, WITH_CLOCK},
    service::PATIENCE,
    support::poll,
};

const SECONDS: f64 = 5.0;
const HOURS: f64 = 7_200.0;

/// Steps a clock back: the process leases another lane or another worker, and keeps serving when
/// the clock returns.
pub(super) async fn back_by_seconds(cluster: &mut Cluster) -> Struck {
    back(cluster, SECONDS).await
}

pub(super) async fn back_by_hours(cluster: &mut Cluster) -> Struck {
    back(cluster, HOURS).await
}

/// Steps a clock ahead, less than leases reach; the way back is a step back.
pub(super) async fn ahead_by_seconds(cluster: &mut Cluster) -> Struck {
    let victim = cluster.any(WITH_CLOCK);
    let victim = &cluster.members[victim];
    victim.service.shift_clock(SECONDS);
    until_issued(victim, 5_000).await;
    let moves = moves(victim).await;
    victim.service.shift_clock(0.0);
    until_moved(victim, moves).await;
    until_issued(victim, 5_000).await;
    Struck { times: 1, victims: vec![victim.home.clone()] }
}

/// Steps a clock beyond the limit: the process issues nothing and uses up nothing.
pub(super) async fn ahead_by_hours(cluster: &mut Cluster) -> Struck {
    let victim = cluster.any(WITH_CLOCK);
    let victim = &cluster.members[victim];
    let (worker, lane) = (victim.service.worker().await, victim.service.lane().await);
    victim.service.shift_clock(HOURS);
    poll::until(PATIENCE, "the limit stops issuing", async || {
        let (_, problem) = victim.service.json("/id/order").await;
        (problem["code"] == "lease_unavailable").then_some(())
    })
    .await;
    let refused = victim.renewals("clock_ahead").await;
    victim.until_renewals("clock_ahead", refused + 1.0).await;
    assert!(cluster.load.figures().refused > 0, "the clients were told");
    victim.service.shift_clock(0.0);
    until_issued(victim, 5_000).await;
    assert_eq!((victim.service.worker().await, victim.service.lane().await), (worker, lane));
    Struck { times: 1, victims: vec![victim.home.clone()] }
}

async fn back(cluster: &mut Cluster, seconds: f64) -> Struck {
    let victim = cluster.any(WITH_CLOCK);
    let victim = &cluster.members[victim];
    let before = moves(victim).await;
    victim.service.shift_clock(-seconds);
    until_moved(victim, before).await;
    until_issued(victim, 5_000).await;
    victim.service.shift_clock(0.0);
    until_issued(victim, 5_000).await;
    Struck { times: 1, victims: vec![victim.home.clone()] }
}

/// Returns how often the process leased another lane or another worker because the clock went back.
async fn moves(victim: &Member) -> f64 {
    let count =
        async |action| victim.service.metric("raindrop_clock_rollbacks_total", action).await;
    count("action=\"rotated\"").await + count("action=\"swapped\"").await
}

async fn until_moved(victim: &Member, before: f64) {
    poll::until(PATIENCE, "another lane or worker is leased", async || {
        (moves(victim).await > before).then_some(())
    })
    .await;
}

async fn until_issued(victim: &Member, more: usize) {
    let enough = victim.home.served().ids + more;
    poll::until(PATIENCE, "the victim issues", async || {
        (victim.home.served().ids > enough).then_some(())
    })
    .await;
}
