//! Segment codes over a store that fails over to a server without its last writes.

use raindrop_core::{issue::ClaimError, lease::Token, segment::SegmentSpec};
use raindrop_store::{ListedSegment, SegmentStore, Store};
use tokio::time::sleep;

use super::segments::{LONG, Node, World, orders, spec};
use crate::{GivenBack, IssueError, SegmentSettings, UnavailableReason};

/// How many numbers a fail-over skips.
const GAP: u64 = 5_000;

fn with_gap() -> SegmentSettings {
    SegmentSettings { failover_gap: Some(GAP), ..orders() }
}

impl World {
    async fn row(&self, code: &str) -> ListedSegment {
        let segments = self.store.list_segments().await.expect("up");
        segments.into_iter().find(|segment| segment.code == code).expect("there")
    }

    async fn epoch(&self) -> Token {
        let record = self.store.read_record("numbers").await.expect("up");
        record.expect("the record").history.epoch()
    }

    /// Issues on a node until it reserves, and loses all of that in a fail-over. Returns the next
    /// number of the lost ones.
    async fn lose_what_is_issued(&self, node: &Node, identity: &str) -> u64 {
        sleep(LONG).await;
        let held = self.store.snapshot();
        self.issue_all_in_hand(node).await;
        for _ in 0..20 {
            self.issue(node, "order", 7).await;
        }
        sleep(LONG).await;
        let lost = self.next("order").await;
        self.store.fail_over(identity, held);
        lost
    }
}

#[tokio::test(start_paused = true)]
async fn lost_reservations_are_not_issued_again() {
    let world = World::new();
    let nodes = [world.node(with_gap()).await, world.node(with_gap()).await];
    world.issue(&nodes[1], "order", 1).await;
    world.lose_what_is_issued(&nodes[0], "b").await;
    let before = world.row("order").await;
    for round in 0..100 {
        world.issue(&nodes[round % 2], "order", 7).await;
    }
    let after = world.row("order").await;
    assert!(after.next > before.next + GAP, "{after:?}");
    assert!(after.next < before.next + 2 * GAP, "skipped once: {after:?}");
    assert_eq!(after.epoch, world.epoch().await);
    assert!(after.step <= spec().max_step, "what is skipped is no step: {after:?}");
    assert_eq!(nodes[0].epochs() + nodes[1].epochs(), 1);
}

#[tokio::test(start_paused = true)]
async fn each_missed_epoch_skips_a_gap() {
    let world = World::new();
    let node = world.node(with_gap()).await;
    world.issue(&node, "order", 1).await;
    sleep(LONG).await;
    let before = world.row("order").await;
    // Other nodes notice the first fail-over, and this code is not used in between.
    world.store.fail_over("b", world.store.snapshot());
    let other = SegmentSettings::new("numbers").with_code("other", spec());
    let witness = world.node(other).await;
    world.issue(&witness, "other", 1).await;
    world.store.fail_over("c", world.store.snapshot());
    world.issue_all_in_hand(&node).await;
    assert!(world.issue(&node, "order", 1).await[0] >= before.next + 2 * GAP);
}

#[tokio::test(start_paused = true)]
async fn nothing_is_given_back_in_another_epoch() {
    let world = World::new();
    let node = world.node(with_gap()).await;
    world.issue(&node, "order", 1).await;
    sleep(LONG).await;
    // Reservations that other nodes made after this node's may be lost.
    world.store.fail_over("b", world.store.snapshot());
    let before = world.row("order").await;
    let in_hand = node.issuer.status().remaining;
    assert_eq!(node.keeper.release(LONG).await, GivenBack { returned: 0, lost: in_hand });
    assert_eq!(world.row("order").await, before);
    // The node gives numbers back in the epoch in which it reserved them.
    let node = world.node(with_gap()).await;
    let number = world.issue(&node, "order", 1).await[0];
    sleep(LONG).await;
    assert_eq!(node.keeper.release(LONG).await.lost, 0);
    let row = world.row("order").await;
    assert_eq!((row.next, row.epoch), (number + 1, world.epoch().await));
}

