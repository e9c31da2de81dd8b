//! Drives whole nodes over the faulty store, by a list of operations.

use std::{
    collections::HashSet,
    panic::{AssertUnwindSafe, catch_unwind},
    pin::{Pin, pin},
    sync::{Arc, Mutex},
    task::{Context, Poll, Waker},
    time::Duration,
};

use raindrop_core::{
    clock::Clock as _,
    id::Id,
    issue::IssueSettings,
    layout::{Layout, LayoutSpec, TimeUnit},
};
use raindrop_keeper::{
    Backfill, BackfillError, IssueError, Keeper, KeeperError, KeeperSettings, LayoutError,
    MemoryDisk, NoObserver, Released, UnavailableReason,
};
use raindrop_store::{MemoryStore, Scope, Store};
use rand::{SeedableRng, rngs::StdRng};
use tokio::{runtime::Builder, time::sleep};

use crate::{
    activity::Activity,
    check::{AnsweredBefore, Failure, FailureKind, Issued},
    claim::{Answer, Claim},
    model::{CODES, Op, Scenario, Setup},
    node::{Events, Node},
    operating::Operating,
    planted::{Planting, plant},
    store::{Cluster, Connection, Writer},
    time::{SkewedClock, Time},
};

/// Which part of a scenario runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Extent {
    Whole,
    /// The whole, with a text of each step.
    Told,
    /// Only the operations, without the repair at the end.
    WithoutEnd,
}

/// The result of a simulation.
#[derive(Debug)]
pub(crate) struct Outcome {
    pub(crate) failure: Option<Failure>,
    /// Whether it failed before the repair at the end.
    pub(crate) failed_early: bool,
    pub(crate) activity: Activity,
    /// A hash of everything that happened.
    pub(crate) trace: u64,
    pub(crate) lines: Vec<String>,
}

/// Runs a scenario to its end or its first failure.
pub(crate) fn run(scenario: &Scenario, planting: Planting, extent: Extent) -> Outcome {
    plant(planting);
    let simulate = || {
        let runtime = Builder::new_current_thread().enable_time().start_paused(true).build();
        runtime.expect("a runtime").block_on(async {
            let mut world = World::new(scenario, planting, extent == Extent::Told);
            world.run(&scenario.ops).await;
            let failed_early = world.has_failed();
            if !failed_early && extent != Extent::WithoutEnd {
                world.settle().await;
            }
            world.end(failed_early)
        })
    };
    catch_unwind(AssertUnwindSafe(simulate)).unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().cloned();
        let text = text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()));
        let detail = text.unwrap_or_default();
        let failure = Some(Failure { kind: FailureKind::Panicked, detail });
        let (activity, lines) = (Activity::default(), Vec::new());
        Outcome { failure, failed_early: false, activity, trace: 0, lines }
    })
}

/// How often the clocks' recent readings are renewed while operation follows operation.
const RECENT_EVERY_MS: i64 = 4;

type Releasing = Pin<Box<dyn Future<Output = Released>>>;
type Joining = Pin<Box<dyn Future<Output = (Keeper, KeeperError)>>>;

/// A claim for a past time that is under way.
struct Backfilling {
    generation: u32,
    future: Pin<Box<dyn Future<Output = Result<Vec<Id>, BackfillError>>>>,
}

pub(crate) struct World<'a> {
    pub(crate) setup: &'a Setup,
    /// The layout with which nodes start.
    pub(crate) layout: Arc<Layout>,
    pub(crate) operating: Operating,
    seed: u64,
    pub(crate) time: Arc<Time>,
    pub(crate) clocks: Vec<Arc<SkewedClock>>,
    pub(crate) store_clock: Arc<SkewedClock>,
    pub(crate) cluster: Arc<Cluster>,
    pub(crate) nodes: Vec<Option<Node>>,
    /// The disks of the nodes' state files.
    disks: Vec<MemoryDisk>,
    processes: u32,
    claims: Vec<Claim>,
    /// Claims for a past time.
    backfilling: Vec<Backfilling>,
    /// The IDs that these issued.
    backfilled: HashSet<u64>,
    pub(crate) releases: Vec<Releasing>,
    strangers: Vec<Joining>,
    issued: Issued,
    /// Which nodes issued since this was cleared.
    pub(crate) issuing: Vec<bool>,
}

