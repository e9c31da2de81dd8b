//! Tables, records and rows that a node creates in a store when it starts.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use raindrop_core::layout::{LayoutSpec, TimeUnit};
use raindrop_store::{
    Call, Intercept, LayoutRecord, MemoryStore, Reply, Snapshot, Store, StoreError,
};
use rand::{SeedableRng, rngs::StdRng};

use super::{
    faulty_store::FaultyStore,
    world::{NOW, Node, World, second},
};
use crate::{Keeper, KeeperError, KeeperSettings, Observer, StoreOperation, UnavailableReason};

fn world() -> World {
    World::new(LayoutSpec { worker_bits: 3, ..LayoutSpec::for_unit(TimeUnit::Millisecond) })
}

async fn record(world: &World) -> LayoutRecord {
    world.store.read_record("default").await.expect("up").expect("a record")
}

/// Counts calls that create or check.
#[derive(Debug, Default)]
struct Prepared(AtomicU64);

impl Observer for Prepared {
    fn store_operation(&self, operation: StoreOperation, _: Duration) {
        self.0.fetch_add(u64::from(operation == StoreOperation::Prepare), Ordering::SeqCst);
    }
}

#[tokio::test(start_paused = true)]
async fn start_with_complete_rows_creates_nothing() {
    let world = world();
    // Tables, record, rows, and the write that records them; then only tables.
    for (seed, questions) in [(1, 4), (2, 1)] {
        let prepared = Arc::new(Prepared::default());
        let (_keeper, issuer) = Keeper::start_with(
            world.settings(),
            world.store.clone(),
            world.store_clock.clone(),
            prepared.clone(),
            Box::new(StdRng::seed_from_u64(seed)),
        );
        issuer.leased().await;
        assert_eq!(prepared.0.load(Ordering::SeqCst), questions);
    }
}

/// By the wrong clock the rows would start hours ahead, or below leased positions.
#[tokio::test(start_paused = true)]
async fn row_that_is_missing_while_clocks_differ_is_created_once_they_agree() {
    let world = world();
    let node = world.start(world.only(3));
    node.issuer.leased().await;
    world.pass(second(60)).await;
    drop(node);
    world.pass(second(100)).await;
    world.store.lose_row(&world.scope(), 3);
    let node = world.start(world.only(3));
    world.store_clock.step(36_000_000);
    world.pass(second(60)).await;
    let reason = node.status().reason.expect("one").to_string();
    assert!(reason.contains("the clocks differ too much"), "{reason}");
    world.store_clock.step(-36_000_000);
    assert!(world.issue_for(&node, second(500)).await < second(400));
    world.issue(&node, "order", 10).await;
}

/// Meanwhile an operator works on the store, for example on the layout.
#[tokio::test(start_paused = true)]
async fn node_that_issued_goes_on_once_the_store_is_repaired() {
    let world = world();
    let node = world.node().await;
    world.pass(second(40)).await;
    let ours = world.store.swap_layout("another layout").await;
    world.store.lose_row(&world.scope(), node.worker());
    world.pass(second(60)).await;
    assert_eq!(node.status().reason, Some(UnavailableReason::StoreLost));
    world.store.swap_layout(&ours).await;
    world.pass(second(30)).await;
    assert_eq!(node.status().reason, None);
    world.issue(&node, "order", 10).await;
}

/// A store on which an operator works while a node prepares it.
#[derive(Debug)]
struct Worked {
    store: Arc<FaultyStore>,
    work: Mutex<Option<Work>>,
}

#[derive(Clone, Copy, Debug)]
enum Work {
    /// The store's tables cannot be used.
    Tables,
    /// The record names another layout.
    Layout,
}

#[async_trait]
impl Intercept for Worked {
    fn memory(&self) -> &MemoryStore {
        self.store.memory()
    }

    async fn answer(&self, call: Call) -> Result<Reply, StoreError> {
        let work = *self.work.lock().expect("unpoisoned");
        match work.filter(|_| matches!(call, Call::Prepare)) {
            Some(Work::Tables) => return Err(StoreError::Unusable("planned".to_owned())),
            Some(Work::Layout) => drop(self.store.swap_layout("another layout").await),
            None => {}
        }
        self.store.answer(call).await
    }
}

/// Returns a node whose row was lost and cannot be created again, the store, on which an operator
/// works, and a snapshot from before.
async fn worked_on(world: &World, work: Work) -> (Node, Arc<Worked>, Snapshot) {
    let store = Arc::new(Worked { store: world.store.clone(), work: Mutex::default() });
    let node = world.start_by(world.only(3), store.clone());
    node.issuer.leased().await;
    world.pass(second(60)).await;
    let backup = world.store.backup();
    world.store.lose_row(&world.scope(), 3);
    *store.work.lock().expect("unpoisoned") = Some(work);
    world.pass(second(60)).await;
    (node, store, backup)
}

