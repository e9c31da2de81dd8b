use std::time::Duration;

use raindrop_store::Store;

use super::{
    faulty_store::Fault,
    world::{World, world},
};
use crate::{IssueError, LeaseOperation, LeaseOutcome, UnavailableReason};

async fn held_rows(world: &World) -> usize {
    let rows = world.store.list_rows().await.expect("up");
    rows.iter().filter(|listed| !listed.row.free).count()
}

#[tokio::test(start_paused = true)]
async fn acquire_after_lost_reply_is_recognised_by_its_token_and_repeated() {
    let world = world();
    world.store.fail_next(Fault::LostReply);
    let node = world.start(world.settings());
    world.pass(Duration::from_secs(1)).await;
    world.issue(&node, "order", 10).await;
    assert_eq!(held_rows(&world).await, 1);
    assert_eq!(node.events.count(LeaseOperation::Acquire, LeaseOutcome::Unknown), 1);
    assert_eq!(node.events.count(LeaseOperation::Acquire, LeaseOutcome::Done), 1);
}

#[tokio::test(start_paused = true)]
async fn pending_acquire_is_refused_by_the_next_one() {
    let world = world();
    world.store.fail_next(Fault::Late);
    let node = world.start(world.settings());
    world.pass(Duration::from_secs(1)).await;
    world.issue(&node, "order", 10).await;
    assert_eq!(world.store.deliver().await, 0);
    assert_eq!(held_rows(&world).await, 1);
    world.pass(Duration::from_secs(60)).await;
    world.issue(&node, "order", 10).await;
}

#[tokio::test(start_paused = true)]
async fn late_acquire_is_recognised_as_ours() {
    let world = world();
    world.store.fail_next(Fault::Late);
    let node = world.start(world.settings());
    tokio::task::yield_now().await;
    for _ in 0..20 {
        tokio::task::yield_now().await;
    }
    assert_eq!(world.store.deliver().await, 1);
    world.pass(Duration::from_secs(1)).await;
    world.issue(&node, "order", 10).await;
    assert_eq!(held_rows(&world).await, 1);
}

#[tokio::test(start_paused = true)]
async fn renewal_after_lost_reply_keeps_the_lease() {
    for fault in [Fault::NeverArrives, Fault::LostReply, Fault::Late] {
        let world = world();
        let node = world.node().await;
        world.store.fail_next(fault);
        world.pass(Duration::from_secs(5)).await;
        assert!(node.reach_ms() > 290_000, "{fault:?}: {}", node.reach_ms());
        world.store.deliver().await;
        let worker = node.worker();
        for _ in 0..10 {
            world.pass(Duration::from_secs(30)).await;
            world.issue(&node, "order", 100).await;
        }
        assert_eq!(node.worker(), worker, "{fault:?}");
    }
}

/// Earlier writes of the node that took effect meanwhile cause such refusals.
#[tokio::test(start_paused = true)]
async fn refused_renewals_are_repeated_at_once_and_no_failure_of_the_store() {
    let world = world();
    let node = world.node().await;
    world.pass(Duration::from_secs(5)).await;
    (0..15).for_each(|_| world.store.fail_next(Fault::Refused));
    world.until_swap().await;
    world.pass(Duration::from_secs(1)).await;
    assert_eq!(node.events.count(LeaseOperation::Renew, LeaseOutcome::Refused), 15);
    assert_eq!(node.status().reason, None);
    assert!(node.reach_ms() > 298_000, "{}", node.reach_ms());
}

#[tokio::test(start_paused = true)]
async fn ids_continue_up_to_the_limit_and_again_after_the_outage() {
    let world = world();
    let node = world.node().await;
    world.pass(Duration::from_secs(10)).await;
    world.store.set_down(true);
    for _ in 0..28 {
        world.pass(Duration::from_secs(10)).await;
        world.issue(&node, "order", 1_000).await;
    }
    assert!(matches!(node.status().reason, Some(UnavailableReason::StoreUnavailable(_))));
    assert!(node.status().is_issuing());
    world.pass(Duration::from_secs(30)).await;
    let refused = node.issuer.next_id("order").await.expect_err("the limit is reached");
    assert!(
        matches!(
            refused,
            IssueError::NoLease { reason: UnavailableReason::StoreUnavailable(_), .. }
        ),
        "{refused:?}"
    );
    assert!(!node.status().is_issuing());
    world.store.set_down(false);
    world.pass(Duration::from_secs(6) + world.settings().lease.stale_wait).await;
    world.issue(&node, "order", 1_000).await;
    assert_eq!(node.status().reason, None);
}

#[tokio::test(start_paused = true)]
async fn store_down_at_the_start_is_retried() {
    let world = world();
    world.store.set_down(true);
    let node = world.start(world.settings());
    world.pass(Duration::from_secs(20)).await;
    assert!(matches!(
        node.issuer.next_id("order").await,
        Err(IssueError::NoLease { reason: UnavailableReason::StoreUnavailable(_), .. })
    ));
    world.store.set_down(false);
    world.pass(Duration::from_secs(6)).await;
    world.issue(&node, "order", 1).await;
}

#[tokio::test(start_paused = true)]
async fn lease_ends_at_its_limit_while_the_store_shows_nothing() {
    let world = world();
    let node = world.node().await;
    world.pass(Duration::from_secs(5)).await;
    world.store.wipe(true);
    world.pass(Duration::from_secs(60)).await;
    assert!(node.status().reason.is_some());
    world.issue(&node, "order", 10).await;
    let swaps = world.store.swaps.load(std::sync::atomic::Ordering::SeqCst);
    world.pass(Duration::from_secs(300)).await;
    let refused = node.issuer.next_id("order").await.expect_err("the limit is reached");
    assert!(matches!(refused, IssueError::NoLease { .. }), "{refused}");
    assert_eq!(world.store.swaps.load(std::sync::atomic::Ordering::SeqCst), swaps);
}

#[tokio::test(start_paused = true)]
async fn row_read_before_the_record_vanished_is_not_taken() {
    let world = world();
    world.store.wipe_after_rows();
    let node = world.start(world.settings());
    world.pass(Duration::from_secs(1)).await;
    assert_eq!(world.store.swaps.load(std::sync::atomic::Ordering::SeqCst), 0);
    assert!(node.status().reason.is_some());
    world.store.wipe(false);
    world.pass(Duration::from_secs(10)).await;
    world.issue(&node, "order", 1).await;
}
