//! Runs a fleet under load while its database fails over and back, and loses writes both times.
//!
//! `WINDOW=20` makes leases reach 20 s. By default they reach less far than the replica is behind,
//! so a row's mark there is past, and only the epoch keeps two nodes from the same IDs.

use std::{ptr, sync::Arc, time::Duration};

use rustix::process::Signal;
use tokio::{
    join,
    task::JoinSet,
    time::{Instant, sleep},
};

use super::report::{Report, Row};
use crate::{
    load::{Home, Load},
    service::{PATIENCE, Service, Setup, from_environment},
    support::{
        pair::{Pair, Replicated},
        poll,
    },
};

/// Nodes at first; the last one is paused.
const NODES: usize = 4;
/// As many rows as nodes in the end, so that new nodes take those of the fleet when they expire.
const LARGEST_WORKER: usize = NODES + 2;
/// Far below the defaults, so that a test need not wait for minutes.
const LEASES: [(&str, &str); 3] =
    [("lease.ttl", "5s"), ("lease.renew", "1s"), ("lease.max_clock_skew", "500ms")];
/// In seconds.
const WINDOW: u64 = 5;
/// How long replication is stopped before the primary dies.
const BEHIND: Duration = Duration::from_millis(4_500);
/// How long no server takes writes. The paused node has range left when it wakes up.
const OUTAGE: Duration = Duration::from_millis(500);
/// The time from the start of a new node until the paused one wakes up.
const ALONE: Duration = Duration::from_millis(500);
/// The time until requests have reached a paused process.
const ARRIVING: Duration = Duration::from_millis(100);

pub(super) async fn fleet_under_load(engine: &'static dyn Replicated) {
    let mut fleet = Fleet::start(engine).await;
    let fail_over = fleet.fail_over("fail-over").await;
    fleet.pair.rejoin().await;
    let fail_back = fleet.fail_over("fail-back").await;
    fleet.load.stop().await;
    let rows = vec![fail_over, fail_back];
    let report = Report { engine: engine.name(), leases: fleet.leases, rows };
    println!("\n{report}");
    assert_eq!(fleet.load.unexpected(), [""; 0]);
    assert_eq!(fleet.load.collected.duplicates(), 0);
}

struct Fleet {
    pair: Pair,
    leases: Vec<(&'static str, String)>,
    setup: Setup,
    load: Arc<Load>,
    nodes: Vec<Node>,
}

struct Node {
    service: Service,
    home: Arc<Home>,
}

impl Fleet {
    async fn start(engine: &'static dyn Replicated) -> Self {
        let pair = Pair::start_watched(engine).await;
        let window = from_environment("WINDOW").unwrap_or(WINDOW);
        let mut leases = vec![("lease.window", format!("{window}s"))];
        leases.extend(LEASES.map(|(key, value)| (key, value.to_owned())));
        let setup = Setup::new()
            .set("store.url", pair.url())
            .set("store.timeout", "1s")
            .set("worker.max_id", LARGEST_WORKER);
        let setup = leases.iter().fold(setup, |setup, (key, value)| setup.set(key, value));
        let mut fleet = Self { pair, leases, setup, load: Arc::default(), nodes: Vec::new() };
        for _ in 0..NODES {
            let service = fleet.setup.clone().start_leased().await;
            fleet.add(service);
        }
        fleet.until_all_have_written().await;
        fleet.pair.until_caught_up().await;
        fleet
    }

    /// Kills the primary some time after replication stopped. Meanwhile one node is paused, and
    /// another one starts right after the kill.
    async fn fail_over(&mut self, step: &'static str) -> Row {
        let begun = self.begin();
        self.pair.stop_replication().await;
        let acknowledged = self.written().await;
        sleep(BEHIND).await;
        let lost_writes = self.written().await - acknowledged;
        let paused = &self.nodes[NODES - 1];
        paused.home.harm();
        paused.service.signal(Signal::STOP);
        self.pair.kill_primary();
        sleep(OUTAGE).await;
        self.pair.promote().await;

        let start = self.start_another().await;
        let (starting_wait, ()) = join!(self.until_started(start), self.wake_paused());
        self.until_all_have_written().await;
        self.rush_on_all().await;
        let running = (0..self.nodes.len() - 1).filter(|index| *index != NODES - 1);
        let running_gap = self.longest_gap(running);
        self.end(Row { step, lost_writes, running_gap, starting_wait, ..begun })
    }

