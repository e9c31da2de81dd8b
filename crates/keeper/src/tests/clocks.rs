use std::time::Duration;

use raindrop_core::{
    clock::Clock,
    issue::{ClaimError, RollbackPolicy},
    layout::{LayoutSpec, TimeUnit},
    lease::{RowExpiry, RowWrite, Token},
};
use raindrop_store::Store;

use super::{
    faulty_store::Fault,
    world::{NOW, Node, World, second},
};
use crate::{
    IssueError, KeeperSettings, LeaseOperation, LeaseOutcome, RollbackAction, UnavailableReason,
};

fn world(rollback_bits: u32) -> World {
    World::new(LayoutSpec { rollback_bits, ..LayoutSpec::for_unit(TimeUnit::Millisecond) })
}

/// Returns a node that has renewed once and has just issued.
async fn settled(world: &World, change: impl FnOnce(&mut KeeperSettings)) -> Node {
    let node = world.node_with(change).await;
    world.pass(second(5)).await;
    world.issue(&node, "order", 10).await;
    node
}

/// Asserts that the mark is at most a window and the skew ahead of the store's clock.
async fn assert_mark_within_window(world: &World, node: &Node) {
    let layout = node.issuer.layout();
    let mark = world.row(node.worker()).await.marks.iter().max().expect("two lanes");
    let ahead_ms = layout.start_of_tick_ms(layout.tick_of(mark)) - world.store_clock.now_ms();
    assert!(ahead_ms <= 310_000, "{ahead_ms}");
}

/// Asserts that the node moves to lane 1 and issues there.
async fn assert_rotates_once(world: &World, node: &Node) {
    world.issue(node, "order", 1).await;
    world.pass(second(5)).await;
    world.issue(node, "order", 1).await;
    assert_eq!(node.lane(), 1);
    assert_eq!(node.events.rollbacks(), [RollbackAction::Held, RollbackAction::Rotated]);
}

#[tokio::test(start_paused = true)]
async fn small_rollback_is_held() {
    let world = world(1);
    let node = settled(&world, |_| {}).await;
    node.clock.step(-900);
    for _ in 0..20 {
        world.issue(&node, "order", 500).await;
        world.pass(Duration::from_millis(50)).await;
    }
    assert_eq!(node.events.rollbacks(), [RollbackAction::Held]);
    assert_eq!(node.lane(), 0);
}

#[tokio::test(start_paused = true)]
async fn large_rollback_rotates_without_refusing_claims() {
    let world = world(1);
    let node = settled(&world, |_| {}).await;
    let worker = node.worker();
    node.clock.step(-120_000);
    for _ in 0..20 {
        world.issue(&node, "order", 100).await;
        world.pass(Duration::from_millis(50)).await;
    }
    assert_eq!((node.worker(), node.lane()), (worker, 1));
    assert_eq!(node.events.rollbacks(), [RollbackAction::Held, RollbackAction::Rotated]);
    let layout = node.issuer.layout().clone();
    let id = world.issue(&node, "order", 1).await[0];
    assert!(layout.decompose(id).tick <= layout.tick_clamped(node.clock.now_ms()));
    // By now the store has the lowered mark of the lane that was left; its limit was far ahead.
    world.pass(second(2)).await;
    let row = world.row(worker).await;
    assert!(layout.start_of_tick_ms(layout.tick_of(row.marks[0])) < NOW + 10_000);
    assert!(layout.start_of_tick_ms(layout.tick_of(row.marks[1])) > NOW + 100_000);
}

/// The lease starts where the one before has just ended: hours ahead of the clock.
#[tokio::test(start_paused = true)]
async fn rollback_before_the_first_claim_rotates_too() {
    let world = world(1);
    let only_one = |settings: &mut KeeperSettings| settings.max_worker = 1;
    settled(&world, only_one).await.stop().await;
    world.pass(Duration::from_millis(50)).await;
    let node = world.node_with(only_one).await;
    node.clock.step(-7_200_000);
    assert_rotates_once(&world, &node).await;
}