#[tokio::test(start_paused = true)]
async fn process_goes_on_above_what_it_had_although_more_was_lost_than_the_gap() {
    let world = World::new();
    let node = world.node(SegmentSettings { failover_gap: Some(1), ..orders() }).await;
    world.issue(&node, "order", 1).await;
    let lost = world.lose_what_is_issued(&node, "b").await;
    // Another node skips only the gap.
    let other = world.node(SegmentSettings { failover_gap: Some(1), ..orders() }).await;
    let first = other.issuer.next_id("order").await.expect("issued").get();
    assert!(first < lost, "{first}");
    world.issue_all_in_hand(&node).await;
    assert!(world.issue(&node, "order", 1).await[0] >= lost);
    assert_eq!(node.issuer.status().reason, None);
}

#[tokio::test(start_paused = true)]
async fn code_that_went_back_goes_on_in_a_new_epoch() {
    let world = World::new();
    let node = world.node(with_gap()).await;
    world.issue(&node, "order", 1).await;
    // The server is the same, so no process knows of a fail-over.
    let before = world.epoch().await;
    let lost = world.lose_what_is_issued(&node, "memory").await;
    world.issue_all_in_hand(&node).await;
    assert!(world.issue(&node, "order", 20).await[0] >= lost);
    assert_ne!(world.epoch().await, before);
}

/// Its block lasts long, so the node would not reserve for some time.
#[tokio::test(start_paused = true)]
async fn process_in_use_looks_whether_its_code_went_back() {
    let world = World::new();
    let node = world.node(with_gap()).await;
    world.issue(&node, "order", 1).await;
    sleep(LONG).await;
    let held = world.store.snapshot();
    world.issue_all_in_hand(&node).await;
    world.issue(&node, "order", 1).await;
    sleep(LONG).await;
    let (before, lost) = (world.epoch().await, world.next("order").await);
    world.store.fail_over("memory", held);
    world.issue(&node, "order", 1).await;
    // Longer than a poll interval.
    sleep(4 * LONG).await;
    assert_ne!(world.epoch().await, before);
    let begun = world.epoch().await;
    assert!(world.issue(&node, "order", 1).await[0] >= lost);
    sleep(8 * LONG).await;
    assert_eq!(world.epoch().await, begun, "once");
}

/// Other nodes' numbers may have been reserved again before a node noticed.
#[tokio::test(start_paused = true)]
async fn new_epoch_drops_the_blocks_in_hand() {
    let world = World::new();
    let (node, other) = (world.node(with_gap()).await, world.node(with_gap()).await);
    world.issue(&node, "order", 1).await;
    let in_hand = world.issue(&other, "order", 1).await[0];
    world.lose_what_is_issued(&node, "memory").await;
    world.issue_all_in_hand(&node).await;
    world.issue(&node, "order", 20).await;
    // Longer than a poll interval.
    sleep(4 * LONG).await;
    assert!(world.issue(&other, "order", 1).await[0] > in_hand + GAP);
}

#[tokio::test(start_paused = true)]
async fn code_whose_creation_was_lost_begins_beyond_the_gap() {
    let world = World::new();
    let on_demand = SegmentSettings {
        auto_create: Some(spec()),
        failover_gap: Some(GAP),
        ..SegmentSettings::new("numbers")
    };
    let node = world.node(on_demand.clone()).await;
    world.issue(&node, "first", 1).await;
    sleep(LONG).await;
    let held = world.store.snapshot();
    assert_eq!(world.issue(&node, "order", 3).await, [1, 2, 3]);
    world.store.fail_over("b", held);
    let next = world.node(on_demand).await;
    assert_eq!(world.issue(&next, "order", 1).await, [1 + GAP]);
}

#[tokio::test(start_paused = true)]
async fn code_with_fewer_numbers_than_the_gap_is_used_up() {
    let world = World::new();
    let short = SegmentSpec { max: 3_000, ..spec() };
    let settings = SegmentSettings { failover_gap: Some(GAP), ..SegmentSettings::new("numbers") };
    let node = world.node(settings.with_code("order", short)).await;
    world.issue(&node, "order", 1).await;
    sleep(LONG).await;
    world.store.fail_over("b", world.store.snapshot());
    world.issue_all_in_hand(&node).await;
    let before = world.row("order").await;
    let error = node.issuer.next_id("order").await.expect_err("used up");
    let IssueError::Refused(ClaimError::SequenceExhausted { .. }) = error else {
        panic!("{error}")
    };
    let status = node.issuer.status();
    let reason = status.reason.expect("a reason");
    assert_eq!((status.issuing, &reason), (true, &UnavailableReason::NumbersSkipped));
    assert!(reason.to_string().contains("failover_gap"), "{reason}");
    assert_eq!(world.row("order").await, before, "another setting may still save it");
}
