//! Runs the keeper's own task through every schedule with a few mishaps.
//!
//! A run is a number of steps. Before each step something may happen to the node, its clock or its
//! row, and each swap may fail in several ways. Each such point is a choice, whose first value is
//! that all goes well. All runs with at most a given number of other choices are explored, each
//! from the start.

use std::{
    collections::HashSet,
    fmt::Debug,
    sync::{Arc, Mutex},
    time::Duration,
};

use raindrop_core::{
    clock::{Clock, ManualClock},
    id::Id,
    instant::millis,
    issue::RollbackPolicy,
    keeper_api::Grant,
    layout::{LayoutSpec, TimeUnit},
};
use raindrop_store::{MemoryStore, Store};
use rand::{SeedableRng, rngs::StdRng};
use tokio::runtime::{Builder, Runtime};

use super::{
    faulty_store::{Fault, FaultyStore},
    world::NOW,
};
use crate::{
    Issuer, KeeperSettings, LeaseTimes, NoObserver, Operator, keeper::task_and_issuer,
    lease::task::Task, state_file::MemoryDisk, support::tasks::catch_panic,
};

/// A point at which something unusual may happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Event {
    Nothing,
    /// The node's clock goes back, further than `rollback.hold` and for longer than a run.
    ClockBack,
    /// The node's clock jumps ahead, further than is tolerated.
    ClockAhead,
    /// The node's clock jumps ahead, further than is tolerated, to where it still issues.
    ClockAheadInWindow,
    /// The node's clock goes back, less far than it had jumped ahead.
    ClockPartlyBack,
    ClockRight,
    /// Delayed writes arrive.
    Deliver,
    /// The store crashes, and loses writes that it had not acknowledged.
    Crash,
    /// An operator releases the node's row.
    Release,
    /// Another node takes a row, or renews it.
    Rival,
    /// The record changes to another layout, or back.
    Record,
    /// The node is killed, and started again with its state file.
    Kill,
    /// The node's disk fails from now on.
    DiskFails,
    /// A person changes a value of the node's row, other than the token, to one that cannot be read.
    Damage,
    /// A person changes the token of the node's row to one that cannot be read.
    DamageToken,
    /// An operator begins an epoch.
    Raise,
    /// Both, before the node takes another step.
    DamageAndRaise,
}

/// The possible choices in a world.
#[derive(Clone, Debug)]
struct Choices {
    name: &'static str,
    events: &'static [Event],
    swaps: &'static [Option<Fault>],
    rollback: RollbackPolicy,
    /// 0 for one lane, 1 for two.
    rollback_bits: u32,
    /// Whether the node has a state file.
    keeps_leases: bool,
    window: Duration,
    steps: usize,
    mishaps: usize,
}

const ROTATIONS: Choices = Choices {
    name: "rotations",
    events: &[
        Event::Nothing,
        Event::ClockBack,
        Event::ClockAhead,
        Event::ClockRight,
        Event::Deliver,
    ],
    swaps: &[None, Some(Fault::LostReply), Some(Fault::Late)],
    rollback: RollbackPolicy::Rotate,
    rollback_bits: 1,
    keeps_leases: false,
    window: Duration::from_secs(61),
    steps: 9,
    mishaps: 4,
};

const WORKERS: Choices =
    Choices { name: "changes of worker", rollback_bits: 0, steps: 8, mishaps: 3, ..ROTATIONS };

const PARTLY_BACK: Choices = Choices {
    name: "a clock that goes back part of its way",
    events: &[
        Event::Nothing,
        Event::ClockAheadInWindow,
        Event::ClockPartlyBack,
        Event::ClockRight,
        Event::Deliver,
    ],
    // Longer than a clock jumps, so that IDs are issued under it.
    window: Duration::from_secs(600),
    steps: 8,
    mishaps: 3,
    ..ROTATIONS
};

const KEPT_PARTLY_BACK: Choices = Choices {
    name: "a clock that goes back part of its way, with a state file",
    events: &[
        Event::Nothing,
        Event::Kill,
        Event::ClockAheadInWindow,
        Event::ClockPartlyBack,
        Event::ClockRight,
    ],
    keeps_leases: true,
    steps: 7,
    ..PARTLY_BACK
};

