//! The store as each node sees it: a memory store behind a network that fails on demand.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    fmt,
    ops::RangeInclusive,
    sync::{Arc, Mutex, MutexGuard},
    time::Duration,
};

use async_trait::async_trait;
use raindrop_core::{
    layout::Layout,
    lease::{Recorded, Relayout, RelayoutStage, Row, RowExpiry, RowWrite, Token},
    planted::{Bug, planted},
};
use raindrop_store::{
    Call, Intercept, LayoutRecord, ListedRow, MemoryStore, NewRows, Reply, Scope, Snapshot,
    Store as _, StoreError, Survey, UnreleasedRow,
};
use tokio::time::sleep;

use crate::{
    activity::Activity,
    check::{Failure, FailureKind, Journal},
    model::{Fault, Setup},
    time::{SkewedClock, Time},
};

/// How often a held-back answer checks whether it may continue.
const HELD_BACK: Duration = Duration::from_millis(500);

/// The store, the network, and the simulation's knowledge of both.
pub(crate) struct Cluster {
    pub(crate) memory: MemoryStore,
    time: Arc<Time>,
    window_ms: i64,
    skew_ms: i64,
    latency: Duration,
    compares_tokens: bool,
    state: Mutex<State>,
}

pub(crate) struct State {
    pub(crate) outage: bool,
    /// A backup is being restored: only operators reach the store.
    pub(crate) restoring: bool,
    /// The store writes no log: writes become visible, and the store acknowledges none.
    pub(crate) log_hangs: bool,
    /// The content of the store before each write that may not be durable.
    unacknowledged: Vec<Unacknowledged>,
    writes: u64,
    /// How often the store crashed, which ends every connection.
    crashes: u64,
    pub(crate) links: Vec<Link>,
    pub(crate) late: Vec<LateWrite>,
    pub(crate) activity: Activity,
    pub(crate) journal: Journal,
    pub(crate) failure: Option<Failure>,
    seen: Seen,
    /// Writes whose outcome their writer does not know, with the token that they started from.
    unknown: BTreeMap<(u32, u64), (Token, Vec<Token>)>,
    /// The limits up to which each node knows that it may issue.
    limits: BTreeMap<(u32, u64, u64), u64>,
    /// How many leases each node may have begun.
    leases: BTreeMap<u32, u64>,
    surveyed: BTreeMap<u32, Surveyed>,
    /// The highest mark that a row ever had, by layout, worker and lane.
    highest: BTreeMap<(String, u64, usize), u64>,
    /// The processes that crashed or were replaced.
    pub(crate) dead: BTreeSet<u32>,
}

/// The simulation's knowledge of the present rows.
#[derive(Clone, Debug, Default)]
struct Seen {
    /// The process that wrote each held row last.
    owners: BTreeMap<u64, u32>,
    /// HighWaterMarks that the last write about them lowered.
    lowered: BTreeMap<(u64, usize), u64>,
    /// Leases in the store that their process does not know of yet.
    new_leases: BTreeSet<(u32, u64)>,
    /// The processes that held the rows that vanished.
    lost: BTreeMap<u64, u32>,
}

/// The store as it was before a write that a crash may lose.
struct Unacknowledged {
    write: u64,
    before: Moment,
}

/// The content of the store, and the simulation's knowledge of it.
#[derive(Clone)]
pub(crate) struct Moment {
    pub(crate) held: Snapshot,
    seen: Seen,
}

/// The connection between one node and the store.
#[derive(Debug, Default)]
pub(crate) struct Link {
    pub(crate) cut: bool,
    pub(crate) held_back: bool,
    pub(crate) slow_ms: u64,
    pub(crate) faults: VecDeque<Option<(Fault, bool)>>,
}

pub(crate) struct LateWrite {
    writer: Writer,
    change: Change,
}

/// A write on its way.
enum Change {
    Row(Scope, Swap),
    /// Namespace, expected token, and the record.
    Record(String, Token, LayoutRecord),
}

