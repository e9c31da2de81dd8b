//! Drives nodes of segment mode over the flaky store, by a list of operations.

use std::{
    collections::{HashMap, HashSet},
    hash::{DefaultHasher, Hash, Hasher},
    sync::Arc,
    time::Duration,
};

use raindrop_core::{
    issue::ClaimError,
    segment::{Numbers, SegmentSpec},
};
use raindrop_keeper::{
    GivenBack, IdempotencyKey, IssueError, KeyedNumber, NoObserver, SegmentIssuer, SegmentKeeper,
    SegmentSettings, UnavailableReason,
};
use rand::{SeedableRng, rngs::StdRng};
use tokio::{
    runtime::Builder,
    task::JoinHandle,
    time::{Instant, sleep, timeout},
};

use super::{
    activity::Activity,
    model::{CODES, Gaps, Op, Scenario},
    store::Flaky,
};
use crate::planted::{Planting, plant};

const MAX_WAIT: Duration = Duration::from_secs(1);
/// A stop is over within this.
const STOP: Duration = Duration::from_secs(5);

/// The result of a simulation.
#[derive(Debug)]
pub(super) struct Outcome {
    pub(super) failure: Option<String>,
    pub(super) activity: Activity,
    /// A hash of all answers.
    pub(super) trace: u64,
}

struct Node {
    process: u64,
    keeper: Option<SegmentKeeper>,
    stopping: Option<JoinHandle<GivenBack>>,
    issuer: SegmentIssuer,
}

type Answer = Result<Numbers, IssueError>;
type KeyedAnswer = Result<KeyedNumber, IssueError>;

/// The code whose requests have keys, if it is strict.
const KEYED: usize = 1;

struct BegunKeyed {
    process: u64,
    key: u32,
    answer: JoinHandle<(KeyedAnswer, Duration)>,
}

struct Begun {
    process: u64,
    code: usize,
    count: u32,
    /// The largest number of the code that was answered before.
    above: Option<u64>,
    answer: JoinHandle<(Answer, Duration)>,
}

struct World<'a> {
    scenario: &'a Scenario,
    store: Arc<Flaky>,
    nodes: Vec<Node>,
    processes: u64,
    specs: HashMap<u64, [SegmentSpec; CODES.len()]>,
    begun: Vec<Begun>,
    begun_keyed: Vec<BegunKeyed>,
    /// The answers to requests with keys.
    numbers_of_keys: HashSet<(u32, u64)>,
    issued: HashSet<(usize, u64)>,
    last: HashMap<(u64, usize), u64>,
    /// The largest number of each code that was answered.
    largest: [Option<u64>; CODES.len()],
    activity: Activity,
    failure: Option<String>,
    trace: DefaultHasher,
}

/// Runs a scenario to its end or its first failure.
pub(super) fn run(scenario: &Scenario, planting: Planting) -> Outcome {
    plant(planting);
    let runtime = Builder::new_current_thread().enable_time().start_paused(true).build();
    runtime.expect("a runtime").block_on(async {
        let mut world = World::new(scenario, planting);
        for op in &scenario.ops {
            world.step(*op).await;
            if world.failure.is_some() {
                break;
            }
        }
        if world.failure.is_none() {
            world.settle().await;
        }
        let mut activity = world.store.activity();
        if scenario.gaps == Gaps::None && activity.skipped > 0 {
            world.fail("a code whose gap is 0 skipped numbers".to_owned());
        }
        activity += world.activity;
        Outcome { failure: world.failure, activity, trace: world.trace.finish() }
    })
}

impl<'a> World<'a> {
    fn new(scenario: &'a Scenario, planting: Planting) -> Self {
        let mut world = Self {
            scenario,
            store: Flaky::new(planting, scenario.gaps == Gaps::None, scenario.is_series),
            nodes: Vec::new(),
            processes: 0,
            specs: HashMap::new(),
            begun: Vec::new(),
            begun_keyed: Vec::new(),
            numbers_of_keys: HashSet::new(),
            issued: HashSet::new(),
            last: HashMap::new(),
            largest: [None; CODES.len()],
            activity: Activity::default(),
            failure: None,
            trace: DefaultHasher::new(),
        };
        for node in 0..scenario.specs.len() {
            let node = world.start(node);
            world.nodes.push(node);
        }
        world
    }