const STORE: Choices = Choices {
    name: "a store that crashes, operators and a rival",
    events: &[
        Event::Nothing,
        Event::Deliver,
        Event::Crash,
        Event::Release,
        Event::Rival,
        Event::Record,
        Event::ClockBack,
    ],
    swaps: &[None, Some(Fault::LostReply), Some(Fault::Late), Some(Fault::NeverArrives)],
    rollback: RollbackPolicy::Swap,
    rollback_bits: 1,
    keeps_leases: false,
    window: Duration::from_secs(61),
    steps: 6,
    mishaps: 3,
};

const KEPT: Choices = Choices {
    name: "a state file",
    events: &[
        Event::Nothing,
        Event::Kill,
        Event::Deliver,
        Event::Crash,
        Event::Release,
        Event::Rival,
        Event::ClockBack,
        Event::DiskFails,
    ],
    swaps: &[None, Some(Fault::LostReply), Some(Fault::Late)],
    keeps_leases: true,
    ..STORE
};

const KEPT_ROTATIONS: Choices = Choices {
    name: "rotations with a state file",
    events: &[Event::Nothing, Event::Kill, Event::ClockBack, Event::ClockRight, Event::Deliver],
    keeps_leases: true,
    steps: 8,
    mishaps: 3,
    ..ROTATIONS
};

const DAMAGED: Choices = Choices {
    name: "a row that a person damages",
    events: &[
        Event::Nothing,
        Event::Damage,
        Event::DamageToken,
        Event::Raise,
        Event::DamageAndRaise,
        Event::Deliver,
        Event::Rival,
        Event::ClockAhead,
        Event::ClockRight,
    ],
    ..STORE
};

const KEPT_DAMAGED: Choices = Choices {
    name: "a row that a person damages, with a state file",
    events: &[
        Event::Nothing,
        Event::Damage,
        Event::DamageToken,
        Event::Raise,
        Event::DamageAndRaise,
        Event::Deliver,
        Event::Kill,
    ],
    keeps_leases: true,
    ..DAMAGED
};

/// The choices of one run: the given ones, and then the first value at each point.
#[derive(Debug, Default)]
struct Script {
    given: Vec<usize>,
    /// The number of choices at each point that was reached.
    widths: Vec<usize>,
    told: Vec<String>,
}

impl Script {
    fn choose<T: Copy + Debug>(&mut self, among: &[T]) -> T {
        let chosen = self.given.get(self.widths.len()).copied().unwrap_or(0);
        self.widths.push(among.len());
        if chosen > 0 {
            self.told.push(format!("{}: {:?}", self.widths.len(), among[chosen]));
        }
        among[chosen]
    }

    /// Returns the choices of the next run in depth-first order; `None` after the last run.
    fn next(&self, mishaps: usize) -> Option<Vec<usize>> {
        let mut given = self.given.clone();
        given.resize(self.widths.len(), 0);
        while let Some(last) = given.pop() {
            let others = given.iter().filter(|chosen| **chosen > 0).count();
            if last + 1 < self.widths[given.len()] && others < mishaps {
                given.push(last + 1);
                return Some(given);
            }
        }
        None
    }
}

/// One node, and possibly a rival, over a faulty store.
struct Scene {
    store: Arc<FaultyStore>,
    store_clock: Arc<ManualClock>,
    clock: Arc<ManualClock>,
    settings: KeeperSettings,
    disk: MemoryDisk,
    task: Task,
    issuer: Issuer,
    rival: Option<(Task, Issuer)>,
    script: Arc<Mutex<Script>>,
    grants: Vec<Arc<Grant>>,
    issued: HashSet<Id>,
    recorded: String,
    /// Whether an operator has begun an epoch.
    is_raised: bool,
}

/// Longer than a renewal interval, and shorter than the ttl.
const STEP: Duration = Duration::from_secs(31);