/// A lease that starts below the clock after the step can issue there.
#[tokio::test(start_paused = true)]
async fn rollback_before_the_first_claim_costs_no_lane_that_issues() {
    let world = world(1);
    let node = world.node().await;
    node.clock.step(-5_000);
    world.issue(&node, "order", 1).await;
    world.pass(second(5)).await;
    assert_eq!((node.lane(), node.events.rollbacks()), (0, vec![]));
}

#[tokio::test(start_paused = true)]
async fn rollback_without_a_usable_lane_swaps_the_worker_and_releases_the_row() {
    for (bits, policy) in [(0, RollbackPolicy::Rotate), (1, RollbackPolicy::Swap)] {
        let world = world(bits);
        let node = settled(&world, |settings| settings.issue.rollback = policy).await;
        let worker = node.worker();
        node.clock.step(-120_000);
        for _ in 0..20 {
            world.issue(&node, "order", 100).await;
            world.pass(Duration::from_millis(50)).await;
        }
        assert_ne!(node.worker(), worker);
        assert_eq!(node.events.rollbacks(), [RollbackAction::Held, RollbackAction::Swapped]);
        let row = world.row(worker).await;
        assert!(row.free);
        let layout = node.issuer.layout();
        assert!(layout.start_of_tick_ms(layout.tick_of(row.marks[0])) < NOW + 10_000);
    }
}

#[tokio::test(start_paused = true)]
async fn rollback_without_lane_or_worker_refuses_claims_until_the_clock_caught_up() {
    for (bits, policy) in [(0, RollbackPolicy::Rotate), (1, RollbackPolicy::Wait)] {
        let world = world(bits);
        let node = settled(&world, |settings| {
            settings.issue.rollback = policy;
            settings.max_worker = 1;
        })
        .await;
        node.clock.step(-20_000);
        // Holding may continue until the keeper has found that no other lane or worker is free.
        let _ = node.issuer.next_ids("order", 1).await;
        world.pass(second(1)).await;
        let refused = node.issuer.next_id("order").await.expect_err("refused");
        assert!(
            matches!(
                refused,
                IssueError::Refused(ClaimError::ClockRollback { behind_ms: 18_000..=20_000, .. })
            ),
            "{refused:?}"
        );
        assert_eq!(node.status().reason, Some(UnavailableReason::ClockWentBack));
        assert!(!node.status().is_issuing());
        let actions = node.events.rollbacks();
        assert_eq!(actions.iter().filter(|action| **action == RollbackAction::Refused).count(), 1);
        world.pass(second(22)).await;
        world.issue(&node, "order", 10).await;
        world.pass(second(5)).await;
        assert_eq!(node.status().reason, None);
    }
}

#[tokio::test(start_paused = true)]
async fn consecutive_rollbacks_use_lanes_with_lowered_marks() {
    let world = world(1);
    let node = settled(&world, |settings| settings.max_worker = 1).await;
    for round in 0..6 {
        node.clock.step(-10_000);
        world.issue(&node, "order", 100).await;
        world.pass(second(15)).await;
        world.issue(&node, "order", 100).await;
        assert_eq!(node.lane(), (round + 1) % 2);
    }
    let rotated = node.events.rollbacks();
    let rotated = rotated.iter().filter(|action| **action == RollbackAction::Rotated);
    assert_eq!(rotated.count(), 6);
}

#[tokio::test(start_paused = true)]
async fn forward_jump_beyond_the_window_leaves_the_marks_alone() {
    let world = world(1);
    let node = settled(&world, |_| {}).await;
    let mark = world.row(node.worker()).await.marks[0];
    node.clock.step(3_600_000);
    let refused = node.issuer.next_id("order").await.expect_err("beyond the limit");
    assert!(
        matches!(
            refused,
            IssueError::NoLease { reason: UnavailableReason::ClockAhead(3_600_000), .. }
        ),
        "{refused:?}"
    );
    world.pass(second(20)).await;
    assert!(node.events.count(LeaseOperation::Renew, LeaseOutcome::ClockAhead) > 0);
    assert_eq!(world.row(node.worker()).await.marks[0], mark);
    node.clock.step(-3_600_000);
    world.issue(&node, "order", 10).await;
    world.pass(second(5)).await;
    assert_eq!((node.lane(), node.status().reason.clone()), (0, None));
    assert_eq!(node.events.rollbacks(), []);
}