impl<'a> World<'a> {
    fn new(scenario: &'a Scenario, planting: Planting, verbose: bool) -> Self {
        let setup = &scenario.setup;
        let time = Time::new(setup.began_ms);
        let clock = |offset: &i64| SkewedClock::new(&time, *offset, setup.recent_readings);
        let mut clocks: Vec<_> = setup.offsets_ms.iter().map(clock).collect();
        let (store_clock, memory) = if setup.own_clock {
            let clock = SkewedClock::new(&time, 0, false);
            (Arc::clone(&clock), MemoryStore::with_own_clock(clock))
        } else {
            let clock = Arc::clone(&clocks[0]);
            clocks.fill(Arc::clone(&clock));
            (Arc::clone(&clock), MemoryStore::new(clock))
        };
        let compares_tokens = planting != Planting::TokenNotCompared;
        let mut world = Self {
            setup,
            layout: Arc::new(setup.layout()),
            operating: Operating::new(setup.layout()),
            seed: scenario.seed,
            cluster: Cluster::new(setup, &time, memory, compares_tokens, verbose),
            time,
            nodes: clocks.iter().map(|_| None).collect(),
            disks: clocks.iter().map(|_| MemoryDisk::default()).collect(),
            issuing: vec![false; clocks.len()],
            clocks,
            store_clock,
            processes: 0,
            claims: Vec::new(),
            backfilling: Vec::new(),
            backfilled: HashSet::new(),
            releases: Vec::new(),
            strangers: Vec::new(),
            issued: Issued::default(),
        };
        for node in 0..setup.nodes() {
            world.start(node, true);
        }
        world
    }

    async fn run(&mut self, ops: &[Op]) {
        for op in ops {
            let elapsed_ms = self.time.elapsed_ms();
            self.cluster.state().journal.note(elapsed_ms, || format!("{elapsed_ms:>9} ms  {op:?}"));
            self.perform(*op).await;
            // Every operation takes a moment, so that those before it make progress.
            self.advance(1).await;
            if self.has_failed() {
                return;
            }
        }
    }

    pub(crate) fn has_failed(&self) -> bool {
        self.cluster.state().failure.is_some()
    }

    pub(crate) fn fail(&self, kind: FailureKind, detail: String) {
        self.cluster.state().failure.get_or_insert(Failure { kind, detail });
    }

    fn end(self, failed_early: bool) -> Outcome {
        let mut state = self.cluster.state();
        for node in self.nodes.iter().flatten() {
            node.events.add_to(&mut state.activity);
        }
        let journal = std::mem::replace(&mut state.journal, crate::check::Journal::new(false));
        let (trace, lines) = journal.finish();
        let (failure, activity) = (state.failure.take(), state.activity);
        Outcome { failure, failed_early, activity, trace, lines }
    }