    fn start(&mut self, node: usize) -> Node {
        self.processes += 1;
        let process = self.processes;
        let mut settings = SegmentSettings {
            max_wait: MAX_WAIT,
            failover_gap: self.scenario.gaps.of_all(),
            ..SegmentSettings::new("numbers")
        };
        let specs = self.scenario.specs[node];
        self.specs.insert(process, specs);
        for (code, (name, spec)) in CODES.into_iter().zip(specs).enumerate() {
            let strict = self.is_strict(code);
            let spec = SegmentSpec { strict, ..spec };
            settings = match self.scenario.is_series {
                true => settings.with_series(name, spec),
                false => settings.with_code(name, spec),
            };
        }
        let random = StdRng::seed_from_u64(self.scenario.seed * 1_000 + process);
        let (keeper, mut issuers) = SegmentKeeper::start_with(
            vec![(settings, Arc::new(NoObserver))],
            self.store.clone(),
            Box::new(random),
        );
        let issuer = issuers.pop().expect("one for each namespace");
        Node { process, keeper: Some(keeper), stopping: None, issuer }
    }

    async fn step(&mut self, op: Op) {
        match op {
            // tokio leaves to chance which of several waiting claims it wakes first.
            Op::Claim { node, code, .. } | Op::Begin { node, code, .. }
                if self.is_waiting(node, code) => {}
            Op::Claim { node, code, count } => {
                let (process, issuer) = (self.nodes[node].process, self.nodes[node].issuer.clone());
                let (began, above) = (Instant::now(), self.largest[code]);
                let answer = issuer.next_ids(&self.scenario.name(code), count).await;
                self.rises(process, code, &answer);
                self.ascends(code, above, &answer);
                self.judge(process, code, count, answer, began.elapsed());
            }
            Op::Begin { node, code, count } => {
                let (process, issuer) = (self.nodes[node].process, self.nodes[node].issuer.clone());
                let name = self.scenario.name(code);
                let answer = tokio::spawn(async move {
                    let began = Instant::now();
                    (issuer.next_ids(&name, count).await, began.elapsed())
                });
                let above = self.largest[code];
                self.begun.push(Begun { process, code, count, above, answer });
                // The request joins the queue.
                tokio::task::yield_now().await;
            }
            Op::Keyed { node, key } => {
                let (process, issuer) = (self.nodes[node].process, self.nodes[node].issuer.clone());
                let code = self.scenario.name(KEYED);
                let name = IdempotencyKey::new(format!("document-{key}")).expect("a key");
                let answer = tokio::spawn(async move {
                    let began = Instant::now();
                    let number = issuer.number_of_key(None, &code, &name).await;
                    (number, began.elapsed())
                });
                self.begun_keyed.push(BegunKeyed { process, key, answer });
                // The request joins the queue.
                tokio::task::yield_now().await;
            }
            Op::GiveUp => {
                let waits = |claim: &Begun| !claim.answer.is_finished();
                if let Some(last) = self.begun.iter().rposition(waits) {
                    self.begun.remove(last).answer.abort();
                    self.activity.given_up += 1;
                    // The request ends.
                    tokio::task::yield_now().await;
                }
            }
            Op::GiveUpKeyed => {
                let waits = |claim: &BegunKeyed| !claim.answer.is_finished();
                if let Some(last) = self.begun_keyed.iter().rposition(waits) {
                    self.begun_keyed.remove(last).answer.abort();
                    self.activity.given_up_keyed += 1;
                    tokio::task::yield_now().await;
                }
            }
            Op::Wait { ms } => self.wait(Duration::from_millis(ms)).await,
            Op::Crash { node } => {
                let node = &mut self.nodes[node];
                // A crash ends the process at once, with everything that it was about to send.
                if let Some(stopping) = node.stopping.take() {
                    stopping.abort();
                }
                if node.keeper.take().is_some() {
                    self.activity.crashes += 1;
                }
            }
            Op::Stop { node } => {
                let node = &mut self.nodes[node];
                if let Some(keeper) = node.keeper.take() {
                    self.activity.stops += 1;
                    node.stopping = Some(tokio::spawn(keeper.release(STOP)));
                    // The task gets the signal.
                    tokio::task::yield_now().await;
                }
            }
            Op::Start { node } => {
                if self.nodes[node].keeper.is_none() {
                    let old = self.nodes[node].stopping.take();
                    if let Some(old) = old {
                        // Another machine: the old process may still be stopping.
                        drop(old);
                    }
                    self.nodes[node] = self.start(node);
                }
            }
            Op::Expect(fate) => self.store.expect(fate),
            Op::Deliver => self.store.deliver().await,
            Op::Down => self.store.set_down(true),
            Op::Up => self.store.set_down(false),
            Op::Latency { ms } => self.store.set_latency(ms),
            Op::Replicate => self.store.replicate().await,
            Op::FailOver => self.store.fail_over(false),
            Op::FailBack => self.store.fail_over(true),
        }
        self.collect(false).await;
    }

