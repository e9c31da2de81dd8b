//! Nodes recover after their store or clock has changed.

use std::time::Duration;

use raindrop_core::lease::{HighWaterMarks, RowExpiry, RowWrite, Token};
use raindrop_store::Store;

use super::{
    faulty_store::Fault,
    world::{NOW, Node, World, second, world},
};
use crate::{LeaseOperation, LeaseOutcome, Released, RollbackAction, UnavailableReason};

fn lose_everything(world: &World) {
    for worker in 0..512 {
        world.store.lose_row(&world.scope(), worker);
    }
    world.store.lose_record("default");
}

/// A spare that waits for a row has seen that other nodes hold rows.
#[tokio::test(start_paused = true)]
async fn waiting_spare_does_not_recreate_an_emptied_namespace() {
    let world = world();
    let holder = world.start(world.only(0));
    holder.issuer.leased().await;
    let spare = world.start(world.only(0));
    world.pass(second(40)).await;
    lose_everything(&world);
    for _ in 0..400 {
        world.pass(Duration::from_millis(50)).await;
        for node in [&holder, &spare] {
            if let Ok(ids) = node.issuer.next_ids("order", 1000).await {
                world.check("order", ids.collect());
            }
        }
    }
}

/// The only row has a mark ahead, and no node holds one: an emptied namespace is a new one.
#[tokio::test(start_paused = true)]
async fn only_node_that_waits_uses_an_emptied_namespace() {
    let world = world();
    let first = world.start(world.only(0));
    first.issuer.leased().await;
    let taken = world.row(0).await;
    let ahead = RowWrite {
        token: Token::from_bits(77),
        epoch: world.epoch().await,
        holder: taken.holder,
        lane: taken.lane,
        marks: HighWaterMarks::all_at(taken.marks[0] << 8, taken.marks.lanes()),
        expiry: RowExpiry::Released,
    };
    drop(first);
    assert!(world.store.swap_row(&world.scope(), 0, taken.token, &ahead).await.expect("up"));
    let node = world.start(world.only(0));
    world.pass(second(5)).await;
    assert!(matches!(node.status().reason, Some(UnavailableReason::NoFreeWorker { .. })));
    lose_everything(&world);
    world.pass(second(60)).await;
    // The epoch that the node knew is lost, so lost leases may reach as far as the barrier.
    assert!(matches!(node.status().reason, Some(UnavailableReason::FailedOver { .. })));
    world.pass(second(270)).await;
    assert!(node.status().is_issuing(), "{:?}", node.status());
}

/// Steps the node's clock back, and loses the reply to the rotation that follows.
async fn rotate_with_lost_reply(world: &World, node: &Node) {
    world.pass(second(5)).await;
    let lane = node.lane();
    world.issue(node, "order", 10).await;
    world.store.fail_next(Fault::LostReply);
    node.clock.step(-5_000);
    let _ = node.issuer.next_id("order").await;
    world.pass(second(4)).await;
    assert_ne!(node.lane(), lane);
}

/// A rotation whose reply was lost is not followed by a change of worker.
#[tokio::test(start_paused = true)]
async fn settled_rotation_is_not_repeated() {
    let world = world();
    let node = world.node().await;
    let worker = node.worker();
    rotate_with_lost_reply(&world, &node).await;
    assert_eq!(node.events.rollbacks().last(), Some(&RollbackAction::Rotated));
    assert_eq!(node.worker(), worker);
}

/// The same holds if no other worker is free.
#[tokio::test(start_paused = true)]
async fn settled_rotation_is_not_reported_as_refused() {
    let world = world();
    let node = world.start(world.only(5));
    node.issuer.leased().await;
    rotate_with_lost_reply(&world, &node).await;
    assert!(!node.events.rollbacks().contains(&RollbackAction::Refused));
}

/// The row was deleted, and added again with marks beyond every lease.
#[tokio::test(start_paused = true)]
async fn holder_of_a_recreated_row_keeps_issuing() {
    let world = world();
    let node = world.node().await;
    world.pass(second(40)).await;
    let worker = node.worker();
    world.store.lose_row(&world.scope(), worker);
    let other = world.node().await;
    world.pass(second(400)).await;
    world.issue(&other, "order", 1).await;
    world.issue(&node, "order", 1).await;
}

/// The store refuses every write of such a row, so its holder leases another one at once.
#[tokio::test(start_paused = true)]
async fn holder_of_a_row_that_cannot_be_read_leases_another_one() {
    let world = world();
    let node = world.node().await;
    world.pass(second(40)).await;
    let worker = node.worker();
    world.store.damage(Some(worker));
    for _ in 0..10 {
        world.pass(second(40)).await;
        world.issue(&node, "order", 1).await;
        assert_ne!(node.worker(), worker);
        assert_eq!(node.status().reason, None);
    }
}