    async fn perform(&mut self, op: Op) {
        let count = self.nodes.len();
        let code_of = |code: usize| code % self.setup.codes;
        match op {
            Op::Advance { ms } => self.advance(ms).await,
            Op::SleepAll { ms } => self.time.sleep_all(ms),
            Op::Issue { node, code, count: ids } => self.issue(node % count, code_of(code), ids),
            Op::Everyone { code, count: ids } => {
                for node in 0..count {
                    self.issue(node, code_of(code), ids);
                }
            }
            Op::Stale { node, code, asleep_ms, others } => {
                self.stale(node % count, code_of(code), asleep_ms, others);
            }
            Op::Past { node, ticks } => self.backfill(node % count, ticks),
            Op::StepClock { node, by_ms } => self.clocks[node % count].step(by_ms),
            Op::DriftClock { node, ppm } => self.clocks[node % count].drift(ppm),
            Op::StepStoreClock { by_ms } if self.setup.own_clock && !self.operating.has_lost() => {
                self.store_clock.step(by_ms);
            }
            Op::StepStoreClock { .. } => {}
            Op::Crash { node } => self.crash(node % count),
            Op::LosePower { node } => {
                self.crash(node % count);
                self.disks[node % count].lose_power();
            }
            Op::BreakDisk { node, fails: true } => self.disks[node % count].set_failing(true),
            Op::BreakDisk { node, fails: false } => self.disks[node % count].set_hanging(true),
            Op::MendDisk { node } => self.mend_disk(node % count),
            Op::Start { node, same_holder } => self.start(node % count, same_holder),
            Op::Stop { node, deadline_ms } => self.stop(node % count, deadline_ms),
            Op::Partition { node } => self.cluster.state().links[node % count].cut = true,
            Op::HoldBack { node } => self.cluster.state().links[node % count].held_back = true,
            Op::Slow { node, ms } => self.cluster.state().links[node % count].slow_ms = ms,
            Op::Heal { node } => self.heal(node % count),
            Op::Outage => self.cluster.state().outage = true,
            Op::Restore => self.cluster.state().outage = false,
            Op::Fail { node, skip, fault, cut } => {
                let mut state = self.cluster.state();
                let faults = &mut state.links[node % count].faults;
                faults.extend((0..skip).map(|_| None));
                faults.push_back(Some((fault, cut)));
            }
            Op::Deliver { which } => self.deliver(which).await,
            Op::OtherLayout => self.other_layout().await,
            Op::Operate { order, fault, slow_ms } => self.operate(order, fault, slow_ms),
            Op::KillOperators => self.kill_operators(),
            Op::LoseRow { worker } => self.lose_row(worker % self.setup.workers + 1).await,
            Op::LoseRecord => self.lose_record().await,
            Op::HangLog => self.cluster.state().log_hangs = true,
            Op::FreeLog => {
                self.cluster.state().log_hangs = false;
                self.cluster.make_durable();
            }
            Op::CrashStore { lose } => self.cluster.crash(lose),
            Op::StopReplication => self.stop_replication(),
            Op::FailOver { back } => self.fail_over(back).await,
            Op::Backup => self.back_up().await,
            Op::RestoreBackup => self.restore_backup().await,
            Op::RestoreInPlace => self.restore_in_place().await,
        }
    }

    /// Lets time pass for all, and lets claims and releases make progress.
    pub(crate) async fn advance(&mut self, ms: u64) {
        // The recent reading is late by whole operations.
        if ms > 1 || self.time.elapsed_ms() % RECENT_EVERY_MS == 0 {
            self.clocks.iter().for_each(|clock| clock.renew());
        }
        let mut pause = pin!(sleep(Duration::from_millis(ms)));
        std::future::poll_fn(|context| {
            self.poll(context);
            pause.as_mut().poll(context)
        })
        .await;
        self.end_failed();
        let mut state = self.cluster.state();
        for node in self.nodes.iter().flatten() {
            node.events.add_to(&mut state.activity);
            if node.events.has_panicked() {
                let detail = format!("that of process {}", node.writer.generation);
                state.failure.get_or_insert(Failure { kind: FailureKind::KeeperPanicked, detail });
            }
        }
    }

    /// Ends the processes whose keeper failed: they exit with the code of a wrong configuration.
    fn end_failed(&mut self) {
        let mut context = Context::from_waker(Waker::noop());
        for node in 0..self.nodes.len() {
            let keeper = self.nodes[node].as_mut().and_then(|node| node.keeper.as_mut());
            let failed =
                keeper.is_some_and(|keeper| pin!(keeper.failed()).poll(&mut context).is_ready());
            if failed {
                self.bury(node);
                self.cluster.state().activity.ended += 1;
            }
        }
    }

    /// Polls everything under way in one order, whatever woke it: tokio's channels wake their
    /// waiters in a random order.
    fn poll(&mut self, context: &mut Context<'_>) {
        for mut claim in std::mem::take(&mut self.claims) {
            match claim.poll(context) {
                Poll::Ready(answer) => self.answered(&claim, answer),
                Poll::Pending => self.waits(claim),
            }
        }
        self.poll_backfills(context);
        self.poll_operators(context);
        let mut state = self.cluster.state();
        self.releases.retain_mut(|release| match release.as_mut().poll(context) {
            Poll::Ready(Released::Done) => {
                state.activity.releases += 1;
                false
            }
            Poll::Ready(Released::GaveUp) => {
                state.activity.given_up += 1;
                false
            }
            Poll::Ready(Released::Kept) => {
                state.activity.kept += 1;
                false
            }
            Poll::Ready(Released::NothingHeld) => false,
            Poll::Pending => true,
        });
        self.strangers.retain_mut(|stranger| match stranger.as_mut().poll(context) {
            Poll::Ready((_, KeeperError::Layout(LayoutError::Conflict { .. }))) => {
                state.activity.conflicts += 1;
                false
            }
            Poll::Ready((_, KeeperError::Layout(LayoutError::Moving { .. }))) => {
                state.activity.moving_refused += 1;
                false
            }
            // The record vanished, and its rows did not.
            Poll::Ready((_, KeeperError::Store(error))) if error.is_permanent() => false,
            Poll::Ready((_, error)) => panic!("a stranger gave up otherwise: {error}"),
            Poll::Pending => true,
        });
    }