    fn is_running(&self, process: u64) -> bool {
        self.nodes.iter().any(|node| node.process == process && node.keeper.is_some())
    }

    fn is_waiting(&self, node: usize, code: usize) -> bool {
        let process = self.nodes[node].process;
        let is_same = |claim: &Begun| (claim.process, claim.code) == (process, code);
        !self.is_strict(code) && self.begun.iter().any(is_same)
    }

    /// Returns whether the code is strict. Its claims are served in their order.
    fn is_strict(&self, code: usize) -> bool {
        self.scenario.is_strict && code == 1
    }

    async fn wait(&self, time: Duration) {
        sleep(time).await;
        self.store.pass(time);
    }

    /// Judges the requests with keys that have an answer.
    async fn collect_keyed(&mut self, all: bool) {
        for claim in std::mem::take(&mut self.begun_keyed) {
            if !all && !claim.answer.is_finished() {
                self.begun_keyed.push(claim);
                continue;
            }
            let (answer, took) = claim.answer.await.expect("no claim panics");
            self.judge_keyed(claim.process, claim.key, answer, took);
        }
    }

    fn judge_keyed(&mut self, process: u64, key: u32, answer: KeyedAnswer, took: Duration) {
        (process, key, answer.as_ref().map(|number| &number.text).ok()).hash(&mut self.trace);
        match answer {
            Ok(KeyedNumber { text, is_repeated }) => {
                self.activity.keyed += 1;
                self.activity.repeated += u64::from(is_repeated);
                let number: u64 = text.parse().expect("digits");
                // A fail-over that loses writes may lose keys.
                let may_be_lost = self.scenario.gaps != Gaps::None;
                if !self.numbers_of_keys.insert((key, number)) {
                    return;
                }
                let of_key = self.numbers_of_keys.iter().filter(|(other, _)| *other == key);
                if of_key.count() > 1 && !(may_be_lost && self.store.activity().fail_overs > 0) {
                    self.fail(format!("key {key} got {number} and another number"));
                }
                self.activity.numbers += 1;
                self.largest[KEYED] = self.largest[KEYED].max(Some(number));
                if !self.issued.insert((KEYED, number)) {
                    self.fail(format!("{} {number} was issued twice", CODES[KEYED]));
                }
            }
            Err(error) => self.judge(process, KEYED, 1, Err(error), took),
        }
    }

    /// Judges the claims that have an answer.
    async fn collect(&mut self, all: bool) {
        self.collect_keyed(all).await;
        let begun = std::mem::take(&mut self.begun);
        for claim in begun {
            if !all && !claim.answer.is_finished() {
                self.begun.push(claim);
                continue;
            }
            let (answer, took) = claim.answer.await.expect("no claim panics");
            self.ascends(claim.code, claim.above, &answer);
            self.judge(claim.process, claim.code, claim.count, answer, took);
        }
    }

    fn judge(&mut self, process: u64, code: usize, count: u32, answer: Answer, took: Duration) {
        // A claim of a code that the node does not know waits for the list of managed codes, too.
        let longest = if self.scenario.is_series { 2 * MAX_WAIT } else { MAX_WAIT };
        if took > longest {
            self.fail(format!("a claim waited for {took:?}"));
        }
        let waited = !took.is_zero();
        (process, code, answer.as_ref().map(Numbers::len).ok()).hash(&mut self.trace);
        match answer {
            Ok(numbers) => {
                self.activity.waited += u64::from(waited);
                self.activity.across += u64::from(numbers.clone().ranges().count() > 1);
                if numbers.len() != count as usize {
                    self.fail(format!("{} numbers instead of {count}", numbers.len()));
                }
                for id in numbers {
                    self.check(process, code, id.get());
                }
            }
            Err(IssueError::NoLease { reason: UnavailableReason::ShuttingDown, .. }) => {
                self.activity.sealed += 1;
            }
            Err(IssueError::NoLease { reason: UnavailableReason::StoreUnavailable(_), .. }) => {
                self.activity.unavailable += 1;
            }
            Err(IssueError::NoLease { reason: UnavailableReason::Starting, .. })
                if self.scenario.is_series =>
            {
                self.activity.unavailable += 1;
            }
            Err(IssueError::NoLease { reason: UnavailableReason::StoreLost, .. })
                if self.scenario.is_series =>
            {
                self.activity.row_lost += 1;
            }
            Err(IssueError::NoLease { reason: UnavailableReason::KeeperEnded, .. })
                if !self.is_running(process) =>
            {
                self.activity.crashed += 1;
            }
            Err(IssueError::Refused(ClaimError::SequenceExhausted { .. })) => {
                self.activity.used_up += 1;
            }
            Err(error) => self.fail(format!("refused: {error}")),
        }
    }