impl Scene {
    fn new(choices: &Choices, given: Vec<usize>) -> Self {
        let store_clock = Arc::new(ManualClock::new(NOW));
        let memory = MemoryStore::with_own_clock(store_clock.clone());
        let store = Arc::new(FaultyStore::new(memory));
        let rollback_bits = choices.rollback_bits;
        let unit = LayoutSpec::for_unit(TimeUnit::Millisecond);
        let spec = LayoutSpec { worker_bits: 3, rollback_bits, ..unit };
        let layout = spec.build().expect("valid");
        let mut settings = KeeperSettings::new(layout, "the same for all");
        settings.max_worker = 2;
        settings.issue.rollback = choices.rollback;
        let window = choices.window;
        // A wait would only add steps in which nothing happens after each failure.
        let stale_wait = Duration::ZERO;
        settings.lease = LeaseTimes { window, stale_wait, ..LeaseTimes::default() };
        let clock = Arc::new(ManualClock::new(NOW));
        let script = Arc::new(Mutex::new(Script { given, ..Script::default() }));
        let disk = MemoryDisk::default();
        settings.state_file = choices.keeps_leases.then(|| disk.open());
        let (task, issuer) = Self::node(&store, &settings, &clock, 1);
        let recorded = settings.layout.canonical();
        let (rival, grants, issued) = (None, Vec::new(), HashSet::new());
        Self {
            store,
            store_clock,
            clock,
            settings,
            disk,
            task,
            issuer,
            rival,
            script,
            grants,
            issued,
            recorded,
            is_raised: false,
        }
    }

    fn node(
        store: &Arc<FaultyStore>,
        settings: &KeeperSettings,
        clock: &Arc<ManualClock>,
        seed: u64,
    ) -> (Task, Issuer) {
        let random = Box::new(StdRng::seed_from_u64(seed));
        task_and_issuer(
            settings.clone(),
            store.clone(),
            clock.clone(),
            Arc::new(NoObserver),
            random,
        )
    }

    /// Decides the swaps of this node only.
    fn decide(&self, swaps: &'static [Option<Fault>]) {
        let script = Arc::clone(&self.script);
        self.store.decide(Some(Box::new(move |_| script.lock().expect("one").choose(swaps))));
    }

    async fn run(&mut self, choices: &Choices) -> Result<(), String> {
        for _ in 0..choices.steps {
            let event = self.script.lock().expect("one").choose(choices.events);
            self.happen(event).await;
            self.decide(choices.swaps);
            let stepped = catch_panic(self.task.step()).await?;
            if let Some(file_writer) = &self.task.context.file_writer {
                // The next step learns of a failure.
                let _ = file_writer.raise_local_mark().await;
            }
            self.store.decide(None);
            if let Err(error) = stepped {
                // Before its first lease, the task ends if the record names another layout.
                let is_fresh = self.grants.is_empty();
                return if is_fresh { Ok(()) } else { Err(error.to_string()) };
            }
            self.check()?;
            self.issue()?;
            tokio::time::advance(STEP).await;
            self.clock.advance(STEP);
            self.store_clock.advance(STEP);
        }
        self.recover().await
    }

    async fn happen(&mut self, event: Event) {
        match event {
            Event::Nothing => {}
            Event::ClockBack => self.clock.step(-300_000),
            Event::ClockAhead => self.clock.step(600_000),
            Event::ClockAheadInWindow => self.clock.step(300_000),
            Event::ClockPartlyBack => self.clock.step(-100_000),
            Event::ClockRight => self.clock.set(self.store_clock.now_ms()),
            Event::Deliver => drop(self.store.deliver().await),
            Event::Crash => self.store.crash(),
            Event::Release => {
                let Some(worker) = self.held_worker() else { return };
                // Fails if the record names another layout.
                let _ = self.operator().release(worker).await;
            }
            Event::Damage => self.damage_value(),
            Event::DamageToken => self.store.damage(self.held_worker()),
            Event::Raise => self.raise().await,
            Event::DamageAndRaise => {
                self.damage_value();
                self.raise().await;
            }
            Event::Rival => {
                let settings = KeeperSettings { state_file: None, ..self.settings.clone() };
                let node = || Self::node(&self.store, &settings, &self.store_clock, 2);
                let (rival, _) = self.rival.get_or_insert_with(node);
                // Fails if the record names another layout.
                let _ = rival.step().await;
            }
            Event::Kill => {
                self.settings.state_file = Some(self.disk.open());
                let seed = 10 + self.points();
                (self.task, self.issuer) =
                    Self::node(&self.store, &self.settings, &self.clock, seed);
                self.grants.clear();
            }
            Event::DiskFails => self.disk.set_failing(true),
            Event::Record => {
                let record = self.store.read_record("default").await.expect("memory");
                let Some(mut record) = record else { return };
                let (before, is_ours) = (record.token, record.canonical == self.recorded);
                record.canonical = if is_ours { "other".into() } else { self.recorded.clone() };
                record.token = raindrop_core::lease::Token::from_bits(before.bits() ^ 1);
                let swapped = self.store.swap_record("default", before, &record).await;
                assert!(swapped.expect("memory"));
            }
        }
    }