    pub(crate) fn start(&mut self, node: usize, same_holder: bool) {
        if self.nodes[node].as_ref().is_some_and(|node| node.keeper.is_some()) {
            return;
        }
        self.bury(node);
        let writer = self.next_writer(node);
        let holder = match (self.setup.one_holder, same_holder) {
            (true, _) => "everybody".to_owned(),
            (false, true) => format!("node {node}"),
            (false, false) => format!("process {}", writer.generation),
        };
        let events = Arc::new(Events::of(&writer.clock));
        let disk = &self.disks[node];
        let state_file = self.setup.disk_ms.map(|disk_ms| {
            disk.set_latency(Duration::from_millis(disk_ms));
            disk.open()
        });
        if state_file.is_some() {
            // A lease that is resumed at once counts as one that issued at that reading.
            let reading_ms = self.clocks[node].now_ms() + RECENT_EVERY_MS;
            self.issued.issued_under(writer.generation, reading_ms);
        }
        let mut settings = self.setup.settings(&self.layout, &holder);
        (settings.min_worker, settings.max_worker) = writer.workers.clone().into_inner();
        let backfill_from_ms = Some(self.layout.epoch_ms());
        let past = KeeperSettings { backfill_from_ms, ..settings.clone() };
        let codes_shared = self.setup.codes_shared(writer.generation);
        let issue = IssueSettings { codes_shared, ..settings.issue };
        let connection = Arc::new(self.connection(&writer));
        let (keeper, issuer) = Keeper::start_with(
            KeeperSettings { state_file, issue, ..settings },
            connection.clone(),
            writer.clock.clone(),
            events.clone(),
            self.random(writer.generation),
        );
        let handle = |code| Arc::new(Mutex::new(issuer.handle(code).expect("a valid code")));
        let handles = CODES[..self.setup.codes].iter().map(|code| handle(*code)).collect();
        let (lease, codes) = (0, std::collections::BTreeSet::new());
        let keeper = Some(keeper);
        let backfill = Arc::new(Backfill::new(past, connection, &issuer));
        self.nodes[node] =
            Some(Node { writer, keeper, issuer, backfill, handles, events, lease, codes });
    }

    fn next_writer(&mut self, node: usize) -> Writer {
        self.processes += 1;
        Writer {
            node,
            generation: self.processes,
            clock: Arc::clone(&self.clocks[node]),
            layout: Arc::clone(&self.layout),
            workers: self.setup.workers_of(node),
            slow_ms: 0,
            is_operator: false,
        }
    }

    /// Returns a process on the first node's machine, with a separate connection to the store.
    pub(crate) fn next_operator(&mut self, slow_ms: u64) -> Writer {
        let node = self.setup.nodes();
        Writer { node, slow_ms, is_operator: true, ..self.next_writer(0) }
    }

    pub(crate) fn connection(&self, writer: &Writer) -> Connection {
        Connection { cluster: Arc::clone(&self.cluster), writer: writer.clone() }
    }

    pub(crate) fn random(&self, generation: u32) -> Box<StdRng> {
        let seed = self.seed.wrapping_mul(1_000_003).wrapping_add(u64::from(generation));
        Box::new(StdRng::seed_from_u64(seed))
    }

    pub(crate) fn crash(&mut self, node: usize) {
        if self.bury(node) {
            self.cluster.state().activity.crashes += 1;
        }
    }

    /// Ends a process without a trace, and returns whether there was one.
    fn bury(&mut self, node: usize) -> bool {
        let Some(dead) = self.nodes[node].take() else { return false };
        self.disks[node].kill();
        let generation = dead.writer.generation;
        self.claims.retain(|claim| claim.writer.generation != generation);
        self.backfilling.retain(|claim| claim.generation != generation);
        let mut state = self.cluster.state();
        dead.events.add_to(&mut state.activity);
        state.dead.insert(generation);
        true
    }

