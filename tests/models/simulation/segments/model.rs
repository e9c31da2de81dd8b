//! The parts of a simulation of segment mode, and how a seed chooses them.

use raindrop_core::segment::SegmentSpec;
use rand::{RngExt, SeedableRng, rngs::StdRng};

pub(super) const CODES: [&str; 2] = ["order", "user"];

/// More numbers than a simulation can reserve of one code.
const LARGE_GAP: u64 = 100_000;
/// More numbers than a simulation can reserve of a code by one at a time, but fewer than it may
/// reserve of another one.
const SMALL_GAP: u64 = 150;

/// What the store loses in a fail-over, and how many numbers the codes skip therefore.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Gaps {
    /// The default gap covers the lost writes.
    Default,
    /// The second code reserves one number at a time, and the gap of all codes covers only that.
    /// The first code has a gap of its own.
    OfFirstCode,
    /// The store loses nothing, and no code skips a number.
    None,
}

/// One step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Op {
    /// A client requests numbers of a node; the node may have stopped.
    Claim {
        node: usize,
        code: usize,
        count: u32,
    },
    /// The same, while other operations follow before the answer.
    Begin {
        node: usize,
        code: usize,
        count: u32,
    },
    /// A request with an idempotency key begins, for a number of the strict code.
    Keyed {
        node: usize,
        key: u32,
    },
    /// The caller that began last gives up before its answer.
    GiveUp,
    /// So does the one with a key that began last.
    GiveUpKeyed,
    Wait {
        ms: u64,
    },
    /// The process ends at once.
    Crash {
        node: usize,
    },
    /// The process begins to stop in order.
    Stop {
        node: usize,
    },
    /// A process starts in the place of one that ended.
    Start {
        node: usize,
    },
    /// Sets the fate of the next write.
    Expect(Fate),
    /// Late writes arrive.
    Deliver,
    Down,
    Up,
    Latency {
        ms: u64,
    },
    /// The replica gets the state of the store.
    Replicate,
    /// The replica takes the place of the store.
    FailOver,
    /// The former server takes the place of the replica, with its former state.
    FailBack,
}

/// The fate of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    Answered,
    LostReply,
    NeverArrives,
    Late,
}

/// A set-up and its steps.
#[derive(Clone, Debug)]
pub(super) struct Scenario {
    pub(super) seed: u64,
    /// How each node counts the codes. Nodes that count in other steps than others must not repeat
    /// a number either.
    pub(super) specs: Vec<[SegmentSpec; CODES.len()]>,
    pub(super) gaps: Gaps,
    /// Whether the second code is strict.
    pub(super) is_strict: bool,
    /// Whether the codes are members of series, which claims create.
    pub(super) is_series: bool,
    pub(super) ops: Vec<Op>,
}

impl Scenario {
    /// Returns the name of a code.
    pub(super) fn name(&self, code: usize) -> String {
        let name = CODES[code];
        if self.is_series { format!("{name}:paris") } else { name.to_owned() }
    }
}

impl Gaps {
    /// Returns the gap of the codes that have none of their own.
    pub(super) fn of_all(self) -> Option<u64> {
        (self == Self::OfFirstCode).then_some(SMALL_GAP)
    }

    /// Returns the settings of each code, of which this would be one with the default gap.
    fn specs(self, spec: SegmentSpec) -> [SegmentSpec; CODES.len()] {
        let with = |gap| SegmentSpec { failover_gap: Some(gap), ..spec };
        match self {
            Self::Default => [spec; CODES.len()],
            Self::OfFirstCode => {
                [with(LARGE_GAP), SegmentSpec { min_step: 1, max_step: 1, ..spec }]
            }
            Self::None => [with(0); CODES.len()],
        }
    }
}

