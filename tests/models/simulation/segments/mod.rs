//! Simulates segment mode: nodes that reserve, crash, stop and return numbers, over a store that
//! loses answers, applies writes late, and fails over to a server without the last writes. Callers
//! give up while they wait. In some runs claims create the codes, as members of series, and a
//! fail-over loses their rows.
//!
//! After every operation: no number was issued twice for a code, the numbers of a code rise on a
//! process, each is one of the code's, and no claim waits longer than `max_wait`. Numbers of a strict
//! code are above all that were answered before their request began, on any node. At the end all
//! faults are repaired, and every process must issue.
//!
//! `make simulation ONLY=segments::replay SEED=17` runs one seed, with `BUG=TokenNotCompared` under
//! that bug.

mod activity;
mod model;
mod store;
mod world;

use raindrop_core::planted::Bug;

use self::{
    activity::Activity,
    model::{Op, Scenario, generate},
    world::run,
};
use crate::{number, planted::Planting, report, shrink::shorten};

const SEEDS: u64 = 2_000;
/// The longest list of operations that a planted bug may be shrunk to.
const SHORT: usize = 15;

/// Bugs, and a part of the failure that shows each.
const BUGS: [(Planting, &str); 8] = [
    (Planting::TokenNotCompared, "twice"),
    (Planting::UndoTokenNotCompared, "twice"),
    (Planting::Rule(Bug::GivenBackWhole), "twice"),
    (Planting::Rule(Bug::GapNotSkipped), "twice"),
    (Planting::Rule(Bug::CreatedBelowGap), "twice"),
    (Planting::Rule(Bug::StrictServesFromBlock), "not above"),
    (Planting::Rule(Bug::StrictUndoneWhole), "twice"),
    (Planting::Rule(Bug::KeyAfterAnswer), "and another number"),
];

/// Returns the shortest list of operations that still fails.
fn shrunk(scenario: &Scenario, planting: Planting) -> Vec<Op> {
    let join = |first: &Op, second: &Op| match (first, second) {
        (Op::Wait { ms: first }, Op::Wait { ms: second }) => Some(Op::Wait { ms: first + second }),
        _ => None,
    };
    shorten(&scenario.ops, join, |ops| {
        let shorter = Scenario { ops: ops.to_vec(), ..scenario.clone() };
        run(&shorter, planting).failure.is_some()
    })
}

fn describe(scenario: &Scenario, planting: Planting, failure: &str, ops: &[Op]) -> String {
    let bug = match planting {
        Planting::Nothing => String::new(),
        planting => format!("BUG={} ", planting.name()),
    };
    let listed: String = ops.iter().map(|op| format!("\n  {op:?}")).collect();
    format!(
        "{failure}\nreplay: make simulation ONLY=segments::replay SEED={} {bug}\n{:?}\nshrunk to {} operations:{listed}",
        scenario.seed,
        scenario.specs,
        ops.len(),
    )
}

#[test]
fn numbers_are_never_issued_twice() {
    let (seeds, first) = (number("SEEDS").unwrap_or(SEEDS), number("FIRST").unwrap_or(0));
    println!("segment seeds {first} to {}", first + seeds - 1);
    let mut activity = Activity::default();
    for seed in first..first + seeds {
        let scenario = generate(seed);
        let outcome = run(&scenario, Planting::Nothing);
        if let Some(failure) = outcome.failure {
            let ops = shrunk(&scenario, Planting::Nothing);
            panic!("{}", describe(&scenario, Planting::Nothing, &failure, &ops));
        }
        if seed % 50 == 0 {
            let again = run(&scenario, Planting::Nothing);
            assert_eq!(again.trace, outcome.trace, "seed {seed} does not repeat");
        }
        activity += outcome.activity;
    }
    println!("{seeds} seeds, {} numbers checked", activity.numbers);
    report(&activity.counts(), seeds);
}

#[test]
fn planted_bugs_of_segments_are_found() {
    for (planting, shown) in BUGS {
        let found = (0..SEEDS).find_map(|seed| {
            let scenario = generate(seed);
            let failure = run(&scenario, planting).failure?;
            let ops = shrunk(&scenario, planting);
            (failure.contains(shown) && ops.len() <= SHORT).then_some((seed, ops))
        });
        let Some((seed, ops)) = found else { panic!("{} is not found", planting.name()) };
        let count = ops.len();
        println!("{:<22} with seed {seed}, shrunk to {count}: {ops:?}", planting.name());
    }
}

/// Runs the one seed that the environment names; does nothing without it.
#[test]
fn replay() {
    let Some(seed) = number("SEED") else { return };
    let planting = std::env::var("BUG").ok().map_or(Planting::Nothing, |name| {
        let bug = BUGS.into_iter().map(|(bug, _)| bug).find(|bug| bug.name() == name);
        bug.unwrap_or_else(|| panic!("BUG={name}: unknown"))
    });
    let scenario = generate(seed);
    let outcome = run(&scenario, planting);
    match outcome.failure {
        None => println!("no failure; trace {:016x}", outcome.trace),
        Some(failure) => {
            let ops = shrunk(&scenario, planting);
            println!("{}", describe(&scenario, planting, &failure, &ops));
        }
    }
}