    pub(crate) fn mend_disk(&self, node: usize) {
        self.disks[node].set_failing(false);
        self.disks[node].set_hanging(false);
    }

    fn stop(&mut self, node: usize, deadline_ms: u64) {
        let Some(keeper) = self.nodes[node].as_mut().and_then(|node| node.keeper.take()) else {
            return;
        };
        self.releases.push(Box::pin(keeper.release(Duration::from_millis(deadline_ms))));
    }

    pub(crate) fn heal(&self, node: usize) {
        let mut state = self.cluster.state();
        let link = &mut state.links[node];
        (link.cut, link.held_back, link.slow_ms) = (false, false, 0);
    }

    pub(crate) async fn deliver(&self, which: usize) {
        let late = {
            let mut state = self.cluster.state();
            let count = state.late.len();
            if count == 0 {
                return;
            }
            state.late.remove(which % count)
        };
        self.cluster.deliver(late).await;
    }

    /// Starts a node with another layout, once the namespace has one.
    async fn other_layout(&mut self) {
        let scope = Scope::new("default", &self.layout, 1, self.setup.workers);
        let survey = self.cluster.memory.survey(&scope).await.expect("memory does not fail");
        // A node that comes first is no stranger.
        if survey.record.is_none() || !self.cluster.is_durable() {
            return;
        }
        let unit = match self.setup.unit {
            TimeUnit::Second => TimeUnit::Millisecond,
            _ => TimeUnit::Second,
        };
        let layout = LayoutSpec::for_unit(unit).build().expect("a valid layout");
        let writer = Writer { layout: Arc::new(layout.clone()), ..self.next_writer(0) };
        let (mut keeper, _) = Keeper::start_with(
            KeeperSettings::new(layout, "a stranger"),
            Arc::new(self.connection(&writer)),
            writer.clock.clone(),
            Arc::new(NoObserver),
            self.random(writer.generation),
        );
        self.strangers.push(Box::pin(async move {
            let error = keeper.failed().await;
            (keeper, error)
        }));
    }

    fn claim(&self, node: usize, code: usize, count: u32) -> Option<Claim> {
        let node = self.nodes[node].as_ref()?;
        let generation = node.writer.generation;
        let before =
            self.issued.answered_before(generation, self.sequence_of(generation, code), code);
        let limits = self.cluster.state().limits(generation);
        let handle = (count == 1).then(|| Arc::clone(&node.handles[code]));
        Some(Claim::new(&node.writer, &node.issuer, handle, code, count, before, limits))
    }

    /// Returns the number of the cursor from which a process issues a code.
    fn sequence_of(&self, generation: u32, code: usize) -> usize {
        if self.setup.codes_shared(generation) { 0 } else { code }
    }

    pub(crate) fn issue(&mut self, node: usize, code: usize, count: u32) {
        let Some(mut claim) = self.claim(node, code, count) else { return };
        let answer = claim.poll(&mut Context::from_waker(Waker::noop()));
        self.begun(claim, answer, false);
    }

    /// Begins a claim of one ID for a time before the beginning.
    pub(crate) fn backfill(&mut self, node: usize, ticks: u64) {
        let Some(node) = &self.nodes[node] else { return };
        let backfill = Arc::clone(&node.backfill);
        let ticks = i64::try_from(ticks).expect("few");
        let at_ms = self.setup.began_ms - (ticks + 1) * self.layout.unit().millis();
        let generation = node.writer.generation;
        let future = Box::pin(async move { backfill.ids("order", 1, at_ms).await });
        self.backfilling.push(Backfilling { generation, future });
    }