/// Returns the scenario of a seed.
pub(super) fn generate(seed: u64) -> Scenario {
    let mut random = StdRng::seed_from_u64(seed);
    let nodes = random.random_range(1..=3);
    let increment = random.random_range(1..=3);
    let min_step = random.random_range(1..=12);
    let spec = SegmentSpec {
        start: random.random_range(0..=20),
        min_step,
        max_step: min_step * random.random_range(1..=20),
        increment,
        remainder: random.random_range(0..increment),
        max: if random.random_bool(0.1) { 400 } else { SegmentSpec::LARGEST_NUMBER },
        text: None,
        failover_gap: None,
        strict: false,
    };
    let is_mixed = random.random_bool(0.2);
    let spec_of = |node: usize| match is_mixed {
        true => SegmentSpec { increment: increment * [1, 50, 7][node], ..spec },
        false => spec,
    };
    let mut ops = Vec::new();
    for _ in 0..random.random_range(10..60) {
        let (node, code) = (random.random_range(0..nodes), random.random_range(0..CODES.len()));
        let most = random.random_range(1..=40);
        let count = random.random_range(1..=most);
        let fate = [Fate::Answered, Fate::LostReply, Fate::NeverArrives, Fate::Late]
            [random.random_range(0..4)];
        ops.push(match random.random_range(0..100) {
            0..40 => Op::Claim { node, code, count },
            40..50 => Op::Begin { node, code, count },
            50..65 => Op::Wait { ms: random.random_range(0..3_000) },
            65..69 => Op::Crash { node },
            69..76 => Op::Stop { node },
            76..82 => Op::Start { node },
            82..90 => Op::Expect(fate),
            90..94 => Op::Deliver,
            94..96 => Op::Down,
            96..98 => Op::Up,
            _ => Op::Latency { ms: random.random_range(0..50) },
        });
    }
    // Drawn last, so that the other values of a seed stay unchanged.
    if random.random_bool(0.5) {
        for _ in 0..random.random_range(1..=3) {
            let from = random.random_range(0..=ops.len());
            ops.insert(from, Op::Replicate);
            let at = random.random_range(from + 1..=ops.len());
            ops.insert(at, if random.random_bool(0.7) { Op::FailOver } else { Op::FailBack });
        }
    }
    // Callers of one node that wait together. One gives up, before the write of their numbers or
    // within it, and another request follows.
    let wait_together = random.random_bool(0.5);
    if wait_together {
        let (node, code) = (random.random_range(0..nodes), CODES.len() - 1);
        let mut count = || random.random_range(1..=5);
        let begins = [count(), count(), count()].map(|count| Op::Begin { node, code, count });
        let next = Op::Claim { node, code, count: count() };
        let (latency, wait) = (random.random_range(1..50), random.random_range(0..100));
        let latency = Op::Latency { ms: latency };
        let at = random.random_range(0..=ops.len());
        let together = [latency, begins[0], begins[1], begins[2], Op::Wait { ms: wait }];
        ops.splice(at..at, together.into_iter().chain([Op::GiveUp, next]));
    }
    let gaps = match random.random_range(0..4) {
        // A node of larger increments loses more than the small gap of one of smaller ones.
        0 if !is_mixed => Gaps::OfFirstCode,
        1 => Gaps::None,
        _ => Gaps::Default,
    };
    if gaps == Gaps::OfFirstCode {
        for op in &mut ops {
            if let Op::Claim { code: 1, count, .. } | Op::Begin { code: 1, count, .. } = op {
                *count = 1;
            }
        }
    }
    let specs = (0..nodes).map(|node| gaps.specs(spec_of(node))).collect();
    let is_strict = random.random_bool(0.5);
    // A few keys, of which each is repeated.
    if is_strict && random.random_bool(0.5) {
        for _ in 0..random.random_range(4..20) {
            let (node, key) = (random.random_range(0..nodes), random.random_range(0..4));
            let at = random.random_range(0..=ops.len());
            ops.insert(at, Op::Keyed { node, key });
            // Between two requests with one key, the process of the first one may take too long.
            match random.random_range(0..10) {
                0..2 => ops.insert(at, Op::Wait { ms: random.random_range(0..20_000) }),
                2..4 => ops.insert(at + 1, Op::GiveUpKeyed),
                _ => {}
            }
        }
    }
    // Nodes that count in other steps do not know how much another node's lost row covered. A first
    // claim of a member reads the managed codes before it joins those that wait.
    let is_series = random.random_bool(0.6) && !is_mixed && !wait_together;
    // A fail-over loses the row of a member, which only the node that created it asks for then.
    if is_series && random.random_bool(0.3) {
        let claim = Op::Claim { node: random.random_range(0..nodes), code: 0, count: 40 };
        let lost = [Op::Wait { ms: 1 }, Op::Replicate, claim, Op::FailOver];
        let claims = [claim, claim, claim, Op::Wait { ms: 8_000 }, claim];
        ops.splice(0..0, lost.into_iter().chain(claims));
    }
    Scenario { seed, specs, gaps, is_strict, is_series, ops }
}