    fn held_worker(&self) -> Option<u64> {
        self.task.state.held().map(|held| held.lease.grant.worker())
    }

    fn damage_value(&self) {
        if let Some(worker) = self.held_worker() {
            self.store.damage_value(worker);
        }
    }

    async fn raise(&mut self) {
        self.is_raised = true;
        // Fails if the node has created no record yet.
        let _ = self.operator().raise(self.settings.lease.window).await;
    }

    fn operator(&self) -> Operator {
        let random = Box::new(StdRng::seed_from_u64(7 + self.points()));
        let clock = self.store_clock.clone();
        Operator::with_random(self.settings.clone(), self.store.clone(), clock, random)
    }

    /// Returns the number of choices so far.
    fn points(&self) -> u64 {
        self.script.lock().expect("one").widths.len() as u64
    }

    /// Checks the properties that must hold after each step.
    fn check(&mut self) -> Result<(), String> {
        let used = self.task.context.shared.generator.grant();
        if let Some(held) = self.task.state.held().map(|held| &held.lease) {
            if !used.as_ref().is_some_and(|used| Arc::ptr_eq(used, &held.grant)) {
                return Err("the generator's grant is not the held one".into());
            }
            if held.grant.is_sealed() {
                return Err("the held grant is sealed".into());
            }
        }
        if let Some(used) = used
            && !self.grants.iter().any(|grant| Arc::ptr_eq(grant, &used))
        {
            self.grants.push(used);
        }
        self.check_marks()?;
        // A grant ends at the limit of an acknowledged write of its own, and is sealed before its
        // mark is lowered.
        for grant in &self.grants {
            let (worker, lane) = (grant.worker(), usize::try_from(grant.lane()).expect("few"));
            let acknowledged = self.store.acknowledged.lock().expect("one");
            let of_worker = acknowledged.iter().filter(|(written, _)| *written == worker);
            let mut marks = of_worker.map(|(_, write)| write.marks[lane]);
            let highest = marks.clone().max().unwrap_or(0);
            if !grant.is_sealed() && grant.limit() > highest {
                return Err(format!("limit {} above the mark {highest}", grant.limit()));
            }
            let last = marks.next_back().unwrap_or(0);
            if last < grant.limit() && last < highest && !grant.is_sealed() {
                return Err(format!("mark lowered to {last} under a grant in use"));
            }
        }
        Ok(())
    }

    /// Checks that no mark is further ahead of the store's clock than a window and the skew: a clock
    /// of the node that is wrong moves no mark. After a raise, leases begin at a barrier that is as
    /// far ahead as leases reach.
    fn check_marks(&self) -> Result<(), String> {
        let LeaseTimes { window, max_clock_skew, .. } = self.settings.lease;
        let layout = &self.settings.layout;
        let barrier = if self.is_raised { window + 2 * max_clock_skew } else { Duration::ZERO };
        let latest = self.store_clock.now_ms() + millis(barrier + window + max_clock_skew);
        let acknowledged = self.store.acknowledged.lock().expect("one");
        let mut marks = acknowledged.iter().flat_map(|(_, write)| write.marks.iter());
        match marks.find(|mark| layout.start_of_tick_ms(layout.tick_of(*mark)) > latest + 1) {
            Some(mark) => Err(format!("mark {mark} is beyond {latest} ms")),
            None => Ok(()),
        }
    }

    fn issue(&mut self) -> Result<(), String> {
        let nodes = std::iter::once(&self.issuer).chain(self.rival.iter().map(|(_, node)| node));
        for issuer in nodes {
            let claim = issuer.state.generator.claim("order", 3);
            for id in claim.into_iter().flat_map(|claim| claim.ids) {
                if !self.issued.insert(id) {
                    return Err(format!("{id} was issued twice"));
                }
            }
        }
        Ok(())
    }