    fn poll_backfills(&mut self, context: &mut Context<'_>) {
        for mut claim in std::mem::take(&mut self.backfilling) {
            let answer = match claim.future.as_mut().poll(context) {
                Poll::Ready(answer) => answer,
                Poll::Pending => {
                    self.backfilling.push(claim);
                    continue;
                }
            };
            let (elapsed_ms, generation) = (self.time.elapsed_ms(), claim.generation);
            let mut state = self.cluster.state();
            state.journal.note((elapsed_ms, generation, answer.is_ok()), || {
                format!("{elapsed_ms:>9} ms  process {generation}: for a past time: {answer:?}")
            });
            match answer {
                Ok(ids) => {
                    state.activity.past += 1;
                    drop(state);
                    let again = ids.iter().find(|id| !self.backfilled.insert(id.get()));
                    if let Some(id) = again {
                        let detail = format!("process {generation} issued {id} again");
                        self.fail(FailureKind::Duplicate, detail);
                    }
                }
                Err(error) => {
                    let is_unconfirmed = matches!(
                        error,
                        BackfillError::NotRenewed { .. }
                            | BackfillError::EpochEnded { .. }
                            | BackfillError::Unconfirmed { .. }
                    );
                    state.activity.past_refused += 1;
                    state.activity.past_unconfirmed += u64::from(is_unconfirmed);
                }
            }
        }
    }

    fn stale(&mut self, node: usize, code: usize, asleep_ms: i64, others: usize) {
        let Some(mut claim) = self.claim(node, code, 1) else { return };
        let codes = (1..=others).map(|other| (code + other) % self.setup.codes);
        let claims: Vec<Claim> = codes.filter_map(|code| self.claim(node, code, 1)).collect();
        let (time, done) = (Arc::clone(&self.time), Arc::new(Mutex::new(Vec::new())));
        let done_meanwhile = Arc::clone(&done);
        self.clocks[node].interrupt(Some(Box::new(move || {
            time.sleep_all(asleep_ms);
            let mut done = done_meanwhile.lock().expect("unpoisoned");
            for mut claim in claims {
                let answer = claim.poll(&mut Context::from_waker(Waker::noop()));
                done.push((claim, answer));
            }
        })));
        let answer = claim.poll(&mut Context::from_waker(Waker::noop()));
        // Without a lease, the claim did not read the clock.
        self.clocks[node].interrupt(None);
        let done = std::mem::take(&mut *done.lock().expect("unpoisoned"));
        for (other, answer) in done {
            claim.cursors -= other.cursors;
            self.begun(other, answer, false);
        }
        self.begun(claim, answer, true);
    }

    /// Handles a claim that was polled for the first time.
    fn begun(&mut self, claim: Claim, answer: Poll<Answer>, stale: bool) {
        let mut state = self.cluster.state();
        if let Some(node) = &mut self.nodes[claim.writer.node] {
            let lease = state.lease(claim.writer.generation);
            if node.lease != lease {
                node.codes.clear();
                node.lease = lease;
            }
            let generation = claim.writer.generation;
            let code = if self.setup.codes_shared(generation) { 0 } else { claim.code };
            if claim.cursors > 0 && !node.codes.insert(code) {
                state.activity.recreated += 1;
                state.activity.recreated_stale += u64::from(stale);
            }
        }
        drop(state);
        match answer {
            Poll::Ready(answer) => self.answered(&claim, answer),
            Poll::Pending => self.waits(claim),
        }
    }

    /// Keeps a claim that waits for its lease, or that has its positions and waits for their tick.
    fn waits(&mut self, claim: Claim) {
        self.issued.issued_under(claim.writer.generation, claim.highest_ms);
        self.claims.push(claim);
    }

