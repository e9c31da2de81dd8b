//! Searches for a row while the clock goes back.

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
