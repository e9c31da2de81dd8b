//! A node's writes of its row, and how far its lease reaches.

use std::{
    collections::HashSet,
    sync::{Arc, Mutex},
};

use raindrop_core::{
    clock::Clock,
    layout::{LayoutSpec, TimeUnit},
};
use raindrop_store::MemoryStore;

use super::{
    faulty_store::{Fault, FaultyStore},
    world::{World, second, world},
};
use crate::UnavailableReason;

/// Two of three writes are visible but not acknowledged, so the node repeats them.
#[tokio::test(start_paused = true)]
async fn no_write_sets_a_token_that_was_set_before() {
    let world = world();
    let tokens = Arc::new(Mutex::new(Vec::new()));
    let sent = tokens.clone();
    world.store.decide(Some(Box::new(move |write| {
        let mut sent = sent.lock().expect("unpoisoned");
        sent.push(write.token);
        (sent.len() % 3 != 0).then_some(Fault::LostReply)
    })));
    let node = world.start(world.only(5));
    world.pass(second(300)).await;
    world.issue(&node, "order", 10).await;
    let tokens = tokens.lock().expect("unpoisoned");
    assert!(tokens.len() > 20, "{}", tokens.len());
    assert_eq!(tokens.iter().collect::<HashSet<_>>().len(), tokens.len());
}

/// Each answer takes 2 s, so the node does not notice a clock that is 1.5 s beyond the skew.
#[tokio::test(start_paused = true)]
async fn lease_reaches_no_further_than_the_clock_of_the_store_and_the_skew_allow() {
    let mut world = world();
    let memory = MemoryStore::with_own_clock(world.store_clock.clone());
    world.store = Arc::new(FaultyStore::new(memory).with_latency(second(2)));
    let node = world.start(world.only(5));
    node.clock.step(11_500);
    world.pass(second(120)).await;
    let layout = node.issuer.layout();
    world.store.decide(Some(Box::new(|_| None)));
    // Ends between two renewals, so that the row shows the last acknowledged write.
    world.pass(second(75)).await;
    let written = world.store.acknowledged.lock().expect("unpoisoned").clone();
    assert!(!written.is_empty());
    let (_, last) = &written[written.len() - 1];
    let mark = last.marks[last.lane];
    let heartbeat_ms = world.row(5).await.heartbeat_ms;
    // The store answered the survey before the swap was sent, 2 s before the swap took place.
    let reach_ms = layout.start_of_tick_ms(layout.tick_of(mark)) - (heartbeat_ms - 2_000);
    assert!((305_000..=310_001).contains(&reach_ms), "{reach_ms}");
    assert_eq!(node.clock.now_ms() - world.store_clock.now_ms(), 11_500);
}

/// A node that waits for a row and never had one can tell that rows are missing.
#[tokio::test(start_paused = true)]
async fn waiting_spare_adds_a_row_that_was_lost() {
    let world =
        World::new(LayoutSpec { worker_bits: 3, ..LayoutSpec::for_unit(TimeUnit::Millisecond) });
    let two = |settings: &mut crate::KeeperSettings| settings.max_worker = 2;
    let (holder, other) = (world.node_with(two).await, world.node_with(two).await);
    let mut settings = world.settings();
    two(&mut settings);
    let spare = world.start(settings);
    world.pass(second(10)).await;
    assert!(matches!(spare.status().reason, Some(UnavailableReason::NoFreeWorker { .. })));
    let lost = other.worker();
    drop(other);
    world.store.lose_row(&world.scope(), lost);
    world.pass(second(340)).await;
    assert_eq!(spare.worker(), lost);
    world.issue(&spare, "order", 10).await;
    world.issue(&holder, "order", 10).await;
}

#[tokio::test(start_paused = true)]
async fn node_that_shuts_down_keeps_that_reason() {
    let world = world();
    let node = world.node().await;
    let shared = &node.issuer.state;
    shared.set_reason(Some(UnavailableReason::ShuttingDown));
    shared.set_reason(Some(UnavailableReason::StoreLost));
    assert_eq!(node.status().reason, Some(UnavailableReason::ShuttingDown));
    shared.announce_range();
    assert_eq!(node.status().reason, Some(UnavailableReason::ShuttingDown));
}

#[tokio::test(start_paused = true)]
async fn clock_before_the_epoch_is_reported_at_once() {
    let world = world();
    let node = world.node().await;
    assert_eq!(node.status().reason, None);
    node.clock.set(node.issuer.layout().epoch_ms() - 1);
    assert_eq!(node.status().reason, Some(UnavailableReason::ClockOutOfRange));
    assert!(!node.status().is_issuing());
}