    fn answered(&mut self, claim: &Claim, answer: Answer) {
        let setup = self.setup;
        let generation = claim.writer.generation;
        let waited_ms = claim.began.elapsed().as_millis();
        // Timers are due at whole milliseconds.
        if waited_ms > u128::from(2 * setup.max_wait_ms + 3) {
            self.fail(FailureKind::WaitedTooLong, format!("a claim took {waited_ms} ms"));
        }
        let (ids, by_handle) = match answer {
            Ok(answer) => answer,
            Err(error) => {
                let leased = self.nodes[claim.writer.node]
                    .as_ref()
                    .is_some_and(|node| node.issuer.status().lease.is_some());
                let mut state = self.cluster.state();
                if leased && matches!(error, IssueError::NoLease { .. }) {
                    state.activity.limits_reached += 1;
                }
                if let IssueError::NoLease { reason: UnavailableReason::StoreLost, .. } = error {
                    state.activity.store_lost += 1;
                }
                let elapsed_ms = self.time.elapsed_ms();
                state.journal.note((generation, claim.code, "refused"), || {
                    format!(
                        "{elapsed_ms:>9} ms  process {generation}: {} refused: {error}",
                        claim.code
                    )
                });
                return;
            }
        };
        let layout = &claim.writer.layout;
        let positions: Vec<u64> = ids
            .iter()
            .map(|id| {
                let fields = layout.decompose(*id);
                layout.first_position(fields.tick) + fields.sequence - layout.min_sequence()
            })
            .collect();
        let fields = layout.decompose(ids[0]);
        let lane = (fields.worker, fields.lane);
        let (first, last) = (positions[0], positions[positions.len() - 1]);
        self.issuing[claim.writer.node] = true;
        self.note_answer(claim, lane, first, last);
        let sequence = self.sequence_of(generation, claim.code);
        let codes_shared = setup.codes_shared(generation);
        for (id, position) in ids.iter().zip(&positions) {
            if !self.issued.add(codes_shared, claim.code, id.get()) {
                self.fail(
                    FailureKind::Duplicate,
                    format!(
                        "process {generation} issued {id} of code {} again: worker {} lane {} position {position}",
                        claim.code, lane.0, lane.1
                    ),
                );
            }
        }
        let ahead_ms = setup.borrow_ms + setup.hold_ms + setup.max_wait_ms;
        let AnsweredBefore { by_all, by_handle: by_this } = &claim.answered_before;
        let ascends = if by_handle {
            // IDs of others may be ahead of the handle's tick, from its end: borrowed ones, and all
            // that were issued while the clock was behind.
            let went_back = claim.writer.clock.went_back();
            let ahead_ms = match if went_back { ahead_ms } else { setup.borrow_ms } {
                0 => 0,
                ahead_ms => i64::try_from(ahead_ms).expect("small") + layout.unit().millis() - 1,
            };
            let start_ms = |position| layout.start_of_tick_ms(layout.tick_of(position));
            by_this.get(&lane).is_none_or(|before| *before < first)
                && by_all
                    .get(&lane)
                    .is_none_or(|before| start_ms(*before) <= start_ms(first) + ahead_ms)
        } else {
            by_all.get(&lane).is_none_or(|before| *before < first)
        };
        if !ascends || !positions.is_sorted_by(|a, b| a < b) {
            let detail = format!("process {generation}: {first}..={last} of code {}", claim.code);
            self.fail(FailureKind::NotAscending, detail);
        }
        let code_of_handle = by_handle.then_some(claim.code);
        self.issued.answered(generation, sequence, code_of_handle, lane, last);
        let events = self.nodes[claim.writer.node].as_ref().map(|node| &node.events);
        let leased_ms = events.map_or(i64::MIN, |events| events.leased_under_ms());
        let highest_ms = self.issued.issued_under(generation, claim.highest_ms.max(leased_ms));
        let latest_ms = highest_ms + i64::try_from(ahead_ms).expect("small");
        let due_ms = layout.start_of_tick_ms(layout.tick_of(last));
        if due_ms > latest_ms {
            let detail = format!("process {generation}: {} ms too far", due_ms - latest_ms);
            self.fail(FailureKind::TooFarAhead, detail);
        }
    }

    fn note_answer(&self, claim: &Claim, lane: (u64, u64), first: u64, last: u64) {
        let generation = claim.writer.generation;
        let mut state = self.cluster.state();
        let count = last - first + 1;
        state.activity.ids += count;
        if self.setup.codes_shared(generation) {
            state.activity.shared += count;
        }
        state.activity.quick += u64::from(claim.quick);
        if matches!(self.setup.unit, TimeUnit::Hour | TimeUnit::Day) {
            state.activity.coarse += count;
        }
        if self.operating.has_moved_from(&claim.writer.layout) {
            state.activity.old_layout += count;
        }
        if state.is_dispossessed(generation, lane.0) {
            state.activity.dispossessed += count;
        }
        if claim.limits.get(&lane).is_some_and(|limit| *limit <= last) {
            state.activity.limits_reached += 1;
            state.activity.woken += 1;
        }
        let elapsed_ms = self.time.elapsed_ms();
        state.journal.note((elapsed_ms, generation, claim.code, lane, first, last), || {
            format!(
                "{elapsed_ms:>9} ms  process {generation}: code {} worker {} lane {}: {first}..={last}",
                claim.code, lane.0, lane.1
            )
        });
    }
}
