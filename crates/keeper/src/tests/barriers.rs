//! A barrier that was set far ahead by a clock that was itself ahead, and the operator who lowers
//! it.

use std::{sync::Arc, time::Duration};

use raindrop_core::{clock::ManualClock, lease::BarrierStays};
use rand::{SeedableRng, rngs::StdRng};

use super::world::{Node, World, second, world};
use crate::{Operator, OperatorError, UnavailableReason};

const WINDOW: Duration = Duration::from_mins(5);
const WINDOW_MS: i64 = 300_000;
const AHEAD_MS: i64 = 8 * 3_600_000;
/// The window plus twice the skew, plus the tick in which a barrier is.
const REACH_MS: i64 = 320_001;

/// Returns a namespace in use whose store failed over while every clock was ahead.
async fn epoch_begun_ahead() -> World {
    let world = world();
    let node = world.node().await;
    world.issue(&node, "order", 100).await;
    node.stop().await;
    let held = world.store.snapshot();
    world.store_clock.step(AHEAD_MS);
    world.store.fail_over("b", held);
    let ahead = world.start(world.settings());
    world.pass(second(5)).await;
    assert_eq!(ahead.events.epochs(), 1);
    // By this clock nothing is wrong.
    assert!(matches!(ahead.status().reason, Some(UnavailableReason::FailedOver { .. })));
    drop(ahead);
    world.store_clock.step(-AHEAD_MS);
    world
}

#[tokio::test(start_paused = true)]
async fn operator_lowers_a_barrier_that_a_clock_put_ahead() {
    let world = epoch_begun_ahead().await;
    let node = world.start(world.settings());
    world.pass(second(5)).await;
    let due_ms = far_ahead(&node);
    assert!(due_ms > world.now_ms() + AHEAD_MS + WINDOW_MS - 20_000, "{due_ms}");
    let mut operator = world.operator(world.settings());
    // Both name the true instant, and neither changes it.
    let raise = operator.preview_raise(WINDOW).await.expect("up");
    assert_eq!((raise.due_ms, raise.far_ms), (due_ms, Some(due_ms)));
    assert_eq!(operator.raise(WINDOW).await.expect("up"), due_ms);
    let epoch = world.epoch().await;
    let preview = operator.preview_lower_barrier(WINDOW).await.expect("far ahead");
    assert_eq!(preview.far_ms, Some(due_ms));
    assert!((preview.now_ms + 1..=preview.now_ms + REACH_MS).contains(&preview.due_ms));
    assert_eq!(world.epoch().await, epoch, "nothing is written");
    let lowered = operator.lower_barrier(WINDOW).await.expect("far ahead");
    assert_eq!(lowered, preview.due_ms);
    world.pass(second(330)).await;
    world.issue(&node, "order", 100).await;
    assert_eq!(node.status().reason, None);
}

/// Its marks are higher than any lease by a correct clock could reach.
#[tokio::test(start_paused = true)]
async fn row_that_was_leased_under_a_clock_ahead_keeps_its_marks() {
    let world = epoch_begun_ahead().await;
    world.store_clock.step(AHEAD_MS);
    let ahead = world.start(world.only(7));
    world.pass(second(400)).await;
    world.issue(&ahead, "order", 100).await;
    let marks = world.row(7).await.marks;
    drop(ahead);
    world.store_clock.step(-AHEAD_MS);
    let mut operator = world.operator(world.settings());
    operator.lower_barrier(WINDOW).await.expect("far ahead");
    let node = world.start(world.only(7));
    world.pass(second(400)).await;
    assert!(!node.status().is_issuing() || node.lane() != 0, "{:?}", node.status());
    let row = world.row(7).await;
    assert!(row.marks.iter().zip(marks.iter()).all(|(now, before)| now >= before));
}

/// A restart of the store begins an epoch by the corrected clock, which keeps the barrier. So does
/// a node that finds another server.
#[tokio::test(start_paused = true)]
async fn operator_lowers_a_barrier_after_restarts_too() {
    let world = epoch_begun_ahead().await;
    world.store.fail_over("c", world.store.snapshot());
    let mut operator = world.operator(world.settings());
    let error = operator.lower_barrier(WINDOW).await.expect_err("no node looked yet");
    let OperatorError::BarrierStays { why: BarrierStays::OtherServer, .. } = error else {
        panic!("{error}")
    };
    let node = world.start(world.settings());
    world.pass(second(5)).await;
    assert_eq!(node.events.epochs(), 1);
    far_ahead(&node);
    drop(node);
    let node = world.start(world.settings());
    world.pass(second(5)).await;
    far_ahead(&node);
    operator.lower_barrier(WINDOW).await.expect("far ahead");
    world.pass(second(330)).await;
    world.issue(&node, "order", 100).await;
}

#[tokio::test(start_paused = true)]
async fn barrier_that_right_clocks_put_there_stays() {
    let world = world();
    let mut operator = world.operator(world.settings());
    let error = operator.lower_barrier(WINDOW).await.expect_err("an unused store");
    assert!(matches!(error, OperatorError::NoRecord { .. }), "{error}");
    let node = world.node().await;
    for _ in 0..2 {
        let error = operator.lower_barrier(WINDOW).await.expect_err("by right clocks");
        let OperatorError::BarrierStays { why: BarrierStays::InReach { .. }, .. } = error else {
            panic!("{error}")
        };
        operator.raise(WINDOW).await.expect("up");
    }
    drop(node);
}

/// The clock of the operator's machine is not enough.
#[tokio::test(start_paused = true)]
async fn barrier_is_not_lowered_while_clocks_disagree() {
    let world = epoch_begun_ahead().await;
    let clock = Arc::new(ManualClock::new(world.now_ms()));
    let random = Box::new(StdRng::seed_from_u64(7));
    let store = world.store.clone();
    let mut operator = Operator::with_random(world.settings(), store, clock.clone(), random);
    for by_ms in [AHEAD_MS, -2 * AHEAD_MS] {
        clock.step(by_ms);
        let error = operator.lower_barrier(WINDOW).await.expect_err("a wrong clock");
        assert!(matches!(error, OperatorError::ClocksDisagree { .. }), "{error}");
    }
}

/// Returns when new leases begin by a barrier that a clock set far ahead.
fn far_ahead(node: &Node) -> i64 {
    match node.status().reason {
        Some(UnavailableReason::BarrierFarAhead { due_ms }) => due_ms,
        reason => panic!("{reason:?}"),
    }
}
