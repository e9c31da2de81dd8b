//! Many nodes that start at once.

use std::{collections::HashSet, sync::Arc, time::Duration};

use rand::{SeedableRng, rngs::StdRng};
use tokio::time::Instant;

use super::{faulty_store::FaultyStore, world::NOW};
use crate::{
    core::{
        clock::ManualClock,
        layout::{LayoutSpec, TimeUnit},
    },
    keeper::{Keeper, KeeperSettings, LeaseOperation, LeaseOutcome, tests::world::Events},
    store::MemoryStore,
};

const NODES: u64 = 1_000;
const LATENCY: Duration = Duration::from_millis(10);

/// In simulated time: all read the same rows at the same moments, and each answer takes 10 ms.
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
    // In step, 32 rows are won, then 64, 128, 256 and 512: fewer than four conflicts a node.
    assert!(conflicts < 4 * workers.len(), "{conflicts} conflicts");
}
