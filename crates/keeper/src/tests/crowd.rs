//! Many nodes that start at once, and many rows to choose from.

use std::{
    collections::HashSet,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use raindrop_core::{
    clock::ManualClock,
    layout::{LayoutSpec, TimeUnit},
    lease::{HighWaterMarks, History, NodeTimes, Row, Token},
    preset::Preset,
};
use raindrop_store::{
    Call, Intercept, LayoutRecord, MemoryStore, NewRows, Reply, Scope, Store, StoreError,
};
use rand::{SeedableRng, rngs::StdRng};
use tokio::time::Instant;

use super::{
    faulty_store::FaultyStore,
    world::{NOW, second, world},
};
use crate::{Keeper, KeeperSettings, LeaseOperation, LeaseOutcome, tests::world::Events};

const NODES: u64 = 1_000;
const LATENCY: Duration = Duration::from_millis(10);

/// In simulated time all nodes read the same rows at the same moments, and each answer takes 10 ms.
#[tokio::test(start_paused = true)]
async fn thousand_nodes_lease_within_three_seconds_with_few_conflicts() {
    let clock = Arc::new(ManualClock::new(NOW));
    let memory = MemoryStore::with_own_clock(clock.clone());
    let store = Arc::new(FaultyStore::new(memory).with_latency(LATENCY));
    let layout = LayoutSpec { worker_bits: 10, ..LayoutSpec::for_unit(TimeUnit::Millisecond) };
    let layout = layout.build().expect("valid");
    let events = Arc::new(Events::default());
    let began = Instant::now();
    let nodes: Vec<_> = (0..NODES)
        .map(|seed| {
            Keeper::start_with(
                KeeperSettings::new(layout.clone(), "the same for all"),
                store.clone(),
                clock.clone(),
                events.clone(),
                Box::new(StdRng::seed_from_u64(seed)),
            )
        })
        .collect();
    let mut workers = HashSet::new();
    for (_, issuer) in &nodes {
        workers.insert(issuer.leased().await.lease.expect("leased").worker);
    }
    let took = began.elapsed();
    let conflicts = events.count(LeaseOperation::Acquire, LeaseOutcome::Refused);
    assert_eq!((workers.len() as u64, events.panics()), (NODES, 0));
    assert!(took < Duration::from_secs(3), "{took:?}");
    // In step, 32 rows are won, then 64, 128, 256 and 512: fewer than four conflicts for each node.
    assert!(conflicts < 4 * workers.len(), "{conflicts} conflicts");
}

/// A deployment starts its nodes together, so the database gets their first renewals together.
#[tokio::test(start_paused = true)]
async fn nodes_that_started_together_soon_renew_apart() {
    const MINUTES: u64 = 20;
    let world = world();
    let renew = world.settings().lease.renew;
    let nodes: Vec<_> = (0..50).map(|_| world.start(world.settings())).collect();
    for node in &nodes {
        node.issuer.leased().await;
    }
    // Returns the largest number of renewals in a second, in one interval of `lease.renew`.
    let busiest_second = async || {
        let mut most = 0;
        for _ in 0..renew.as_secs() {
            let before = world.store.swaps.load(Ordering::SeqCst);
            world.pass(second(1)).await;
            most = most.max(world.store.swaps.load(Ordering::SeqCst) - before);
        }
        most
    };
    let first = busiest_second().await;
    assert!(first >= 20, "{first} of 50 nodes renew in one second after the start");
    let before = world.store.swaps.load(Ordering::SeqCst);
    world.pass(second(60 * MINUTES)).await;
    let renewals = world.store.swaps.load(Ordering::SeqCst) - before;
    let in_time = 50 * 60 * MINUTES / renew.as_secs();
    assert!((in_time..=in_time * 11 / 10).contains(&renewals), "{renewals} for {in_time}");
    let later = busiest_second().await;
    assert!(later <= 10, "{later} of 50 nodes renew in one second");
}

/// A store that records how many rows each query for free ones returned.
#[derive(Debug)]
struct Reads {
    memory: MemoryStore,
    longest: AtomicUsize,
}

#[async_trait]
impl Intercept for Reads {
    fn memory(&self) -> &MemoryStore {
        &self.memory
    }

    async fn answer(&self, call: Call) -> Result<Reply, StoreError> {
        let reply = call.run(&self.memory).await?;
        if let Some(rows) = reply.downcast_ref::<Vec<Row>>() {
            self.longest.fetch_max(rows.len(), Ordering::SeqCst);
        }
        Ok(reply)
    }
}

/// Returns the workers that eight nodes lease one after the other, of 65 536 whose rows exist, and
/// the largest number of rows that a query returned.
async fn workers_of_many(min_worker: u64) -> (HashSet<u64>, usize) {
    let clock = Arc::new(ManualClock::new(NOW));
    let memory = MemoryStore::with_own_clock(clock.clone());
    let store = Arc::new(Reads { memory, longest: AtomicUsize::new(0) });
    let layout = Preset::Sonyflake.layout();
    let mut workers = HashSet::new();
    let mut keepers = Vec::new();
    for seed in 0..8 {
        let (keeper, issuer) = Keeper::start_with(
            KeeperSettings {
                min_worker,
                rows_at_once: 1 << 16,
                ..KeeperSettings::new(layout.clone(), "the same for all")
            },
            store.clone(),
            clock.clone(),
            Arc::new(Events::default()),
            Box::new(StdRng::seed_from_u64(seed)),
        );
        workers.insert(issuer.leased().await.lease.expect("leased").worker);
        keepers.push(keeper);
    }
    assert_eq!(workers.len(), keepers.len());
    (workers, store.longest.load(Ordering::SeqCst))
}

#[tokio::test(start_paused = true)]
async fn nodes_choose_from_a_part_of_65_536_rows_that_may_be_any() {
    let (workers, longest) = workers_of_many(0).await;
    assert_eq!(longest, 4_096);
    let parts: HashSet<u64> = workers.iter().map(|worker| worker / 4_096).collect();
    assert!(parts.len() > 2, "{workers:?}");
}

#[tokio::test(start_paused = true)]
async fn parts_of_many_rows_are_inside_the_range() {
    let (workers, longest) = workers_of_many(50_000).await;
    assert!(workers.iter().all(|worker| *worker >= 50_000), "{workers:?}");
    assert_eq!(longest, 15_536 / 4);
}

#[tokio::test(start_paused = true)]
async fn last_usable_row_is_found_behind_65_000_with_marks_ahead() {
    let clock = Arc::new(ManualClock::new(NOW));
    let memory = MemoryStore::with_own_clock(clock.clone());
    let settings = KeeperSettings::new(Preset::Sonyflake.layout(), "node");
    let layout = &settings.layout;
    let scope = |first, last| Scope::new("default", layout, first, last);
    let history = History::first("memory", Token::from_bits(8), NodeTimes::default());
    let mut record = LayoutRecord::new(layout.canonical(), Token::from_bits(7), 1, history);
    record.complete = vec![layout.reserved_key()];
    memory.create_record("default", &record).await.expect("memory");
    let ahead = layout.first_position(layout.tick_clamped(NOW + 3_600_000));
    for (scope, mark) in
        [(scope(0, 65_000), ahead), (scope(65_001, 65_001), 0), (scope(65_002, 65_535), ahead)]
    {
        let marks = HighWaterMarks::all_at(mark, 1);
        let (seed, until_ms) = (Token::from_bits(1 << 100), i64::MAX);
        let new = NewRows { marks, seed, record: record.token, until_ms };
        assert!(memory.create_rows(&scope, &new).await.expect("memory"));
    }
    let random = Box::new(StdRng::seed_from_u64(1));
    let events = Arc::new(Events::default());
    let (_keeper, issuer) =
        Keeper::start_with(settings.clone(), Arc::new(memory), clock, events, random);
    assert_eq!(issuer.leased().await.lease.expect("leased").worker, 65_001);
}