    /// Checks that the node issues once all is well again, and frees its row when it is stopped.
    async fn recover(&mut self) -> Result<(), String> {
        self.store.deliver().await;
        let record = self.store.read_record("default").await.expect("memory");
        if record.is_some_and(|record| record.canonical != self.recorded) {
            self.happen(Event::Record).await;
        }
        self.happen(Event::ClockRight).await;
        for _ in 0..12 {
            catch_panic(self.task.step()).await?.map_err(|error| error.to_string())?;
            if let Some(file_writer) = &self.task.context.file_writer {
                let _ = file_writer.raise_local_mark().await;
            }
            let before = self.issued.len();
            self.issue()?;
            let is_held = self.task.state.held().is_some();
            if is_held && self.issued.len() > before {
                return Ok(());
            }
            tokio::time::advance(STEP).await;
            self.clock.advance(STEP);
            self.store_clock.advance(STEP);
        }
        Err(format!("it never issues again: {:?}", self.issuer.status()))
    }
}

fn runtime() -> Runtime {
    Builder::new_current_thread().enable_time().start_paused(true).build().expect("a runtime")
}

/// Explores every run. Returns the number of runs, or the first failure.
fn explore(choices: &Choices) -> Result<usize, String> {
    let runtime = runtime();
    let _entered = runtime.enter();
    let (mut given, mut runs) = (Vec::new(), 0);
    loop {
        let mut scene = Scene::new(choices, given);
        let ended = runtime.block_on(scene.run(choices));
        runs += 1;
        let script = scene.script.lock().expect("one");
        if let Err(failure) = ended {
            return Err(format!("{failure}, in run {runs}: {}", script.told.join(", ")));
        }
        match script.next(choices.mishaps) {
            Some(next) => given = next,
            None => return Ok(runs),
        }
    }
}

#[expect(clippy::print_stdout, reason = "what was explored is shown on demand")]
fn all_hold(choices: &Choices) {
    // The checkers' build is optimised. Another build explores one mishap less.
    let mishaps = choices.mishaps - usize::from(cfg!(not(feature = "planted")));
    let choices = Choices { mishaps, ..choices.clone() };
    match explore(&choices) {
        Ok(runs) => println!("{}: {runs} runs with at most {mishaps} mishaps", choices.name),
        Err(failure) => panic!("{}: {failure}", choices.name),
    }
}

#[test]
fn every_schedule_of_rotations_holds() {
    all_hold(&ROTATIONS);
}

#[test]
fn every_schedule_of_a_clock_that_goes_partly_back_holds() {
    all_hold(&PARTLY_BACK);
    all_hold(&KEPT_PARTLY_BACK);
}

#[test]
fn every_schedule_of_changes_of_worker_holds() {
    all_hold(&WORKERS);
}

#[test]
fn every_schedule_of_a_failing_store_holds() {
    all_hold(&STORE);
}

#[test]
fn every_schedule_of_a_damaged_row_holds() {
    all_hold(&DAMAGED);
    all_hold(&KEPT_DAMAGED);
}

#[test]
fn every_schedule_with_a_state_file_holds() {
    all_hold(&KEPT);
    all_hold(&KEPT_ROTATIONS);
}

#[cfg(feature = "planted")]
mod planted {
    use super::*;
    use raindrop_core::planted::{Bug, plant};

    #[expect(clippy::print_stdout, reason = "the way to a bug is shown on demand")]
    fn finds(bug: Bug, choices: &Choices) {
        plant(Some(bug));
        let found = explore(choices);
        plant(None);
        println!("{bug:?}: {}", found.expect_err("the planted bug was not found"));
    }

    #[test]
    fn visible_write_taken_for_durable_is_found() {
        finds(Bug::VisibleIsDurable, &STORE);
        finds(Bug::VisibleIsDurable, &ROTATIONS);
    }

    #[test]
    fn releasing_row_that_touches_the_generator_is_found() {
        finds(Bug::LeavingTouchesGenerator, &WORKERS);
    }

    #[test]
    fn clock_ahead_that_becomes_the_agreed_one_is_found() {
        finds(Bug::ClockAheadAgreed, &PARTLY_BACK);
    }

    #[test]
    fn broken_rules_of_leases_are_found() {
        for bug in [Bug::MarkAfterIssuing, Bug::TablePerRenewal] {
            finds(bug, &STORE);
        }
    }
}