    fn begin(&self) -> Row {
        self.load.begin();
        let collected = &self.load.collected;
        Row {
            step: "",
            lost_writes: 0,
            ids: collected.count(),
            duplicates: collected.duplicates(),
            running_gap: Duration::ZERO,
            starting_wait: Duration::ZERO,
        }
    }

    /// Returns the figures since [`Self::begin`].
    fn end(&self, row: Row) -> Row {
        let collected = &self.load.collected;
        let (ids, duplicates) =
            (collected.count() - row.ids, collected.duplicates() - row.duplicates);
        Row { ids, duplicates, ..row }
    }

    fn add(&mut self, service: Service) {
        let home = self.load.join(&service);
        self.load.watch(&home);
        self.nodes.push(Node { service, home });
    }

    /// Starts one more node, and returns when it started.
    async fn start_another(&mut self) -> Instant {
        let start = Instant::now();
        let service = self.setup.clone().start().await;
        self.add(service);
        start
    }

    /// Waits until the last started node issues, and returns how long that took.
    async fn until_started(&self, start: Instant) -> Duration {
        let started = self.nodes.last().expect("it was started");
        poll::until(PATIENCE, "the new node issues", async || {
            (started.home.served().ids > 0).then_some(start.elapsed())
        })
        .await
    }

    /// Resumes the paused node after a while, and waits until it issues.
    async fn wake_paused(&self) {
        sleep(ALONE).await;
        let paused = &self.nodes[NODES - 1];
        let mut requests = JoinSet::new();
        self.load.rush(&paused.home, &mut requests);
        sleep(ARRIVING).await;
        paused.service.signal(Signal::CONT);
        let others = self.nodes.iter().filter(|node| !ptr::eq(*node, paused));
        others.for_each(|node| self.load.rush(&node.home, &mut requests));
        requests.join_all().await;
        let ids = paused.home.served().ids;
        poll::until(PATIENCE, "the paused node issues", async || {
            (paused.home.served().ids > ids).then_some(())
        })
        .await;
        paused.home.is_well();
    }

    async fn rush_on_all(&self) {
        let mut requests = JoinSet::new();
        self.nodes.iter().for_each(|node| self.load.rush(&node.home, &mut requests));
        requests.join_all().await;
    }

    fn longest_gap(&self, nodes: impl Iterator<Item = usize>) -> Duration {
        nodes.map(|index| self.nodes[index].home.served().gap.longest()).max().unwrap_or_default()
    }

    /// Returns how many writes of rows the store acknowledged to the present nodes.
    async fn written(&self) -> usize {
        let mut count = 0;
        for node in &self.nodes {
            count += node.written().await;
        }
        count
    }

    /// Waits until every node wrote its row after now, and issues.
    async fn until_all_have_written(&self) {
        let mut before = Vec::new();
        for node in &self.nodes {
            before.push(node.written().await);
        }
        for (node, before) in self.nodes.iter().zip(before) {
            poll::until(PATIENCE, "a node writes its row", async || {
                (node.written().await > before).then_some(())
            })
            .await;
            let ids = node.home.served().ids;
            poll::until(PATIENCE, "a node issues", async || {
                (node.home.served().ids > ids).then_some(())
            })
            .await;
        }
    }
}

impl Node {
    async fn written(&self) -> usize {
        let count =
            self.service.metric("raindrop_lease_operations_total", "outcome=\"done\"").await;
        // A count far from the largest exact float.
        format!("{count}").parse().expect("a count")
    }
}