/// A compare-and-swap on its way.
#[derive(Clone, Debug)]
struct Swap {
    worker: u64,
    expected: Token,
    write: RowWrite,
    /// The clocks that the writer knew.
    surveyed: Surveyed,
}

/// The clocks when a process last asked for the store's.
#[derive(Clone, Copy, Debug, Default)]
struct Surveyed {
    wall_ms: i64,
    store_ms: i64,
}

/// One process, and its machine.
#[derive(Clone, Debug)]
pub(crate) struct Writer {
    pub(crate) node: usize,
    pub(crate) generation: u32,
    pub(crate) clock: Arc<SkewedClock>,
    /// The layout with which the process started.
    pub(crate) layout: Arc<Layout>,
    /// The worker ids that it may lease.
    pub(crate) workers: RangeInclusive<u64>,
    /// Every answer takes this much longer.
    pub(crate) slow_ms: u64,
    /// Whether it is an operator's command and not a node.
    pub(crate) is_operator: bool,
}

impl fmt::Debug for Cluster {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cluster").finish_non_exhaustive()
    }
}

impl Cluster {
    pub(crate) fn new(
        setup: &Setup,
        time: &Arc<Time>,
        memory: MemoryStore,
        compares_tokens: bool,
        verbose: bool,
    ) -> Arc<Self> {
        // One more than the nodes: for the operators.
        let links = (0..=setup.nodes()).map(|_| Link::default()).collect();
        Arc::new(Self {
            memory,
            time: Arc::clone(time),
            window_ms: i64::try_from(setup.window_ms).expect("small"),
            skew_ms: i64::try_from(setup.skew_ms).expect("small"),
            latency: Duration::from_millis(setup.latency_ms / 2),
            compares_tokens,
            state: Mutex::new(State {
                outage: false,
                restoring: false,
                log_hangs: false,
                unacknowledged: Vec::new(),
                writes: 0,
                crashes: 0,
                links,
                late: Vec::new(),
                activity: Activity::default(),
                journal: Journal::new(verbose),
                failure: None,
                seen: Seen::default(),
                unknown: BTreeMap::new(),
                limits: BTreeMap::new(),
                leases: BTreeMap::new(),
                surveyed: BTreeMap::new(),
                highest: BTreeMap::new(),
                dead: BTreeSet::new(),
            }),
        })
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("unpoisoned")
    }

    /// Returns the present content of the store.
    pub(crate) fn moment(&self) -> Moment {
        Moment { held: self.memory.snapshot(), seen: self.state().seen.clone() }
    }

    /// Notes a write, which a crash may lose until the store acknowledges it or a later one.
    fn before_write(&self) {
        let before = self.moment();
        let mut state = self.state();
        state.writes += 1;
        let write = state.writes;
        state.unacknowledged.push(Unacknowledged { write, before });
    }

    /// Loses this many of the writes that were not acknowledged, the last ones first.
    pub(crate) fn crash(&self, lose: usize) {
        let mut state = self.state();
        let count = state.unacknowledged.len();
        let lost = lose % (count + 1);
        state.crashes += 1;
        state.log_hangs = false;
        state.activity.store_crashes += 1;
        state.activity.lost_writes += lost as u64;
        if lost > 0 {
            let before = state.unacknowledged.swap_remove(count - lost).before;
            state.seen = before.seen;
            self.memory.restore(before.held);
        }
        // The store recovered the writes that are left from its log.
        state.unacknowledged.clear();
    }

    /// Restores the content of that moment, and ends every connection.
    pub(crate) fn restore(&self, backup: Moment) {
        let mut state = self.state();
        state.crashes += 1;
        state.unacknowledged.clear();
        state.seen = backup.seen;
        self.memory.restore(backup.held);
    }

    /// Becomes a server of this identity with the content of that moment, and ends every
    /// connection.
    pub(crate) fn fail_over(&self, identity: &str, replica: Moment) {
        let mut state = self.state();
        state.crashes += 1;
        state.log_hangs = false;
        state.unacknowledged.clear();
        state.seen = replica.seen;
        self.memory.fail_over(identity, replica.held);
    }

