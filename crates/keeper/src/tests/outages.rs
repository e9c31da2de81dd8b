use std::{sync::atomic::Ordering, time::Duration};

use raindrop_core::layout::{LayoutSpec, TimeUnit};

use super::world::{Node, World};
use crate::{LeaseOperation, LeaseOutcome, UnavailableReason};

/// Begins up to 3 s before the last moment at which a renewal is due, so it lasts as much longer.
const OUTAGE: Duration = Duration::from_secs(218);
const STEP: Duration = Duration::from_millis(50);

fn renewals(node: &Node) -> usize {
    node.events.count(LeaseOperation::Renew, LeaseOutcome::Done)
}

async fn until_renewed(world: &World, node: &Node) {
    let before = renewals(node);
    while renewals(node) == before {
        world.pass(STEP).await;
    }
}

/// With the default settings, starting at the worst moment: just before a renewal is due.
#[tokio::test(start_paused = true)]
async fn outage_of_three_and_a_half_minutes_refuses_no_claim() {
    let world = World::new(LayoutSpec::for_unit(TimeUnit::Millisecond));
    let node = world.node().await;
    // Early in the life of a process, and later.
    for renewals_before in [1, 2, 3, 10] {
        while renewals(&node) < renewals_before {
            until_renewed(&world, &node).await;
        }
        // A claim may have asked for another renewal meanwhile.
        world.pass(STEP).await;
        let renewed = renewals(&node);
        world.pass(world.settings().lease.renew * 9 / 10 - 3 * STEP).await;
        assert_eq!(renewals(&node), renewed, "the next renewal is about to come");
        world.store.set_down(true);
        let mut left = OUTAGE;
        while !left.is_zero() {
            world.pass(STEP).await;
            left -= STEP;
            // Panics when the claim is refused.
            world.issue(&node, "order", 20).await;
        }
        assert_eq!(renewals(&node), renewed);
        assert!(matches!(node.status().reason, Some(UnavailableReason::StoreUnavailable { .. })));
        world.store.set_down(false);
        // The node waits until it may trust the store again.
        while renewals(&node) == renewed {
            world.pass(STEP).await;
            world.issue(&node, "order", 20).await;
        }
        world.pass(STEP).await;
        assert_eq!(node.status().reason, None);
    }
}

/// The outage above leaves this part of the window: that test would notice a shorter lease.
#[tokio::test(start_paused = true)]
async fn five_minute_outage_uses_up_the_lease_and_ends_with_a_wait() {
    let world = World::new(LayoutSpec::for_unit(TimeUnit::Millisecond));
    let node = world.node().await;
    until_renewed(&world, &node).await;
    world.store.set_down(true);
    world.pass(Duration::from_secs(299)).await;
    world.issue(&node, "order", 20).await;
    world.pass(Duration::from_secs(2)).await;
    node.issuer.next_ids("order", 20).await.expect_err("the lease is used up");
    world.store.set_down(false);
    // The longest pause between attempts. The store may have been restored meanwhile.
    world.pass(Duration::from_secs(6)).await;
    assert!(matches!(node.status().reason, Some(UnavailableReason::StaleStore { .. })));
    node.issuer.next_ids("order", 20).await.expect_err("it waits");
    world.pass(world.settings().lease.stale_wait).await;
    world.issue(&node, "order", 20).await;
}

/// Pauses grow from 100 ms to 5 s, and start again at 100 ms once the store has answered.
#[tokio::test(start_paused = true)]
async fn retries_back_off_in_each_outage() {
    let world = World::new(LayoutSpec::for_unit(TimeUnit::Millisecond));
    let node = world.node().await;
    let calls = || world.store.unanswered.load(Ordering::SeqCst);
    for _ in 0..2 {
        until_renewed(&world, &node).await;
        let before = calls();
        world.store.set_down(true);
        while calls() == before {
            world.pass(STEP).await;
        }
        world.pass(Duration::from_secs(2)).await;
        let at_first = calls() - before;
        world.pass(Duration::from_secs(60)).await;
        let later = calls() - before - at_first;
        assert!((3..=8).contains(&at_first), "{at_first} calls in the first two seconds");
        assert!((11..=25).contains(&later), "{later} calls in the minute after them");
        world.store.set_down(false);
    }
}

/// A claim that needs more than the first lease has asks for a renewal of its own.
#[tokio::test(start_paused = true)]
async fn renewal_for_a_claim_does_not_postpone_the_scheduled_one() {
    let world = World::new(LayoutSpec::for_unit(TimeUnit::Millisecond));
    let node = world.node().await;
    world.pass(Duration::from_secs(1)).await;
    node.clock.step(6_000);
    world.issue(&node, "order", 1).await;
    world.pass(STEP * 2).await;
    assert_eq!(renewals(&node), 1, "the claim was past half of the lease");
    node.clock.step(-6_000);
    world.pass(Duration::from_secs(3)).await;
    assert!(node.reach_ms() > 290_000, "{}", node.reach_ms());
}