/// With a fixed worker id there is no other row. The node issues again once the row is repaired.
#[tokio::test(start_paused = true)]
async fn holder_of_the_only_row_waits_until_it_can_be_read() {
    let world = world();
    let node = world.start(world.only(5));
    node.issuer.leased().await;
    world.pass(second(40)).await;
    world.store.damage(Some(5));
    world.pass(second(40)).await;
    let refused = node.issuer.next_id("order").await;
    assert!(refused.is_err() && node.status().reason.is_some(), "{refused:?}");
    world.store.damage(None);
    world.pass(second(400)).await;
    world.issue(&node, "order", 1).await;
    assert_eq!(node.worker(), 5);
}

/// The token decides, so a value that cannot be read costs no lease: the next write repairs it.
#[tokio::test(start_paused = true)]
async fn holder_of_a_row_with_a_value_that_cannot_be_read_repairs_it() {
    for lost_reply in [None, Some(Fault::NeverArrives), Some(Fault::LostReply)] {
        let world = world();
        let mut settings = world.only(5);
        settings.lease.stale_wait = Duration::ZERO;
        let node = world.start(settings);
        node.issuer.leased().await;
        world.pass(second(40)).await;
        if let Some(fault) = lost_reply {
            world.store.fail_next(fault);
            world.until_swap().await;
        }
        world.store.damage_value(5);
        // The node reads its row before it renews: it may not write with this clock.
        node.clock.step(20_000);
        world.pass(second(35)).await;
        node.clock.step(-20_000);
        for _ in 0..4 {
            world.pass(second(20)).await;
            if lost_reply != Some(Fault::LostReply) {
                world.issue(&node, "order", 1).await;
                assert_eq!((node.worker(), node.status().reason), (5, None), "{lost_reply:?}");
            }
        }
        match lost_reply {
            // The write took place, and a person changed the row after it: no swap can.
            Some(Fault::LostReply) => {
                assert_eq!(node.status().lease, None);
                assert_eq!(world.store.damaged(5), Some("heartbeat_at"));
            }
            _ => {
                assert_eq!(world.store.damaged(5), None, "{lost_reply:?}");
                assert_eq!(node.events.count(LeaseOperation::Acquire, LeaseOutcome::Done), 1);
            }
        }
    }
}

/// A search keeps to the row that its write may still take, although it cannot read that row.
#[tokio::test(start_paused = true)]
async fn search_takes_the_row_of_its_lost_write_although_it_cannot_be_read() {
    let world = world();
    world.node().await.stop().await;
    world.store.fail_next(Fault::NeverArrives);
    let node = world.start(world.only(5));
    world.until_swap().await;
    world.store.damage_value(5);
    world.pass(second(20)).await;
    world.issue(&node, "order", 1).await;
    assert_eq!((node.worker(), world.store.damaged(5)), (5, None));
}

/// Both the rotation and its repetition were visible.
#[tokio::test(start_paused = true)]
async fn release_after_a_rotation_seen_twice_has_true_marks() {
    let world = world();
    let node = world.start(world.only(5));
    node.issuer.leased().await;
    world.pass(second(10)).await;
    let lane = usize::try_from(node.lane()).expect("few");
    world.issue(&node, "order", 10).await;
    world.store.hang_the_log();
    node.clock.step(-5_000);
    let _ = node.issuer.next_id("order").await;
    world.pass(second(3)).await;
    world.store.forgive();
    world.store.fail_next(Fault::LostReply);
    assert_eq!(node.stop().await, Released::Done);
    let row = world.row(5).await;
    let layout = world.settings().layout;
    let ahead = layout.start_of_tick_ms(layout.tick_of(row.marks[lane])) - NOW;
    assert!(ahead < 60_000, "the mark of the lane that was left is {ahead} ms after the start");
}

/// Like a move to another layout that is reverted.
#[tokio::test(start_paused = true)]
async fn waiting_spare_recovers_from_a_foreign_record() {
    let world = world();
    let holder = world.start(world.only(0));
    holder.issuer.leased().await;
    let mut spare = world.start(world.only(0));
    world.pass(second(10)).await;
    let words = world.store.swap_layout("another layout").await;
    world.pass(second(12)).await;
    world.store.swap_layout(&words).await;
    world.pass(second(20)).await;
    let failed = tokio::time::timeout(second(5), spare.keeper.failed()).await;
    assert!(failed.is_err());
    let reason = spare.status().reason;
    assert!(matches!(reason, Some(UnavailableReason::NoFreeWorker { .. })), "{reason:?}");
}

/// The record has shown the node that the namespace has another layout now.
#[tokio::test(start_paused = true)]
async fn node_without_a_lease_writes_no_record_of_a_layout_that_was_left() {
    let world = world();
    let empty = world.store.backup();
    let node = world.start(world.only(0));
    node.issuer.leased().await;
    world.pass(second(40)).await;
    // The node drops its lease, and then finds no record.
    node.clock.step(600_000);
    world.pass(second(400)).await;
    world.store.lose_record("default");
    world.pass(second(12)).await;
    world.record("default", "another layout", &[]).await;
    world.pass(second(12)).await;
    world.store.put_back(empty);
    world.pass(second(60)).await;
    assert!(world.store.read_record("default").await.expect("up").is_none());
    assert_eq!(node.status().reason, Some(UnavailableReason::StoreLost));
}