    fn check(&mut self, process: u64, code: usize, number: u64) {
        let spec = self.specs[&process][code];
        number.hash(&mut self.trace);
        self.activity.numbers += 1;
        self.largest[code] = self.largest[code].max(Some(number));
        if !self.issued.insert((code, number)) {
            self.fail(format!("{} {number} was issued twice", CODES[code]));
        }
        if number % spec.increment != spec.remainder || number < spec.start || number > spec.max {
            self.fail(format!("{} {number} is none of the code", CODES[code]));
        }
    }

    /// Checks claims that were answered one after the other.
    fn rises(&mut self, process: u64, code: usize, answer: &Answer) {
        let Ok(numbers) = answer else { return };
        for number in numbers.clone().map(|id| id.get()) {
            let last = self.last.insert((process, code), number);
            if last.is_some_and(|last| last >= number) {
                self.fail(format!("{} {number} after {last:?} by one process", CODES[code]));
            }
        }
    }

    /// Checks a claim of a strict code that began when this was the largest number.
    fn ascends(&mut self, code: usize, above: Option<u64>, answer: &Answer) {
        let Ok(numbers) = answer else { return };
        if !self.is_strict(code) {
            return;
        }
        self.activity.strict += numbers.len() as u64;
        if let Some(first) = numbers.clone().next().map(|id| id.get())
            && let Some(above) = above
            && first <= above
        {
            self.fail(format!("{} {first} is not above {above}, answered before", CODES[code]));
        }
    }

    fn fail(&mut self, failure: String) {
        self.failure.get_or_insert(failure);
    }

    /// Repairs all faults: then every process that runs must issue.
    async fn settle(&mut self) {
        self.store.heal();
        self.store.deliver().await;
        self.store.set_latency(1);
        for node in 0..self.nodes.len() {
            if self.nodes[node].keeper.is_none() {
                self.nodes[node] = self.start(node);
            }
        }
        self.wait(Duration::from_secs(30)).await;
        self.collect(true).await;
        if self.scenario.ops.iter().any(|op| matches!(op, Op::Keyed { .. })) {
            self.settle_keys().await;
        }
        for node in 0..self.nodes.len() {
            for code in 0..CODES.len() {
                let name = self.scenario.name(code);
                let (process, issuer) = (self.nodes[node].process, self.nodes[node].issuer.clone());
                let above = self.largest[code];
                let answer = timeout(2 * MAX_WAIT, issuer.next_ids(&name, 3)).await;
                let answer = answer.expect("an answer in time");
                let lives = match &answer {
                    Ok(_) => true,
                    // The code may have reached its largest number.
                    Err(_) => self.specs[&process][code].max < 1_000,
                };
                if !lives {
                    self.fail(format!("process {process} does not issue: {answer:?}"));
                }
                self.ascends(code, above, &answer);
                self.judge(process, code, 3, answer, Duration::ZERO);
            }
        }
    }
    /// Checks that every node answers for every key.
    async fn settle_keys(&mut self) {
        for node in 0..self.nodes.len() {
            for key in 0..4 {
                let (process, issuer) = (self.nodes[node].process, self.nodes[node].issuer.clone());
                let name = IdempotencyKey::new(format!("document-{key}")).expect("a key");
                let code = self.scenario.name(KEYED);
                let number = issuer.number_of_key(None, &code, &name);
                let answer = timeout(2 * MAX_WAIT, number).await.expect("an answer in time");
                // The code may have reached its largest number.
                if answer.is_err() && self.specs[&process][KEYED].max >= 1_000 {
                    self.fail(format!("process {process} has no number for key {key}: {answer:?}"));
                }
                self.judge_keyed(process, key, answer, Duration::ZERO);
            }
        }
    }
}
