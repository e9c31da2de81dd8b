//! Injects faults of processes.

use std::{sync::Arc, time::Duration};

use raindrop::core::{
    id::Id,
    layout::{LayoutSpec, TimeUnit},
};
use rustix::process::Signal;
use tokio::{task::JoinSet, time::sleep};

use crate::{
    cluster::{Cluster, Struck},
    load::Home,
    service::{PATIENCE, client, unix_ms},
    support::poll,
};

const KILLS: usize = 4;
/// The longest time between two kills, and before a process starts again.
const MOMENT: Duration = Duration::from_secs(1);
/// The number of requests that wait for a paused process to wake up; the process that took its row
/// gets as many at that moment.
const AT_ONCE: usize = 16;
/// The number of IDs of each, so that both processes fill one millisecond after the other.
const BATCH: u32 = 10_000;

/// Sends `kill -9` to random processes at random moments.
pub(super) async fn killed(cluster: &mut Cluster) -> Struck {
    let mut victims = Vec::new();
    for _ in 0..KILLS {
        sleep(cluster.moment(MOMENT)).await;
        let down = cluster.moment(MOMENT);
        let victim = cluster.any(0..cluster.members.len());
        cluster.members[victim].replace(Signal::KILL, down).await;
        victims.push(cluster.members[victim].home.clone());
    }
    Struck { times: KILLS, victims }
}

/// Sends SIGTERM to one process after the other.
pub(super) async fn rolling_restart(cluster: &mut Cluster) -> Struck {
    for member in &mut cluster.members {
        member.replace(Signal::TERM, Duration::ZERO).await;
    }
    Struck { times: cluster.members.len(), victims: cluster.all() }
}

/// Pauses a process through its ttl while another takes its row, and for a while both issue.
pub(super) async fn paused(cluster: &mut Cluster) -> Struck {
    let layout = LayoutSpec::for_unit(TimeUnit::Millisecond).build().expect("the default");
    let victim = cluster.any(0..cluster.members.len());
    let (victim, load) = (&cluster.members[victim], &cluster.load);
    let (worker, lane) = (victim.service.worker().await, victim.service.lane().await);
    victim.home.harm();
    victim.service.signal(Signal::STOP);

    // The process is ready only once the swap that took the row is committed.
    let taker = cluster.setup().set("worker.id", worker).start_leased().await;
    let taken = unix_ms();
    let takers_home = load.join(&taker);
    assert_eq!(taker.worker().await, worker);
    assert_ne!(taker.lane().await, lane, "the mark of the lane that is in use is ahead");
    let mut requests = JoinSet::new();
    let mut ask = |home: &Arc<Home>| {
        for _ in 0..AT_ONCE {
            let (load, home) = (Arc::clone(load), home.clone());
            requests.spawn(async move { load.request(&client(), &home, BATCH).await });
        }
    };
    ask(&victim.home);
    poll::until(PATIENCE, "the taker serves", async || {
        (takers_home.served().ids > 1_000).then_some(())
    })
    .await;
    ask(&takers_home);
    victim.service.signal(Signal::CONT);
    requests.join_all().await;
    poll::until(PATIENCE, "the dispossessed finds another row", async || {
        victim.service.has_left(worker).await.then_some(())
    })
    .await;
    victim.home.is_well();

    let is_of_the_lost_lease = |id| {
        let fields = layout.decompose(Id::new(id).expect("63 bits"));
        let issued = layout.start_of_tick_ms(fields.tick);
        (fields.worker, fields.lane) == (worker, lane) && issued > taken
    };
    let issued = load.collected.count_recent(is_of_the_lost_lease);
    assert!(issued > 0, "the woken process issued nothing from the row that it had lost");
    println!("{issued} IDs from a row that another process had taken before");

    takers_home.harm();
    load.leave(&takers_home);
    taker.stop().await;
    Struck { times: 1, victims: vec![victim.home.clone()] }
}