    /// Returns whether a crash would lose nothing.
    pub(crate) fn is_durable(&self) -> bool {
        self.state().unacknowledged.is_empty()
    }

    /// Makes everything that is visible durable.
    pub(crate) fn make_durable(&self) {
        self.state().unacknowledged.clear();
    }

    /// Lets a held-back write arrive.
    pub(crate) async fn deliver(&self, late: LateWrite) {
        let took_place = self.arrive(&late).await;
        let mut state = self.state();
        if took_place {
            state.activity.late_applied += 1;
        } else {
            state.activity.late_refused += 1;
        }
        if state.dead.contains(&late.writer.generation) {
            state.activity.late_after_crash += 1;
        }
    }

    async fn arrive(&self, late: &LateWrite) -> bool {
        match &late.change {
            Change::Row(scope, swap) => self.apply(&late.writer, scope, swap).await,
            Change::Record(namespace, expected, record) => {
                self.apply_record(&late.writer, namespace, *expected, record).await
            }
        }
    }

    /// Runs one atomic swap of the record.
    async fn apply_record(
        &self,
        writer: &Writer,
        namespace: &str,
        expected: Token,
        record: &LayoutRecord,
    ) -> bool {
        let before = self.memory.read_record(namespace).await.expect("memory does not fail");
        self.before_write();
        let answer = self.memory.swap_record(namespace, expected, record).await;
        let took_place = answer.expect("memory does not fail");
        let has_more_rows = before.is_some_and(|before| {
            !before.complete.is_empty() && before.complete != record.complete
        });
        self.state().activity.more_rows += u64::from(took_place && has_more_rows);
        let elapsed_ms = self.time.elapsed_ms();
        self.state().journal.note((elapsed_ms, writer.generation, took_place), || {
            let outcome = if took_place { "done" } else { "refused" };
            let words = &record.canonical;
            format!("{elapsed_ms:>9} ms  process {}: record {words}: {outcome}", writer.generation)
        });
        took_place
    }

    /// Runs one atomic swap, and notes what the simulation learns from it.
    async fn apply(&self, writer: &Writer, scope: &Scope, swap: &Swap) -> bool {
        let Swap { worker, expected, ref write, .. } = *swap;
        let before = self.memory.read_row(scope, worker).await.expect("memory does not fail");
        let Some(before) = before else { return false };
        let expected = if self.compares_tokens { expected } else { before.token };
        self.before_write();
        let answer = self.memory.swap_row(scope, worker, expected, write).await;
        let took_place = answer.expect("memory does not fail");
        let record = self.memory.read_record(&scope.namespace).await;
        let record = record.expect("memory does not fail");
        let barrier = record.map_or(0, |record| record.history.barrier(&writer.layout));
        let mut state = self.state();
        state.journal.note((worker, writer.generation, took_place, write.lane), || {
            format!(
                "{:>9} ms  process {} on node {}: row {worker} {} -> {} lane {} {:?}: {}",
                self.time.elapsed_ms(),
                writer.generation,
                writer.node,
                before.marks,
                write.marks,
                write.lane,
                write.expiry,
                if took_place { "done" } else { "refused" }
            )
        });
        if took_place {
            self.learn(&mut state, writer, (&before, barrier), swap);
        }
        took_place
    }

