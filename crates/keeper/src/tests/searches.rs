//! Searches for a row while the clock goes back, or after it was ahead.

use raindrop_core::layout::{LayoutSpec, TimeUnit};

use super::{
    faulty_store::Fault,
    world::{World, second},
};
use crate::UnavailableReason;

/// Returns a world whose only row has one lane and was just released: its mark is the present
/// instant.
async fn just_released() -> World {
    let spec = LayoutSpec::for_unit(TimeUnit::Millisecond);
    let world = World::new(LayoutSpec { rollback_bits: 0, ..spec });
    let node = world.start(world.only(5));
    node.issuer.leased().await;
    world.pass(second(60)).await;
    world.issue(&node, "order", 10).await;
    node.stop().await;
    world
}

#[tokio::test(start_paused = true)]
async fn row_whose_mark_is_ahead_once_the_clock_went_back_is_not_taken() {
    let world = just_released().await;
    let node = world.start(world.only(5));
    // Three surveys: when the node prepares, when it chooses the row, and before it takes the row.
    for by_ms in [-60_000, 0, 0] {
        world.store.step_during_survey(&node.clock, by_ms);
    }
    world.pass(second(2)).await;
    let reason = node.status().reason;
    assert!(matches!(reason, Some(UnavailableReason::NoFreeWorker { .. })), "{reason:?}");
}

/// Otherwise the row would stay leased without a holder for a whole ttl.
#[tokio::test(start_paused = true)]
async fn row_that_a_search_may_have_taken_is_settled_though_the_clock_went_back() {
    let world = just_released().await;
    world.store.fail_next(Fault::Late);
    let node = world.start(world.only(5));
    world.until_swap().await;
    for clock in [&world.store_clock, &node.clock] {
        clock.step(-60_000);
    }
    world.pass(second(10)).await;
    assert_eq!(world.store.deliver().await, 0);
    world.pass(second(90)).await;
    world.issue(&node, "order", 10).await;
}

/// A month later than every clock shows once it is right again.
const MONTH_MS: i64 = 30 * 24 * 3_600_000;

/// The row is held until the instant that the wrong clock put there. Each hour the reason promised
/// the next hour.
#[tokio::test(start_paused = true)]
async fn reason_names_when_a_worker_id_that_crashed_under_a_clock_ahead_comes_free() {
    let world = World::with_local_clock(LayoutSpec::for_unit(TimeUnit::Millisecond));
    world.store_clock.step(MONTH_MS);
    let crashed = world.start(world.only(5));
    crashed.issuer.leased().await;
    world.issue(&crashed, "order", 10).await;
    drop(crashed);
    let expires_ms = world.row(5).await.expires_ms;
    world.store_clock.step(-MONTH_MS);
    let node = world.start(world.only(5));
    world.pass(second(5)).await;
    for _ in 0..3 {
        let reason = node.status().reason;
        let Some(UnavailableReason::NoFreeWorker { due_ms }) = reason else { panic!("{reason:?}") };
        assert_eq!(due_ms, expires_ms);
        world.pass(second(3_600)).await;
    }
    let refused = node.issuer.next_id("order").await.expect_err("a month early").to_string();
    for said in ["2025-12-20T", "raindrop workers release"] {
        assert!(refused.contains(said), "{refused}");
    }
    world.operator(world.only(5)).release(5).await.expect("up");
    world.pass(second(60)).await;
    world.issue(&node, "order", 10).await;
}
