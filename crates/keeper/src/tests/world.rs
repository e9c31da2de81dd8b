//! Nodes over one faulty store, under a clock that is moved by hand.

use std::{
    collections::{HashMap, HashSet},
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use raindrop_core::{
    clock::{Clock, ManualClock},
    id::Id,
    layout::{LayoutSpec, TimeUnit},
    lease::{History, NodeTimes, Row, Token},
};
use raindrop_store::{LayoutRecord, MemoryStore, Scope, Store};
use rand::{SeedableRng, rngs::StdRng};

use super::faulty_store::FaultyStore;
use crate::{
    Exhaustion, Issuer, Keeper, KeeperSettings, KeeperTask, LeaseOperation, LeaseOutcome, Observer,
    Operator, Released, RollbackAction, Status,
};

pub(super) const NOW: i64 = 1_763_650_000_000;

/// Returns nodes with the default layout for milliseconds.
pub(super) fn world() -> World {
    World::new(LayoutSpec::for_unit(TimeUnit::Millisecond))
}

pub(super) fn second(count: u64) -> Duration {
    Duration::from_secs(count)
}

/// True time is the store's clock; each node's clock can be stepped apart from it.
#[derive(Debug)]
pub(super) struct World {
    pub(super) store: Arc<FaultyStore>,
    pub(super) store_clock: Arc<ManualClock>,
    clocks: Mutex<Vec<Arc<ManualClock>>>,
    /// The cursors from which each ID came: a code's, or that of all codes, whose name is empty.
    issued: Mutex<HashMap<Id, HashSet<String>>>,
    spec: LayoutSpec,
}

pub(super) struct Node {
    pub(super) keeper: Keeper,
    pub(super) issuer: Issuer,
    pub(super) clock: Arc<ManualClock>,
    pub(super) events: Arc<Events>,
    codes_shared: bool,
}

#[derive(Debug, Default)]
pub(super) struct Events {
    pub(super) rollbacks: Mutex<Vec<RollbackAction>>,
    pub(super) operations: Mutex<Vec<(LeaseOperation, LeaseOutcome)>>,
    pub(super) exhaustions: Mutex<Vec<Exhaustion>>,
    issued: Mutex<Vec<u64>>,
    /// The operation at whose next end the keeper panics.
    pub(super) panics_at: Mutex<Option<LeaseOperation>>,
    panics: AtomicU64,
    epochs: AtomicU64,
}

impl Observer for Events {
    fn ids_issued(&self, count: u64) {
        self.issued.lock().expect("unpoisoned").push(count);
    }

    fn exhausted(&self, outcome: Exhaustion) {
        self.exhaustions.lock().expect("unpoisoned").push(outcome);
    }

    fn clock_rolled_back(&self, action: RollbackAction) {
        self.rollbacks.lock().expect("unpoisoned").push(action);
    }

    fn lease_operation(&self, operation: LeaseOperation, outcome: LeaseOutcome) {
        self.operations.lock().expect("unpoisoned").push((operation, outcome));
        let planted = self.panics_at.lock().expect("unpoisoned").take_if(|at| *at == operation);
        assert!(planted.is_none(), "planted by a test");
    }

    fn epoch_changed(&self) {
        self.epochs.fetch_add(1, Ordering::SeqCst);
    }

    fn step_panicked(&self, _: KeeperTask) {
        self.panics.fetch_add(1, Ordering::SeqCst);
    }
}

impl Events {
    pub(super) fn count(&self, operation: LeaseOperation, outcome: LeaseOutcome) -> usize {
        let operations = self.operations.lock().expect("unpoisoned");
        operations.iter().filter(|event| **event == (operation, outcome)).count()
    }

    /// Returns the number of IDs in each report.
    pub(super) fn issued(&self) -> Vec<u64> {
        self.issued.lock().expect("unpoisoned").clone()
    }

    /// Returns how many steps of the keeper panicked.
    pub(super) fn panics(&self) -> u64 {
        self.panics.load(Ordering::SeqCst)
    }

    /// Returns how many epochs this node began.
    pub(super) fn epochs(&self) -> u64 {
        self.epochs.load(Ordering::SeqCst)
    }

    pub(super) fn rollbacks(&self) -> Vec<RollbackAction> {
        self.rollbacks.lock().expect("unpoisoned").clone()
    }
}

impl World {
    /// Creates a world whose store has a clock of its own.
    pub(super) fn new(spec: LayoutSpec) -> Self {
        Self::with_store(spec, |clock| MemoryStore::with_own_clock(clock))
    }

    /// Creates a world whose store has no clock of its own, like SQLite. Its clock shows true time
    /// all the same, whatever the nodes' show.
    pub(super) fn with_local_clock(spec: LayoutSpec) -> Self {
        Self::with_store(spec, |clock| MemoryStore::new(clock))
    }

    fn with_store(spec: LayoutSpec, memory: impl FnOnce(Arc<ManualClock>) -> MemoryStore) -> Self {
        let store_clock = Arc::new(ManualClock::new(NOW));
        let memory = memory(store_clock.clone());
        Self {
            store: Arc::new(FaultyStore::new(memory)),
            store_clock,
            clocks: Mutex::default(),
            issued: Mutex::default(),
            spec,
        }
    }

    pub(super) fn settings(&self) -> KeeperSettings {
        KeeperSettings::new(self.spec.build().expect("valid"), "the same for all")
    }

    /// Writes a layout record as an interrupted node leaves it, with these keys' rows complete.
    pub(super) async fn record(&self, namespace: &str, canonical: &str, complete: &[&str]) {
        let history = History::first("memory", Token::from_bits(2), NodeTimes::default());
        let mut record = LayoutRecord::new(canonical, Token::from_bits(1), 1, history);
        record.complete = complete.iter().map(|key| (*key).to_owned()).collect();
        self.store.create_record(namespace, &record).await.expect("up");
    }

    /// Returns the layout that the namespace's record names.
    pub(super) async fn recorded_layout(&self) -> String {
        self.store.read_record("default").await.expect("up").expect("a record").canonical
    }

    /// Returns the true time, in Unix ms.
    pub(super) fn now_ms(&self) -> i64 {
        self.store_clock.now_ms()
    }

    /// Returns the epoch in the namespace's record.
    pub(super) async fn epoch(&self) -> Token {
        let record = self.store.read_record("default").await.expect("up");
        record.map_or(Token::UNUSED, |record| record.history.epoch())
    }

    /// Returns the scope of all rows of the namespace.
    pub(super) fn scope(&self) -> Scope {
        let layout = self.settings().layout;
        Scope::new("default", &layout, 0, layout.largest_worker())
    }

    /// Returns settings for exactly this worker id.
    pub(super) fn only(&self, worker: u64) -> KeeperSettings {
        KeeperSettings { min_worker: worker, max_worker: worker, ..self.settings() }
    }

    pub(super) fn start(&self, settings: KeeperSettings) -> Node {
        self.start_by(settings, self.store.clone())
    }

    /// Starts a node that reaches the store through `store`.
    pub(super) fn start_by(&self, settings: KeeperSettings, store: Arc<dyn Store>) -> Node {
        let clock = Arc::new(ManualClock::new(self.store_clock.now_ms()));
        let mut clocks = self.clocks.lock().expect("unpoisoned");
        clocks.push(clock.clone());
        let events = Arc::new(Events::default());
        let seed = 1_000 + clocks.len() as u64;
        let codes_shared = settings.issue.codes_shared;
        let (keeper, issuer) = Keeper::start_with(
            settings,
            store,
            clock.clone(),
            events.clone(),
            Box::new(StdRng::seed_from_u64(seed)),
        );
        Node { keeper, issuer, clock, events, codes_shared }
    }

    /// Returns an operator with these settings, on a machine whose clock is right.
    pub(super) fn operator(&self, settings: KeeperSettings) -> Operator {
        let random = Box::new(StdRng::seed_from_u64(7));
        Operator::with_random(settings, self.store.clone(), self.store_clock.clone(), random)
    }

    /// Starts a node with the default settings, and waits until it has a lease.
    pub(super) async fn node(&self) -> Node {
        self.node_with(|_| {}).await
    }

    pub(super) async fn node_with(&self, change: impl FnOnce(&mut KeeperSettings)) -> Node {
        let mut settings = self.settings();
        change(&mut settings);
        let node = self.start(settings);
        node.issuer.leased().await;
        node
    }

    /// Lets time pass for every node, in steps that timers can see.
    pub(super) async fn pass(&self, duration: Duration) {
        self.pass_in_steps(duration, Duration::from_millis(50)).await;
    }

    /// Lets time pass in longer steps, for hours and days.
    pub(super) async fn pass_in_steps(&self, duration: Duration, longest: Duration) {
        let mut left = duration;
        while !left.is_zero() {
            let step = left.min(longest);
            self.store_clock.advance(step);
            for clock in self.clocks.lock().expect("unpoisoned").iter() {
                clock.advance(step);
            }
            tokio::time::sleep(step).await;
            left -= step;
        }
    }

    /// Lets time pass until a node has sent the store a write.
    pub(super) async fn until_swap(&self) {
        let before = self.store.swaps.load(Ordering::SeqCst);
        while self.store.swaps.load(Ordering::SeqCst) == before {
            self.pass(Duration::from_millis(50)).await;
        }
    }

    /// Issues on a node and checks that no node issued these IDs before.
    pub(super) async fn issue(&self, node: &Node, code: &str, count: u32) -> Vec<Id> {
        let ids = node.issuer.next_ids(code, count).await.expect("issued");
        assert_eq!(node.events.panics(), 0, "a step of the keeper panicked");
        self.check(if node.codes_shared { "" } else { code }, ids.collect())
    }

    /// Checks that only codes with cursors of their own have equal IDs.
    pub(super) fn check(&self, cursor: &str, ids: Vec<Id>) -> Vec<Id> {
        let mut issued = self.issued.lock().expect("unpoisoned");
        for id in &ids {
            let owners = issued.entry(*id).or_default();
            let may_repeat = |owner: &String| !cursor.is_empty() && !owner.is_empty();
            let is_new = owners.iter().all(may_repeat) && owners.insert(cursor.to_owned());
            assert!(is_new, "{cursor:?} {id} was issued twice");
        }
        ids
    }

    pub(super) async fn row(&self, worker: u64) -> Row {
        let rows = self.store.list_rows().await.expect("up");
        let row = rows.into_iter().find(|listed| listed.row.worker == worker);
        row.expect("the row is there").row
    }
}

impl Node {
    pub(super) fn status(&self) -> Status {
        self.issuer.status()
    }

    pub(super) fn worker(&self) -> u64 {
        self.status().lease.expect("leased").worker
    }

    pub(super) fn lane(&self) -> u64 {
        self.status().lease.expect("leased").lane
    }

    /// Returns how far the lease reaches ahead of this node's clock, in ms.
    pub(super) fn reach_ms(&self) -> i64 {
        self.status().lease.expect("leased").valid_until_ms - self.clock.now_ms()
    }

    pub(super) async fn stop(self) -> Released {
        self.keeper.release(Duration::from_secs(10)).await
    }
}
