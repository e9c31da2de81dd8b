//! Nodes whose `lease.window` and `lease.renew` are longer than those of others: the longer times
//! count while a node uses them, and a day longer.

use std::time::Duration;

use raindrop_core::lease::{History, NodeTimes};
use raindrop_store::Store;

use super::world::{Node, World, second, world};
use crate::{KeeperSettings, UnavailableReason};

const HOUR: Duration = Duration::from_hours(1);
const USUAL: NodeTimes = NodeTimes { reach_ms: 320_000, renew_ms: 30_000 };
const LONG: NodeTimes = NodeTimes { reach_ms: 3_620_000, renew_ms: 600_000 };

fn long(settings: &mut KeeperSettings) {
    settings.lease.window = HOUR;
    settings.lease.renew = Duration::from_mins(10);
    settings.lease.ttl = Duration::from_mins(30);
    settings.lease.stale_wait = Duration::from_mins(15);
}

async fn history(world: &World) -> History {
    world.store.read_record("default").await.expect("up").expect("there").history
}

async fn pass_hours(world: &World, hours: u32) {
    world.pass_in_steps(HOUR * hours, second(2)).await;
}

/// Starts a namespace whose first node had long times; the second has the usual times.
async fn slip() -> (World, Node) {
    let world = world();
    let node = world.node_with(long).await;
    world.pass(second(5)).await;
    node.stop().await;
    let node = world.node().await;
    world.pass(second(35)).await;
    assert_eq!(history(&world).await.longest(), LONG);
    (world, node)
}

/// Fails the store over and returns for how many seconds a new node waits for the barrier.
async fn seconds_to_barrier(world: &World) -> i64 {
    world.store.fail_over("b", world.store.snapshot());
    let node = world.start(world.settings());
    world.pass(second(3)).await;
    let reason = node.status().reason;
    let Some(UnavailableReason::FailedOver { due_ms }) = reason else { panic!("{reason:?}") };
    (due_ms - world.now_ms()) / 1_000
}

#[tokio::test(start_paused = true)]
async fn times_that_no_node_uses_fall_a_day_later() {
    let (world, node) = slip().await;
    pass_hours(&world, 24).await;
    assert_eq!(history(&world).await.longest(), LONG);
    // The two times fall one after the other. After the first, the node must read the rest
    // unchanged for two hours.
    pass_hours(&world, 3).await;
    let fallen = history(&world).await;
    assert_eq!(fallen.longest(), USUAL);
    assert!(fallen.reached_ms < world.now_ms());
    world.issue(&node, "order", 100).await;
    assert!((280..=320).contains(&seconds_to_barrier(&world).await));
}

#[tokio::test(start_paused = true)]
async fn times_that_a_node_uses_stay() {
    let (world, usual) = slip().await;
    let node = world.node_with(long).await;
    pass_hours(&world, 30).await;
    let present = history(&world).await;
    assert_eq!(present.longest(), LONG);
    // The node renews every 10 min.
    let used_ms = present.reach.shorter.expect("two nodes").used_ms;
    assert!((0..=70 * 60_000).contains(&(world.now_ms() - used_ms)), "{present:?}");
    assert_eq!((node.status().reason, usual.status().reason), (None, None));
}

/// A backup's record shows an old confirmation. The node with long times reads it within an hour
/// and confirms again.
#[tokio::test(start_paused = true)]
async fn times_do_not_fall_by_a_confirmation_of_a_backup() {
    let (world, _usual) = slip().await;
    let node = world.node_with(long).await;
    let backup = world.store.snapshot();
    pass_hours(&world, 30).await;
    world.store.put_back(backup);
    pass_hours(&world, 1).await;
    assert_eq!(history(&world).await.longest().reach_ms, LONG.reach_ms);
    pass_hours(&world, 3).await;
    assert_eq!(history(&world).await.longest().reach_ms, LONG.reach_ms);
    assert_eq!(node.status().reason, None);
}

/// The instant that leases can reach would stay in the record until that clock is right.
#[tokio::test(start_paused = true)]
async fn times_do_not_fall_by_a_clock_that_is_ahead() {
    let (world, node) = slip().await;
    world.store_clock.step(10 * 24 * 3_600_000);
    pass_hours(&world, 30).await;
    let ahead = history(&world).await;
    assert_eq!((ahead.longest().reach_ms, ahead.reached_ms), (LONG.reach_ms, 0));
    world.store_clock.step(-10 * 24 * 3_600_000);
    pass_hours(&world, 28).await;
    let fallen = history(&world).await;
    assert_eq!(fallen.longest(), USUAL);
    assert!(fallen.reached_ms < world.now_ms(), "{fallen:?}");
    world.issue(&node, "order", 100).await;
}

/// A fleet of equal nodes does not write the record once its nodes lease.
#[tokio::test(start_paused = true)]
async fn equal_nodes_do_not_write_the_record() {
    let world = world();
    let nodes = [world.node().await, world.node().await];
    world.pass(second(60)).await;
    let before = world.store.read_record("default").await.expect("up");
    pass_hours(&world, 5).await;
    assert_eq!(world.store.read_record("default").await.expect("up"), before);
    assert!(nodes.iter().all(|node| node.status().reason.is_none()));
}