#[tokio::test(start_paused = true)]
async fn node_that_issued_goes_on_once_its_row_can_be_created_again() {
    for work in [Work::Tables, Work::Layout] {
        let world = world();
        let (mut node, store, _) = worked_on(&world, work).await;
        assert!(tokio::time::timeout(second(1), node.keeper.failed()).await.is_err(), "{work:?}");
        *store.work.lock().expect("unpoisoned") = None;
        world.store.swap_layout(&node.issuer.layout().canonical()).await;
        world.issue_for(&node, second(500)).await;
        world.issue(&node, "order", 10).await;
    }
}

#[tokio::test(start_paused = true)]
async fn lease_is_renewed_while_rows_cannot_be_checked() {
    let world = world();
    let (node, _store, backup) = worked_on(&world, Work::Tables).await;
    world.store.put_back(backup);
    assert_eq!(world.issue_for(&node, second(600)).await, Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn first_start_says_that_rows_are_complete_and_the_first_tick() {
    let world = world();
    let node = world.node().await;
    let layout = node.issuer.layout();
    let record = record(&world).await;
    assert_eq!(record.complete, ["0/0"]);
    assert_eq!(layout.start_of_tick_ms(record.first_tick), NOW + 10_001);
}

#[tokio::test(start_paused = true)]
async fn free_rows_without_a_record_end_a_keeper_that_starts() {
    let world = world();
    world.node().await.stop().await;
    assert!(world.store.list_rows().await.expect("up").iter().all(|listed| listed.row.free));
    world.store.lose_record("default");
    let mut other = world.start(world.settings());
    let failed = tokio::time::timeout(second(60), other.keeper.failed()).await;
    assert!(matches!(failed, Ok(KeeperError::Store(StoreError::Unusable(_)))), "{failed:?}");
}

#[tokio::test(start_paused = true)]
async fn row_that_was_lost_is_added_beside_rows_that_are_held() {
    let world = world();
    let _nodes = [world.node().await, world.node().await];
    world.store.lose_row(&world.scope(), 0);
    let _third = world.node().await;
    assert_eq!(world.store.list_rows().await.expect("up").len(), 8);
}

#[tokio::test(start_paused = true)]
async fn rows_are_created_as_they_are_needed() {
    let world = world();
    let settings = || KeeperSettings { rows_at_once: 3, ..world.settings() };
    // Worker id 0 is outside the nodes' range.
    let complete = ["0/0:3:1", "0/0:3:1", "0/0:3:3", "0/0:3:3", "0/0:3:3", "0/0", "0/0"];
    let mut nodes = Vec::new();
    for (held, complete) in (1..).zip(complete) {
        let node = world.start(settings());
        node.issuer.leased().await;
        let status = node.status();
        assert_eq!(status.lease.map(|lease| lease.worker < 8), Some(true));
        assert_eq!((status.workers_held, status.workers_free), (held, 7 - held));
        assert_eq!(record(&world).await.complete, [complete]);
        nodes.push(node);
    }
    assert_eq!(world.store.list_rows().await.expect("up").len(), 8);
    let last = world.start(settings());
    world.pass(second(1)).await;
    assert!(last.status().lease.is_none());
}

#[tokio::test(start_paused = true)]
async fn node_with_one_worker_id_creates_the_rows_beside_it() {
    let world = world();
    let settings =
        KeeperSettings { rows_at_once: 2, min_worker: 5, max_worker: 5, ..world.settings() };
    let node = world.start(settings);
    node.issuer.leased().await;
    let workers: Vec<u64> =
        world.store.list_rows().await.expect("up").iter().map(|listed| listed.row.worker).collect();
    assert_eq!((record(&world).await.complete, workers), (vec!["0/0:2:4".to_owned()], vec![4, 5]));
    // Another setting changes nothing in a namespace that already has parts.
    let settings = KeeperSettings { rows_at_once: 8, max_worker: 1, ..world.settings() };
    world.start(settings).issuer.leased().await;
    assert_eq!(record(&world).await.complete, ["0/0:2:5"]);
}

#[tokio::test(start_paused = true)]
async fn row_that_was_lost_is_not_taken_for_one_that_was_never_needed() {
    let world = world();
    let settings = || KeeperSettings { rows_at_once: 2, max_worker: 1, ..world.settings() };
    let node = world.start(settings());
    node.issuer.leased().await;
    world.store.lose_row(&world.scope(), 1);
    let _other = world.start(settings());
    world.pass(second(1)).await;
    let rows = world.store.list_rows().await.expect("up");
    let layout = node.issuer.layout();
    let ahead = layout.first_position(layout.tick_clamped(NOW + 300_000));
    let marks: Vec<u64> = rows.iter().map(|listed| listed.row.marks[0]).collect();
    assert!(marks.len() == 2 && marks[0] == 0 && marks[1] > ahead, "{marks:?}");
}

/// The store's clock steps between the decision to add rows and the write that adds them.
#[tokio::test(start_paused = true)]
async fn rows_are_complete_only_once_they_were_added() {
    let world = world();
    world.store.step_during_survey(&world.store_clock, 20_000);
    world.store.step_during_survey(&world.store_clock, 0);
    let node = world.start(world.settings());
    world.pass(second(1)).await;
    assert_eq!(world.store.list_rows().await.expect("up").len(), 8);
    assert_eq!(record(&world).await.complete, ["0/0"]);
    world.issue(&node, "order", 10).await;
}