    fn learn(
        &self,
        state: &mut State,
        writer: &Writer,
        (before, barrier): (&Row, u64),
        swap: &Swap,
    ) {
        let (worker, write) = (before.worker, &swap.write);
        if writer.is_operator {
            state.seen.owners.remove(&worker);
            // The marks may be in units of another layout.
            state.seen.lowered.retain(|(lowered, _), _| *lowered != worker);
            return;
        }
        let owner = state.seen.owners.get(&worker).copied();
        let Surveyed { wall_ms, store_ms } = swap.surveyed;
        let is_taken = owner != Some(writer.generation);
        // A process takes a row by the store's clock. A holder may ride out a wrong one, also into
        // a new epoch.
        let enters = before.epoch != write.epoch;
        let was_held = || state.limits(writer.generation).keys().any(|(of, _)| *of == worker);
        let bounded = is_taken && !(enters && was_held()) && !self.memory.clock_is_local();
        let now_ms = if bounded { wall_ms.min(store_ms + self.skew_ms) } else { wall_ms };
        let layout = &writer.layout;
        let mut latest = layout.first_position(layout.tick_clamped(now_ms + self.window_ms) + 1);
        if before.epoch != write.epoch {
            // A lease in another epoch begins at the barrier.
            latest = latest.max(barrier + layout.positions_per_tick());
        }
        let is_released = write.expiry == RowExpiry::Released;
        if is_released {
            // Frees the row as an operator does: one that a wrong clock wrote is freed beyond all
            // leases.
            latest = u64::MAX;
        }
        for (lane, (old, new)) in before.marks.iter().zip(write.marks.iter()).enumerate() {
            // A store that crashed or was restored may get a former mark again.
            let highest = state.highest.entry((layout.canonical(), worker, lane)).or_default();
            let is_higher = new > *highest;
            *highest = new.max(*highest);
            if new > old && new > latest && is_higher {
                let ahead = layout.tick_of(new) - layout.tick_of(latest);
                state.failure.get_or_insert(Failure {
                    kind: FailureKind::MarkRanAway,
                    detail: format!(
                        "process {} wrote a mark of worker {worker} {ahead} ticks beyond its window",
                        writer.generation
                    ),
                });
            }
            if new < old {
                state.seen.lowered.insert((worker, lane), new);
            }
        }
        if is_released {
            state.seen.owners.remove(&worker);
            return;
        }
        if is_taken || before.lane != write.lane {
            let start = before.marks[write.lane];
            state.activity.reused += u64::from(start > 0);
            let lowered = state.seen.lowered.get(&(worker, write.lane)) == Some(&start);
            state.activity.lowered_starts += u64::from(lowered);
            state.seen.new_leases.insert((writer.generation, worker));
        }
        if write.marks[write.lane] > before.marks[write.lane] {
            state.seen.lowered.remove(&(worker, write.lane));
        }
        state.seen.owners.insert(worker, writer.generation);
    }
}

impl State {
    /// Returns whether another process took the row that this one issues on.
    pub(crate) fn is_dispossessed(&self, generation: u32, worker: u64) -> bool {
        self.seen.owners.get(&worker).is_some_and(|owner| *owner != generation)
    }

    /// Notes that a row is gone, and returns its holder.
    pub(crate) fn lose(&mut self, worker: u64) -> Option<u32> {
        let owner = self.seen.owners.remove(&worker)?;
        self.seen.lost.insert(worker, owner);
        Some(owner)
    }

    /// Returns the limits up to which a process knows that it may issue, by worker and lane.
    pub(crate) fn limits(&self, generation: u32) -> BTreeMap<(u64, u64), u64> {
        let own = self.limits.range((generation, 0, 0)..=(generation, u64::MAX, u64::MAX));
        own.map(|((_, worker, lane), limit)| ((*worker, *lane), *limit)).collect()
    }

    /// Returns a number that changes whenever a process may have begun another lease.
    pub(crate) fn lease(&self, generation: u32) -> u64 {
        self.leases.get(&generation).copied().unwrap_or_default()
    }

    /// Notes that the process got the acknowledgement of its write.
    fn confirmed(&mut self, generation: u32, worker: u64, lane: usize, limit: u64) {
        let key = (generation, worker, lane as u64);
        self.limits.insert(key, limit);
        if self.seen.new_leases.remove(&(generation, worker)) {
            *self.leases.entry(generation).or_default() += 1;
        }
    }
}

/// The connection that carried a request.
struct Way {
    crashes: u64,
}