/// Issues under a clock that jumps ahead and then goes back, these many ms each, until the node has
/// leased its other lane.
async fn issue_ahead_and_back(world: &World, node: &Node, ahead_ms: i64, back_ms: i64) {
    node.clock.step(ahead_ms);
    world.issue(node, "order", 100).await;
    node.clock.step(-back_ms);
    for _ in 0..20 {
        world.issue(node, "order", 100).await;
        world.pass(Duration::from_millis(50)).await;
    }
    assert_eq!(node.lane(), 1);
}

#[tokio::test(start_paused = true)]
async fn forward_jump_inside_the_window_keeps_issuing_there_and_back() {
    let world = world(1);
    let node = settled(&world, |_| {}).await;
    issue_ahead_and_back(&world, &node, 60_000, 60_000).await;
}

/// The clock goes back only part of the way that it had jumped. A lane that is leased then does not
/// make it a right clock.
#[tokio::test(start_paused = true)]
async fn rotation_does_not_make_a_clock_trusted_that_is_ahead() {
    let world = world(1);
    let node = settled(&world, |_| {}).await;
    issue_ahead_and_back(&world, &node, 120_000, 60_000).await;
    for _ in 0..5 {
        world.pass(second(31)).await;
        world.issue(&node, "order", 100).await;
        assert_mark_within_window(&world, &node).await;
    }
    let reason = node.status().reason;
    assert!(matches!(reason, Some(UnavailableReason::ClockAhead(60_000))), "{reason:?}");
    node.clock.step(-60_000);
    // It has written nothing for so long that it waits as a start does, and issues meanwhile.
    for _ in 0..12 {
        world.issue(&node, "order", 100).await;
        world.pass(second(5)).await;
    }
    world.issue(&node, "order", 100).await;
    assert_mark_within_window(&world, &node).await;
    assert_eq!(node.status().reason, None);
}

/// Without a clock of the store, only the held lease shows that the node's clock is still ahead.
#[tokio::test(start_paused = true)]
async fn change_of_worker_does_not_make_a_clock_trusted_that_is_ahead() {
    let world = World::with_local_clock(LayoutSpec::for_unit(TimeUnit::Millisecond));
    let node = settled(&world, |settings| settings.issue.rollback = RollbackPolicy::Swap).await;
    let worker = node.worker();
    node.clock.step(120_000);
    world.issue(&node, "order", 100).await;
    node.clock.step(-60_000);
    for _ in 0..20 {
        let _: Result<_, _> = node.issuer.next_ids("order", 1).await;
        world.pass(Duration::from_millis(50)).await;
        assert_mark_within_window(&world, &node).await;
    }
    assert_eq!(node.worker(), worker);
    let reason = node.status().reason;
    assert!(matches!(reason, Some(UnavailableReason::ClockAhead(60_000))), "{reason:?}");
    node.clock.step(-60_000);
    let _: Result<_, _> = node.issuer.next_ids("order", 1).await;
    world.pass(second(5)).await;
    world.issue(&node, "order", 100).await;
    assert_ne!(node.worker(), worker);
    assert_mark_within_window(&world, &node).await;
    assert_eq!(node.status().reason, None);
}

#[tokio::test(start_paused = true)]
async fn node_ahead_of_the_store_gets_no_lease_until_corrected() {
    let world = world(1);
    world.store_clock.step(-11_000);
    let node = world.start(world.settings());
    node.clock.step(11_000);
    world.pass(second(5)).await;
    assert_eq!(node.status().reason, Some(UnavailableReason::ClockAhead(11_000)));
    let status = node.status();
    assert!((10_900..=11_000).contains(&status.clock_ahead_ms), "{}", status.clock_ahead_ms);
    node.clock.step(-11_000);
    world.pass(second(3)).await;
    world.issue(&node, "order", 1).await;
}

