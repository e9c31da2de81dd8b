//! Several epochs between two checks by a node, more epochs than a record remembers, and processes
//! that know an epoch which the record lacks.

use std::time::Duration;

use raindrop_core::preset::Preset;
use raindrop_store::Store as _;

use super::world::{Node, World, second, world};
use crate::{Backfill, KeeperSettings, LeaseOperation, LeaseOutcome, state_file::MemoryDisk};

const WINDOW: Duration = Duration::from_mins(5);
/// Each raise begins two epochs, and a record remembers eight.
const RAISES: usize = 5;

async fn raise(world: &World) {
    let mut operator = world.operator(world.settings());
    for _ in 0..RAISES {
        operator.raise(WINDOW).await.expect("up");
    }
}

/// Starts a process on the disk, and waits until it has found its lease.
async fn start(world: &World, disk: &MemoryDisk, worker: u64) -> Node {
    let settings = KeeperSettings { state_file: Some(disk.open()), ..world.only(worker) };
    let node = world.start(settings);
    world.pass(Duration::from_millis(100)).await;
    node
}

#[tokio::test(start_paused = true)]
async fn epochs_that_the_record_forgot_begin_no_more() {
    let world = world();
    let mut nodes = Vec::new();
    for _ in 0..14 {
        nodes.push(world.node().await);
    }
    world.pass(second(40)).await;
    raise(&world).await;
    let epoch = world.epoch().await;
    world.pass(second(360)).await;
    assert_eq!(world.epoch().await, epoch);
    for node in &nodes {
        assert_eq!((node.events.epochs(), node.status().reason), (0, None));
        world.issue(node, "order", 10).await;
    }
}

#[tokio::test(start_paused = true)]
async fn ids_for_a_past_time_after_many_epochs_close_no_more_ticks() {
    let world = World::new(Preset::Yitter.spec());
    let node = world.node().await;
    let backfill = Backfill::new(world.settings(), world.store.clone(), &node.issuer);
    world.pass(second(30)).await;
    backfill.ids("order", 1, world.now_ms() - 5_000).await.expect("one");
    raise(&world).await;
    let before = world.store.read_record("default").await.expect("up").expect("a record");
    world.pass(second(400)).await;
    backfill.ids("order", 1, world.now_ms() - 5_000).await.expect("one");
    let after = world.store.read_record("default").await.expect("up").expect("a record");
    assert_eq!((node.events.epochs(), after.since_tick), (0, before.since_tick));
    assert_eq!(after.history.epoch(), before.history.epoch());
}

#[tokio::test(start_paused = true)]
async fn resumed_process_begins_no_epoch_because_its_own_is_forgotten() {
    let (world, disk) = (world(), MemoryDisk::default());
    let node = start(&world, &disk, 5).await;
    world.pass(second(60)).await;
    disk.kill();
    drop(node);
    raise(&world).await;
    let node = start(&world, &disk, 5).await;
    world.pass(second(400)).await;
    assert_eq!((node.events.epochs(), node.status().reason.clone()), (0, None));
    world.issue(&node, "order", 10).await;
}

/// Both know the lost epoch only from their state files.
#[tokio::test(start_paused = true)]
async fn processes_that_resume_in_a_lost_epoch_begin_one_together() {
    let world = world();
    let disks = [MemoryDisk::default(), MemoryDisk::default()];
    let mut nodes = Vec::new();
    for (worker, disk) in (5..).zip(&disks) {
        nodes.push(start(&world, disk, worker).await);
    }
    let backup = world.store.snapshot();
    world.operator(world.settings()).raise(WINDOW).await.expect("up");
    world.pass(second(360)).await;
    for (node, disk) in nodes.drain(..).zip(&disks) {
        world.issue(&node, "order", 10).await;
        disk.kill();
        drop(node);
    }
    world.fail_over("memory", backup);
    for (worker, disk) in (5..).zip(&disks) {
        nodes.push(start(&world, disk, worker).await);
    }
    world.pass(second(400)).await;
    let began: u64 = nodes.iter().map(|node| node.events.epochs()).sum();
    assert_eq!(began, 1);
    for node in &nodes {
        world.issue(node, "order", 10).await;
    }
}

/// Each node checks the store once in 30 s, and each start of Redis begins an epoch.
#[tokio::test(start_paused = true)]
async fn nodes_go_on_over_several_restarts_between_two_checks() {
    let world = world();
    let mut nodes = Vec::new();
    for _ in 0..5 {
        nodes.push(world.node().await);
        world.pass(second(6)).await;
    }
    world.pass(second(60)).await;
    for restart in 1..=5 {
        world.fail_over(&format!("start {restart}"), world.store.snapshot());
        world.pass(second(7)).await;
    }
    let began: u64 = nodes.iter().map(|node| node.events.epochs()).sum();
    assert_eq!(began, 5);
    // Past the barrier of each epoch.
    for _ in 0..400 {
        world.pass(second(1)).await;
        for node in &nodes {
            world.issue(node, "order", 3).await;
        }
    }
    for node in &nodes {
        assert_eq!(node.events.count(LeaseOperation::Acquire, LeaseOutcome::Done), 1);
    }
}