fn unavailable() -> StoreError {
    StoreError::Unavailable("planned by the simulation".into())
}

/// One process's connection.
#[derive(Debug)]
pub(crate) struct Connection {
    pub(crate) cluster: Arc<Cluster>,
    pub(crate) writer: Writer,
}

impl Connection {
    fn reachable(&self) -> Result<(), StoreError> {
        let state = self.cluster.state();
        let restoring = state.restoring && !self.writer.is_operator;
        let cut = state.outage || restoring || state.links[self.writer.node].cut;
        if cut { Err(unavailable()) } else { Ok(()) }
    }

    /// Brings a request to the store, and returns the connection for its answer.
    async fn go(&self) -> Result<Way, StoreError> {
        self.alive().await;
        self.reachable()?;
        let crashes = self.cluster.state().crashes;
        if !self.cluster.latency.is_zero() {
            sleep(self.cluster.latency).await;
            self.alive().await;
            self.reachable()?;
        }
        let way = Way { crashes };
        self.unbroken(&way)?;
        Ok(way)
    }

    /// Fails if the store crashed, which ends every connection.
    fn unbroken(&self, way: &Way) -> Result<(), StoreError> {
        if self.cluster.state().crashes == way.crashes { Ok(()) } else { Err(unavailable()) }
    }

    /// Waits for ever in a process that is dead.
    async fn alive(&self) {
        let dead = self.cluster.state().dead.contains(&self.writer.generation);
        if dead {
            std::future::pending::<()>().await;
        }
    }

    async fn come_back<T>(&self, way: &Way, answer: T) -> Result<T, StoreError> {
        let slow_ms = self.cluster.state().links[self.writer.node].slow_ms;
        let slow_ms = slow_ms + self.writer.slow_ms;
        let delay = self.cluster.latency + Duration::from_millis(slow_ms);
        if !delay.is_zero() {
            sleep(delay).await;
        }
        while self.cluster.state().links[self.writer.node].held_back {
            sleep(HELD_BACK).await;
        }
        self.alive().await;
        self.reachable()?;
        self.unbroken(way)?;
        Ok(answer)
    }

    /// Returns the number of the write that was just applied.
    fn applied(&self) -> u64 {
        self.cluster.state().writes
    }

    /// Brings the acknowledgement of a write back: the write and everything before it is durable
    /// then.
    async fn acknowledge<T>(&self, way: &Way, write: u64, answer: T) -> Result<T, StoreError> {
        if self.cluster.state().log_hangs {
            self.come_back(way, ()).await?;
            return Err(unavailable());
        }
        // The store acknowledges when it sends the answer, whether that arrives or not.
        self.cluster.state().unacknowledged.retain(|pending| pending.write > write);
        self.come_back(way, answer).await
    }

    /// Brings the answer to a swap back. A refusal makes nothing durable, because the store wrote
    /// nothing.
    async fn answer_swap(&self, way: &Way, took_place: bool) -> Result<bool, StoreError> {
        if took_place {
            self.acknowledge(way, self.applied(), true).await
        } else {
            self.come_back(way, false).await
        }
    }

    fn next_fault(&self) -> Option<Fault> {
        let mut state = self.cluster.state();
        let link = &mut state.links[self.writer.node];
        let (fault, cut) = link.faults.pop_front()??;
        link.cut |= cut;
        state.activity.operator_unknown += u64::from(self.writer.is_operator);
        Some(fault)
    }

    /// Notes that the outcome of a write is not known yet.
    fn sent(&self, worker: u64, expected: Token, token: Token) {
        let mut state = self.cluster.state();
        let key = (self.writer.generation, worker);
        let unknown = state.unknown.entry(key).or_insert((expected, Vec::new()));
        if unknown.0 != expected {
            *unknown = (expected, Vec::new());
        }
        unknown.1.push(token);
    }