#[tokio::test(start_paused = true)]
async fn wrong_store_clock_does_not_stop_issuing() {
    for step in [-3_600_000, 3_600_000] {
        let world = world(1);
        let node = settled(&world, |_| {}).await;
        world.store_clock.step(step);
        for _ in 0..60 {
            world.pass(second(10)).await;
            world.issue(&node, "order", 100).await;
        }
        assert!(node.reach_ms() > 260_000, "{}", node.reach_ms());
    }
}

/// While the store's clock is wrong, only the node's own clocks show how far it is ahead.
#[tokio::test(start_paused = true)]
async fn clock_that_gains_little_by_little_is_not_trusted_for_ever() {
    let world = world(1);
    let node = settled(&world, |_| {}).await;
    world.store_clock.step(-3_600_000);
    // The node waits until it trusts the store again.
    world.pass(second(80)).await;
    for step in 1..=3 {
        node.clock.step(9_000);
        world.pass(second(31)).await;
        let reason = node.status().reason;
        let is_refused = matches!(reason, Some(UnavailableReason::ClockAhead(_)));
        assert_eq!(is_refused, step > 1, "{step}: {reason:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn clock_ahead_for_a_window_is_trusted_if_the_store_agrees() {
    let world = world(1);
    let node = settled(&world, |_| {}).await;
    node.clock.step(3_600_000);
    world.pass(second(200)).await;
    world.store_clock.step(3_600_000);
    world.pass(second(120)).await;
    world.issue(&node, "order", 10).await;
    assert_eq!(node.status().reason, None);
}

#[tokio::test(start_paused = true)]
async fn clock_before_the_epoch_is_reported_and_waited_for() {
    let world = world(1);
    let node = world.start(world.settings());
    node.clock.set(0);
    world.pass(second(3)).await;
    let refused = node.issuer.next_id("order").await.expect_err("1970");
    assert!(
        matches!(
            refused,
            IssueError::Refused(ClaimError::ClockOutOfRange { .. })
                | IssueError::NoLease { reason: UnavailableReason::ClockOutOfRange, .. }
        ),
        "{refused:?}"
    );
    node.clock.set(world.store_clock.now_ms());
    world.pass(second(10)).await;
    world.issue(&node, "order", 1).await;
}

/// The clock steps between the request to the store and its reply.
#[tokio::test(start_paused = true)]
async fn forward_jump_during_a_survey_does_not_raise_the_mark() {
    let world = world(1);
    let node = settled(&world, |_| {}).await;
    world.store.step_during_survey(&node.clock, 7_200_000);
    world.pass(second(100)).await;
    assert!(node.events.count(LeaseOperation::Renew, LeaseOutcome::ClockAhead) > 0);
    assert_mark_within_window(&world, &node).await;
    node.clock.step(-7_200_000);
    world.pass(second(5)).await;
    world.issue(&node, "order", 10).await;
}

/// The keeper compares a renewal whose outcome it learns late with the clocks at its write, so it
/// notices a later step of a clock.
#[tokio::test(start_paused = true)]
async fn forward_jump_before_a_renewal_is_settled_does_not_raise_the_mark() {
    let world = world(1);
    let node = settled(&world, |_| {}).await;
    world.store.fail_next(Fault::LostReply);
    world.until_swap().await;
    world.store.set_down(true);
    world.pass(second(1)).await;
    node.clock.step(3_600_000);
    world.store.set_down(false);
    world.pass(second(10)).await;
    assert_mark_within_window(&world, &node).await;
    assert_eq!(node.status().reason, Some(UnavailableReason::ClockAhead(3_600_000)));
}

#[tokio::test(start_paused = true)]
async fn rotation_refused_by_a_late_renewal_is_retried_and_reported_once() {
    let world = world(1);
    let node = settled(&world, |_| {}).await;
    world.store.fail_next(Fault::Late);
    world.until_swap().await;
    world.issue(&node, "order", 1).await;
    node.clock.step(-60_000);
    world.store.fail_next(Fault::AfterLate);
    assert_rotates_once(&world, &node).await;
}

#[tokio::test(start_paused = true)]
async fn rotation_of_a_taken_row_leases_another_one() {
    let world = world(1);
    let node = settled(&world, |_| {}).await;
    let worker = node.worker();
    let row = world.row(worker).await;
    let write = RowWrite {
        token: Token::from_bits(77),
        epoch: world.epoch().await,
        holder: row.holder.clone(),
        lane: row.lane,
        marks: row.marks.clone(),
        expiry: RowExpiry::After(second(90)),
    };
    let swapped = world.store.swap_row(&world.scope(), worker, row.token, &write).await;
    assert!(swapped.expect("up"));
    node.clock.step(-120_000);
    for _ in 0..20 {
        world.issue(&node, "order", 100).await;
        world.pass(Duration::from_millis(50)).await;
    }
    assert_ne!(node.worker(), worker);
    assert_eq!(world.row(worker).await.token, write.token);
}

#[tokio::test(start_paused = true)]
async fn row_that_vanished_before_a_rotation_is_created_again() {
    let world = world(1);
    let node = settled(&world, |_| {}).await;
    world.store.lose_row(&world.scope(), node.worker());
    node.clock.step(-120_000);
    let worker = node.worker();
    world.issue(&node, "order", 100).await;
    world.pass(second(2)).await;
    // None of the row's lanes is due.
    assert_ne!(node.worker(), worker);
    assert_eq!(node.status().reason, None);
    assert!(world.row(worker).await.free);
}

#[tokio::test(start_paused = true)]
async fn late_rotation_is_reported_once() {
    let world = world(1);
    let node = settled(&world, |_| {}).await;
    node.clock.step(-60_000);
    world.store.fail_next(Fault::AfterLate);
    world.store.fail_next(Fault::Late);
    assert_rotates_once(&world, &node).await;
}

#[tokio::test(start_paused = true)]
async fn clock_caught_up_within_hold_keeps_the_lane() {
    let world = world(1);
    let node = settled(&world, |_| {}).await;
    node.clock.step(-1_001);
    world.issue(&node, "order", 1).await;
    node.clock.step(1);
    for _ in 0..20 {
        tokio::task::yield_now().await;
    }
    world.pass(second(5)).await;
    assert_eq!((node.lane(), node.events.rollbacks()), (0, vec![RollbackAction::Held]));
}

#[tokio::test(start_paused = true)]
async fn lease_is_dropped_after_a_window_with_the_clock_ahead() {
    let world = world(1);
    let node = settled(&world, |_| {}).await;
    let worker = node.worker();
    let mark = world.row(worker).await.marks[0];
    node.clock.step(3_600_000);
    world.pass(second(290)).await;
    world.pass(second(50)).await;
    assert_eq!(world.row(worker).await.marks[0], mark, "it expired, and may be another process's");
    node.clock.step(-3_600_000);
    world.pass(second(50)).await;
    assert_eq!(node.events.count(LeaseOperation::Acquire, LeaseOutcome::Done), 2);
    world.issue(&node, "order", 10).await;
}

#[tokio::test(start_paused = true)]
async fn row_that_is_held_is_not_sought_after_a_rollback() {
    let world = World::new(LayoutSpec::for_unit(TimeUnit::Hour));
    let node = world
        .node_with(|settings| {
            (settings.min_worker, settings.max_worker) = (1, 1);
            settings.lease.stale_wait = Duration::ZERO;
            settings.issue.rollback = RollbackPolicy::Swap;
        })
        .await;
    world.issue(&node, "order", 3).await;
    world.store.set_down(true);
    // The row expires, and the clock goes back within the hour.
    world.pass(second(100)).await;
    world.issue(&node, "order", 3).await;
    node.clock.step(-30_000);
    let _: Result<_, _> = node.issuer.next_id("order").await;
    world.pass(second(5)).await;
    world.store.set_down(false);
    world.pass(second(20)).await;
    assert_eq!(node.events.rollbacks().last(), Some(&RollbackAction::Refused));
    assert_eq!(node.events.count(LeaseOperation::Acquire, LeaseOutcome::Done), 1);
    world.pass(second(10)).await;
    world.issue(&node, "order", 3).await;
    for outcome in [LeaseOutcome::Done, LeaseOutcome::Refused, LeaseOutcome::Unknown] {
        assert_eq!(node.events.count(LeaseOperation::Release, outcome), 0, "{outcome:?}");
    }
}
