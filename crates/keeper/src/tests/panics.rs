//! Panics that are planted through the observer, under paused time.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use raindrop_core::{clock::ManualClock, preset::Preset, segment::SegmentSpec};
use raindrop_store::{MemoryStore, Store as _};
use tokio::time::{sleep, timeout};

use super::world::{NOW, Node, World, second, world};
use crate::{
    Keeper, KeeperError, KeeperSettings, KeeperTask, LeaseOperation, Observer, RefillOutcome,
    Released, SegmentIssuer, SegmentKeeper, SegmentSettings, StoreOperation,
};

/// Panics once where the test asks for it, and counts the steps that panicked.
#[derive(Debug, Default)]
struct Planted {
    in_prepare: AtomicBool,
    in_refill: AtomicBool,
    refills_panicked: AtomicU64,
}

fn panic_once(planted: &AtomicBool) {
    assert!(!planted.swap(false, Ordering::SeqCst), "planted by a test");
}

impl Observer for Planted {
    fn segment_refilled(&self, _: RefillOutcome) {
        panic_once(&self.in_refill);
    }

    fn store_operation(&self, operation: StoreOperation, _: Duration) {
        if operation == StoreOperation::Prepare {
            panic_once(&self.in_prepare);
        }
    }

    fn step_panicked(&self, task: KeeperTask) {
        assert_eq!(task, KeeperTask::Refill);
        self.refills_panicked.fetch_add(1, Ordering::SeqCst);
    }
}

fn start(planted: &Arc<Planted>) -> (SegmentKeeper, SegmentIssuer) {
    let spec = SegmentSpec { min_step: 10, max_step: 10, ..SegmentSpec::default() };
    let settings = SegmentSettings::new("numbers").with_code("order", spec);
    let store = MemoryStore::new(Arc::new(ManualClock::new(NOW)));
    let (keeper, mut issuers) =
        SegmentKeeper::start(vec![(settings, Arc::clone(planted) as _)], Arc::new(store));
    (keeper, issuers.pop().expect("one namespace has one issuer"))
}

#[tokio::test(start_paused = true)]
async fn panicked_refill_is_reported_and_retried() {
    let planted = Arc::new(Planted::default());
    let (keeper, issuer) = start(&planted);
    issuer.prepared().await;
    let mut last = 0;
    for round in 1..=3 {
        // The block after this one, or a later one, meets the panic.
        planted.in_refill.store(true, Ordering::SeqCst);
        for _ in 0..50 {
            let number = issuer.next_id("order").await.expect("issued").get();
            assert!(number > last, "{number} after {last}");
            last = number;
        }
        assert_eq!(planted.refills_panicked.load(Ordering::SeqCst), round);
    }
    assert!(last > 150, "the blocks that were reserved before the panics are lost");
    assert_eq!(issuer.status().reason, None);
    keeper.release(Duration::from_secs(5)).await;
}

#[tokio::test(start_paused = true)]
async fn panicked_segment_task_fails_the_keeper() {
    let planted = Arc::new(Planted::default());
    planted.in_prepare.store(true, Ordering::SeqCst);
    let (mut keeper, _issuer) = start(&planted);
    let failed = timeout(Duration::from_hours(1), keeper.failed()).await.expect("it fails");
    let [KeeperError::TaskFailed { task: KeeperTask::Segments, reason }] = &failed[..] else {
        panic!("{failed:?}")
    };
    assert_eq!(reason, "it panicked: planted by a test");
}

async fn issue(world: &World, node: &Node) {
    let ids = node.issuer.next_ids("order", 100).await.expect("issued");
    world.check("order", ids.collect());
}

#[tokio::test(start_paused = true)]
async fn lease_task_that_panics_starts_over_with_another_row() {
    let world = world();
    let node = world.node().await;
    let worker = node.worker();
    *node.events.panics_at.lock().expect("unpoisoned") = Some(LeaseOperation::Renew);
    while node.events.panics() == 0 {
        issue(&world, &node).await;
        world.pass(second(1)).await;
    }
    // The node issues from the grant that it has.
    issue(&world, &node).await;
    world.pass(second(10)).await;
    assert_ne!(node.worker(), worker);
    assert_eq!((node.events.panics(), node.status().reason.clone()), (1, None));
    issue(&world, &node).await;
    assert!(!world.row(worker).await.free, "what was leased there is unknown");
    assert_eq!(node.stop().await, Released::Done);
    world.pass(second(300)).await;
    assert!(world.row(worker).await.free, "it expired");
}

/// Panics at each call of the store.
#[derive(Debug)]
struct AlwaysPanics;

impl Observer for AlwaysPanics {
    fn store_operation(&self, _: StoreOperation, _: Duration) {
        panic!("planted by a test");
    }
}

#[tokio::test(start_paused = true)]
async fn lease_task_that_panics_at_each_try_says_so() {
    let clock = Arc::new(ManualClock::new(NOW));
    let settings = KeeperSettings::new(Preset::Raindrop.spec().build().expect("valid"), "a test");
    let store = Arc::new(MemoryStore::new(clock.clone()));
    let (_keeper, issuer) = Keeper::start(settings, store, clock, Arc::new(AlwaysPanics));
    sleep(second(5)).await;
    let reason = issuer.status().reason.expect("nothing is leased").to_string();
    assert!(reason.contains("internal error: planted by a test"), "{reason}");
}

#[tokio::test(start_paused = true)]
async fn search_that_panics_begins_again_with_another_row() {
    let world = world();
    let node = world.start(world.settings());
    *node.events.panics_at.lock().expect("unpoisoned") = Some(LeaseOperation::Acquire);
    while node.status().lease.is_none() {
        world.pass(second(1)).await;
    }
    assert_eq!((node.events.panics(), node.status().reason.clone()), (1, None));
    issue(&world, &node).await;
    let rows = world.store.list_rows().await.expect("up");
    let held: Vec<u64> =
        rows.iter().filter(|listed| !listed.row.free).map(|it| it.row.worker).collect();
    assert_eq!(held.len(), 2, "the row of the search that panicked expires after its ttl");
    assert!(held.contains(&node.worker()));
}