    fn answered(&self, worker: u64, write: &RowWrite, took_place: bool) {
        let mut state = self.cluster.state();
        let key = (self.writer.generation, worker);
        if took_place {
            state.unknown.remove(&key);
            let limit = write.marks[write.lane];
            state.confirmed(self.writer.generation, worker, write.lane, limit);
        } else if let Some((_, tokens)) = state.unknown.get_mut(&key) {
            tokens.retain(|token| *token != write.token);
            if tokens.is_empty() {
                state.unknown.remove(&key);
            }
        }
    }

    /// Notes the marks of new rows: a process that read one stays above it, even if a crash of the
    /// store undoes it.
    fn note_marks(&self, before: &[ListedRow], after: &[ListedRow]) {
        let (mut state, layout) = (self.cluster.state(), self.writer.layout.canonical());
        let key = |it: &ListedRow| (it.reserved_key.clone(), it.row.worker);
        let known: BTreeSet<_> = before.iter().map(key).collect();
        for ListedRow { row, .. } in after.iter().filter(|it| !known.contains(&key(it))) {
            for (lane, mark) in row.marks.iter().enumerate() {
                let highest = state.highest.entry((layout.clone(), row.worker, lane)).or_default();
                *highest = mark.max(*highest);
            }
        }
    }

    /// Checks rows that were created where there were none: those that the process held must begin
    /// beyond its leases.
    fn made(&self, before: &[ListedRow], after: &[ListedRow]) {
        let mut state = self.cluster.state();
        let generation = self.writer.generation;
        let row_of = |rows: &[ListedRow], worker| {
            rows.iter().find(|listed| listed.row.worker == worker).map(|listed| listed.row.clone())
        };
        for ((worker, lane), limit) in state.limits(generation) {
            let Some(made) = row_of(after, worker).filter(|_| row_of(before, worker).is_none())
            else {
                continue;
            };
            if made.marks[usize::try_from(lane).expect("few lanes")] < limit {
                let detail = format!("process {generation} made the row of worker {worker} anew");
                state.failure.get_or_insert(Failure { kind: FailureKind::MadeAnew, detail });
            }
        }
    }

    /// Notes what a read row says about writes whose outcome was unknown.
    fn resolved(&self, row: &Row) {
        let mut state = self.cluster.state();
        let (generation, worker) = (self.writer.generation, row.worker);
        let Some((expected, tokens)) = state.unknown.get(&(generation, worker)) else { return };
        if row.token == *expected {
            state.activity.unchanged += 1;
            return;
        }
        if tokens.contains(&row.token) {
            state.activity.took_place += 1;
        } else {
            state.activity.lost += 1;
        }
        state.unknown.remove(&(generation, worker));
    }

    /// Returns the call that a process sends instead, under the bugs that a process shows in its
    /// calls alone.
    fn broken(call: Call) -> Call {
        match call {
            Call::CreateRows(scope, new) if planted(Bug::TokenOfBirth) => {
                Call::CreateRows(scope, NewRows { seed: Token::UNUSED, ..new })
            }
            Call::UnreleasedRows(namespace, _) if planted(Bug::OtherRowsIgnored) => {
                Call::UnreleasedRows(namespace, u32::MAX)
            }
            call => call,
        }
    }

    /// Returns whether this is an operator that leaves out the fencing of rows, before a move to
    /// another layout.
    async fn skips_fencing(&self) -> Result<bool, StoreError> {
        if !self.writer.is_operator || !planted(Bug::RelayoutWithoutFencing) {
            return Ok(false);
        }
        let record = self.cluster.memory.read_record("default").await?;
        let recorded = record.and_then(|record| Recorded::read(&record.canonical).ok());
        Ok(matches!(
            recorded,
            Some(Recorded::Moving(Relayout { stage: RelayoutStage::Fencing, .. }))
        ))
    }

    /// Returns whether a process takes an unreleased row into account.
    fn considers(&self, row: &UnreleasedRow) -> bool {
        let Writer { layout, workers, .. } = &self.writer;
        !planted(Bug::OtherRowsIgnored)
            || row.reserved_key == layout.reserved_key()
                && row.worker.as_ref().is_ok_and(|worker| workers.contains(worker))
    }

