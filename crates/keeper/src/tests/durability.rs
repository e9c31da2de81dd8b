//! A store shows writes before they are durable, and crashes.

use raindrop_core::layout::{LayoutSpec, TimeUnit};
use raindrop_store::Store;

use super::{
    faulty_store::Fault,
    world::{second, world},
};
use crate::{LeaseOperation, LeaseOutcome, RelayoutOutcome, UnavailableReason, WorkerRelease};

#[tokio::test(start_paused = true)]
async fn visible_renewal_raises_no_limit() {
    let world = world();
    let holder = world.start(world.only(5));
    holder.issuer.leased().await;
    let reach_ms = holder.reach_ms();
    world.store.hang_the_log();
    world.pass(second(9)).await;
    assert!(world.row(5).await.marks[0] > 0, "the row shows a renewal");
    assert!(holder.reach_ms() < reach_ms - 8_000, "{} ms", holder.reach_ms());

    world.store.crash();
    world.store.forgive();
    world.operator(world.settings()).release(5).await.expect("released");
    let next = world.start(world.only(5));
    next.issuer.leased().await;
    for _ in 0..20 {
        world.issue(&next, "order", 100).await;
        // The holder must not issue beyond the old mark, where the next lease starts.
        if let Ok(ids) = holder.issuer.next_ids("order", 100).await {
            world.check("order", ids.collect());
        }
        world.pass(second(1)).await;
    }
}

#[tokio::test(start_paused = true)]
async fn visible_acquire_issues_nothing() {
    let world = world();
    world.store.hang_the_log();
    let node = world.start(world.only(5));
    world.pass(second(5)).await;
    assert!(!world.row(5).await.free, "the row shows our lease");
    assert!(node.issuer.next_id("order").await.is_err());
    world.store.forgive();
    world.pass(second(6)).await;
    world.issue(&node, "order", 1).await;
}

#[tokio::test(start_paused = true)]
async fn visible_rotation_keeps_the_old_lane() {
    let world = world();
    let node = world.node().await;
    world.pass(second(5)).await;
    let lane = node.lane();
    world.issue(&node, "order", 10).await;
    world.store.hang_the_log();
    node.clock.step(-5_000);
    // The claim wakes the keeper.
    let _ = node.issuer.next_id("order").await;
    world.pass(second(2)).await;
    assert!(node.events.count(LeaseOperation::Rotate, LeaseOutcome::Unknown) > 0);
    assert_eq!(node.lane(), lane);
    world.store.forgive();
    world.pass(second(6)).await;
    assert_ne!(node.lane(), lane, "the rotation counts once a write is acknowledged");
    world.issue(&node, "order", 10).await;
}

#[tokio::test(start_paused = true)]
async fn store_crash_costs_a_node_at_most_its_row() {
    let world = world();
    let node = world.node().await;
    world.store.hang_the_log();
    world.pass(second(5)).await;
    world.store.crash();
    world.store.forgive();
    for _ in 0..10 {
        world.pass(second(5)).await;
        world.issue(&node, "order", 100).await;
    }
    assert_eq!(node.status().reason, None);
}

#[tokio::test(start_paused = true)]
async fn operator_release_is_reported_once_durable() {
    let world = world();
    let holder = world.start(world.only(3));
    holder.issuer.leased().await;
    drop(holder);
    world.store.hang_the_log();
    let released = world.operator(world.settings()).release(3).await;
    assert!(world.row(3).await.free, "the row shows the release");
    assert!(released.is_err(), "{released:?}");
    world.store.forgive();
    // The row is already free, so nothing is left to do.
    let again = world.operator(world.settings()).release(3).await;
    assert!(matches!(again, Ok(WorkerRelease::AlreadyFree(_))), "{again:?}");
}

#[tokio::test(start_paused = true)]
async fn relayout_ends_with_acknowledged_writes() {
    let world = world();
    drop(world.node().await);
    let spec = LayoutSpec {
        epoch_ms: LayoutSpec::DEFAULT_EPOCH_MS - 86_400_000,
        ..LayoutSpec::for_unit(TimeUnit::Millisecond)
    };
    let mut settings = world.settings();
    settings.layout = spec.build().expect("valid");
    let mut operator = world.operator(settings.clone());
    world.store.hang_the_log();
    operator.relayout().await.expect_err("no write is acknowledged");
    world.store.forgive();
    world.store.crash();
    assert!(matches!(operator.relayout().await, Ok(RelayoutOutcome::Moved(_))));
    let record = world.store.read_record("default").await.expect("up").expect("a record");
    assert_eq!(record.canonical, settings.layout.canonical());
}

#[tokio::test(start_paused = true)]
async fn lease_continues_once_a_store_that_showed_nothing_is_back() {
    let world = world();
    let node = world.node().await;
    world.pass(second(5)).await;
    let worker = node.worker();
    world.store.wipe(true);
    world.pass(second(60)).await;
    assert!(node.status().reason.is_some());
    world.store.wipe(false);
    world.pass(second(55)).await;
    assert_eq!(node.status().reason, None);
    assert_eq!(node.worker(), worker);
    world.pass(second(300)).await;
    world.issue(&node, "order", 100).await;
}

#[tokio::test(start_paused = true)]
async fn node_recovers_from_a_foreign_record() {
    let world = world();
    let node = world.node().await;
    world.pass(second(5)).await;
    let words = world.store.swap_layout("another layout").await;
    world.pass(second(60)).await;
    assert_eq!(node.status().reason, Some(UnavailableReason::StoreLost));
    world.store.swap_layout(&words).await;
    world.pass(second(55)).await;
    assert_eq!(node.status().reason, None);
    world.issue(&node, "order", 10).await;
}

#[tokio::test(start_paused = true)]
async fn new_rows_and_records_have_random_tokens() {
    let one = world();
    let _node = one.node().await;
    let tokens = |rows: Vec<raindrop_store::ListedRow>| -> std::collections::HashSet<String> {
        rows.iter().map(|listed| listed.row.token.to_string()).collect()
    };
    let rows = tokens(one.store.list_rows().await.expect("up"));
    assert_eq!(rows.len(), 512);
    assert!(!rows.contains(&raindrop_core::lease::Token::UNUSED.to_string()));
    let record = one.store.read_record("default").await.expect("up").expect("a record");
    assert_ne!(record.token, raindrop_core::lease::Token::UNUSED);
}

/// A swap was prepared for a row before the store was emptied and filled again.
#[tokio::test(start_paused = true)]
async fn swap_prepared_before_a_row_was_recreated_is_refused() {
    let world = world();
    world.store.fail_next(Fault::Late);
    let node = world.start(world.only(5));
    tokio::task::yield_now().await;
    for _ in 0..20 {
        tokio::task::yield_now().await;
    }
    assert_eq!(world.store.swaps.load(std::sync::atomic::Ordering::SeqCst), 1, "it was sent");
    drop(node);
    let scope = world.scope();
    world.store.lose_row(&scope, 5);
    let restarted = world.start(world.settings());
    world.pass(second(1)).await;
    drop(restarted);
    assert_eq!(world.store.deliver().await, 0, "it names the token of a row that is gone");
}
