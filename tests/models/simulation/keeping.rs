//! Adds state files: in some seeds, every node keeps its lease in a file on a separate disk.

use raindrop_keeper::LeaseTimes;
use rand::{RngExt, SeedableRng, rngs::StdRng};

use crate::{
    generate::pick,
    model::{Op, Setup},
};

/// How many of ten seeds these are.
const TENTHS: u64 = 4;

/// The shortest interval between renewals that a keeper accepts with a state file.
pub(crate) const SHORTEST_RENEW_MS: u64 = LeaseTimes::SHORTEST_RENEW_WITH_FILE.as_secs() * 1_000;

/// Decides by separate random numbers, so that the other seeds stay unchanged.
pub(crate) fn with_disks(seed: u64, setup: Setup) -> Setup {
    let mut random = numbers(seed);
    if random.random_range(0..10) >= TENTHS {
        return setup;
    }
    let disk_ms = pick(&mut random, &[0, 0, 1, 20, 150, 400]);
    let renew_ms = SHORTEST_RENEW_MS;
    Setup {
        disk_ms: Some(disk_ms),
        renew_ms,
        ttl_ms: pick(&mut random, &[2 * renew_ms + 1, 3 * renew_ms]),
        window_ms: pick(&mut random, &[2 * renew_ms + 1, 4 * renew_ms, 60_000]),
        ..setup
    }
}

/// Adds operations on processes and disks.
pub(crate) fn add(seed: u64, setup: &Setup, ops: &mut Vec<Op>) {
    if setup.disk_ms.is_none() {
        return;
    }
    let mut random = numbers(seed ^ 1);
    for _ in 0..random.random_range(1..=4) {
        let happened = happen(setup, &mut random);
        let at = random.random_range(0..=ops.len());
        ops.splice(at..at, happened);
    }
}

fn numbers(seed: u64) -> StdRng {
    StdRng::seed_from_u64(seed ^ 0x7374_6174_6566_696c)
}

fn happen(setup: &Setup, random: &mut StdRng) -> Vec<Op> {
    let node = random.random_range(0..setup.nodes());
    let code = random.random_range(0..setup.codes);
    let most = u32::try_from(setup.positions).expect("few").min(8);
    let everyone = |random: &mut StdRng| {
        [
            Op::Everyone { code, count: random.random_range(1..=most) },
            Op::Advance { ms: random.random_range(1..=800) },
        ]
    };
    let start = Op::Start { node, same_holder: true };
    let mut ops = Vec::new();
    if random.random_bool(0.7) {
        ops.extend([Op::Advance { ms: 4_000 }, Op::Issue { node, code, count: 1 }]);
    }
    let is_away = random.random_bool(0.6);
    if is_away {
        ops.push(if random.random_bool(0.5) { Op::Outage } else { Op::Partition { node } });
    }
    match random.random_range(0..8) {
        // The process restarts, perhaps several times.
        0..3 => {
            for _ in 0..random.random_range(1..=3) {
                ops.extend(everyone(random));
                ops.push(if random.random_bool(0.5) {
                    Op::Crash { node }
                } else {
                    Op::LosePower { node }
                });
                ops.push(start);
                ops.push(Op::Advance { ms: pick(random, &[1, 500, 3_000]) });
            }
        }
        // The process stops in order, and starts before or after the stop has ended.
        3 | 4 => {
            ops.extend(everyone(random));
            ops.push(Op::Stop { node, deadline_ms: pick(random, &[1_000, 10_000]) });
            ops.push(Op::Advance { ms: pick(random, &[1, 300, 11_000]) });
            ops.push(start);
        }
        // The process is away for so long that another node may have its row.
        5 | 6 => {
            ops.extend(everyone(random));
            let ms = random.random_range(1..=setup.ttl_ms + 3_000);
            ops.extend([Op::Crash { node }, Op::Advance { ms }, start]);
        }
        _ => {
            let fails = random.random_bool(0.5);
            ops.push(Op::BreakDisk { node, fails });
            for _ in 0..3 {
                ops.extend(everyone(random));
                ops.push(Op::Advance { ms: 2_500 });
            }
            ops.extend([Op::Crash { node }, Op::MendDisk { node }, start]);
        }
    }
    for _ in 0..3 {
        ops.extend(everyone(random));
    }
    if is_away {
        ops.extend([Op::Restore, Op::Heal { node }]);
        ops.push(Op::Advance { ms: random.random_range(1..=2 * setup.renew_ms) });
        ops.extend(everyone(random));
    }
    ops
}