    /// Sends a swap of a row or of the record.
    async fn send(&self, swap: LateWrite) -> Result<bool, StoreError> {
        let way = self.go().await?;
        match self.next_fault() {
            None => {
                let took_place = self.cluster.arrive(&swap).await;
                return self.answer_swap(&way, took_place).await;
            }
            Some(Fault::NeverArrives) => {}
            Some(Fault::LostReply) => drop(self.cluster.arrive(&swap).await),
            Some(Fault::Late) => self.cluster.state().late.push(swap),
        }
        Err(unavailable())
    }
}

#[async_trait]
impl Intercept for Connection {
    fn memory(&self) -> &MemoryStore {
        &self.cluster.memory
    }

    async fn answer(&self, call: Call) -> Result<Reply, StoreError> {
        let memory = &self.cluster.memory;
        let call = Self::broken(call);
        match call {
            // A separate simulation covers segments, except those of IDs for a past time.
            Call::PrepareSegments
            | Call::CreateSegments(..)
            | Call::GiveBack(..)
            | Call::Undo(..)
            | Call::CountSegments(..)
            | Call::ListSegments => call.run(memory).await,
            Call::SwapRow(..) if self.skips_fencing().await? => Ok(Box::new(true)),
            Call::SwapRow(scope, worker, expected, write) => {
                self.sent(worker, expected, write.token);
                let surveyed = self.cluster.state().surveyed.get(&self.writer.generation).copied();
                let (surveyed, sent) = (surveyed.unwrap_or_default(), write.clone());
                let swap = Swap { worker, expected, write, surveyed };
                let writer = self.writer.clone();
                let change = Change::Row(scope, swap);
                let took_place = self.send(LateWrite { writer, change }).await?;
                self.answered(worker, &sent, took_place);
                Ok(Box::new(took_place))
            }
            Call::SwapRecord(namespace, expected, record) => {
                let writer = self.writer.clone();
                let change = Change::Record(namespace, expected, record);
                Ok(Box::new(self.send(LateWrite { writer, change }).await?))
            }
            Call::Reserve(..) => {
                let way = self.go().await?;
                self.cluster.before_write();
                let answer = call.run(memory).await?;
                self.acknowledge(&way, self.applied(), answer).await
            }
            Call::CreateRecord(..) | Call::CreateRows(..) => {
                let way = self.go().await?;
                let there = memory.list_rows().await?;
                let record = memory.read_record("default").await?;
                self.cluster.before_write();
                let answer = call.run(memory).await?;
                // After a fail-over no process knows whether a row vanished or never existed.
                let may_be_new = record.is_some_and(|record| record.history.has_failed_over());
                if matches!(call, Call::CreateRows(..)) {
                    let rows = memory.list_rows().await?;
                    self.note_marks(&there, &rows);
                    if !may_be_new {
                        self.made(&there, &rows);
                    }
                }
                self.acknowledge(&way, self.applied(), answer).await
            }
            _ => {
                let way = self.go().await?;
                let mut answer = call.run(memory).await?;
                if let Some(rows) = answer.downcast_mut::<Vec<UnreleasedRow>>() {
                    rows.retain(|row| self.considers(row));
                }
                let answer = self.come_back(&way, answer).await?;
                // The process computes limits from the clocks of a survey of the worker ids that
                // it may lease.
                let is_own = !matches!(&call, Call::Survey(scope) if scope.min_worker == 0);
                if let Some(survey) = answer.downcast_ref::<Survey>().filter(|_| is_own) {
                    let (wall_ms, store_ms) = (self.writer.clock.peek_ms(), survey.now_ms);
                    let surveyed = Surveyed { wall_ms, store_ms };
                    self.cluster.state().surveyed.insert(self.writer.generation, surveyed);
                }
                if let Some(Some(row)) = answer.downcast_ref::<Option<Row>>() {
                    self.resolved(row);
                }
                Ok(answer)
            }
        }
    }
}
