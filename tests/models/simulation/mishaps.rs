//! Mishaps that need a calm world without other mishaps. A node acts on a read from before a move
//! to another layout or before the loss of a row, or a write arrives in the middle of a move.

use raindrop_core::layout::TimeUnit;
use rand::{RngExt, rngs::StdRng};

use crate::{
    generate::pick,
    keeping::SHORTEST_RENEW_MS,
    model::{Fault, Op, Order, Scenario, Setup},
};

/// The node that holds a row when the scenario begins. The other node and a third one follow.
const HOLDER: usize = 0;
const OTHER: usize = 1;
const THIRD: usize = 2;

/// Two nodes with right clocks, and one row for both.
fn calm(setup: Setup) -> Setup {
    let renew_ms = if setup.disk_ms.is_some() { SHORTEST_RENEW_MS } else { 5_000 };
    Setup {
        workers: 1,
        codes: 1,
        own_clock: true,
        window_ms: 60_000,
        ttl_ms: 4 * renew_ms,
        renew_ms,
        skew_ms: 500,
        latency_ms: 2,
        offsets_ms: vec![0, 0],
        ..setup
    }
}

/// Returns a time after which a backup is so old that a start notices it.
const fn backup_is_old_ms(setup: &Setup) -> u64 {
    setup.renew_ms * 8 / 5
}

/// Changes the layout after a node read the record and before it reads the rows.
pub(crate) fn while_a_node_acquires(seed: u64, setup: Setup, mut random: StdRng) -> Scenario {
    let unit = TimeUnit::Millisecond;
    let setup = Setup { unit, positions: 64, ..calm(setup) };
    let slow_ms = pick(&mut random, &[1_000, 3_000]);
    let mut ops = vec![Op::Crash { node: OTHER }, Op::Advance { ms: 4_000 }];
    // No row is left for the node, so it searches again and again.
    ops.extend([start(OTHER), Op::Advance { ms: 1_000 }, Op::Slow { node: OTHER, ms: slow_ms }]);
    ops.push(Op::Advance { ms: random.random_range(5_000..=15_000) });
    let positions = pick(&mut random, &[2, 4, 8]);
    let rollback_bits = setup.rollback_bits;
    ops.push(move_to(60 * 86_400_000, positions, rollback_bits, 0));
    ops.push(Op::Advance { ms: 3 * slow_ms });
    for _ in 0..3 {
        ops.extend([Op::Everyone { code: 0, count: 2 }, Op::Advance { ms: 1_000 }]);
    }
    Scenario { seed, setup, ops }
}

/// Lets a renewal arrive after an operator judged the marks for a move to a layout. Its IDs are
/// larger than those marks allowed, and smaller than the renewal allows.
pub(crate) fn while_a_renewal_is_late(seed: u64, setup: Setup, mut random: StdRng) -> Scenario {
    let setup = Setup { unit: TimeUnit::Second, positions: 4, ..calm(setup) };
    let slow_ms = pick(&mut random, &[500, 1_000, 2_000]);
    let mut ops = vec![Op::Crash { node: OTHER }, Op::Advance { ms: 500 }];
    ops.push(Op::Slow { node: HOLDER, ms: random.random_range(slow_ms..=6 * slow_ms) });
    ops.push(Op::Advance { ms: random.random_range(1_000..=4_000) });
    let earlier_ms = random.random_range(9_000..=25_000);
    ops.push(move_to(earlier_ms, setup.positions, setup.rollback_bits, slow_ms));
    ops.push(Op::Advance { ms: random.random_range(slow_ms..=6 * slow_ms) });
    ops.extend([Op::Heal { node: HOLDER }, Op::Advance { ms: 30 * slow_ms }, start(OTHER)]);
    for _ in 0..50 {
        ops.extend([Op::Everyone { code: 0, count: 4 }, Op::Advance { ms: 1_000 }]);
    }
    Scenario { seed, setup, ops }
}

/// Restores a backup and raises its marks. The node that held the row at the backup is cut off, and
/// another node took the row since.
pub(crate) fn restored_while_the_holder_is_cut_off(
    seed: u64,
    setup: Setup,
    mut random: StdRng,
) -> Scenario {
    let setup = Setup { unit: TimeUnit::Hour, positions: 300, ..calm(setup) };
    let mut ops = vec![Op::Crash { node: OTHER }, Op::Advance { ms: 500 }];
    ops.extend([Op::Everyone { code: 0, count: 1 }, Op::Backup, Op::Partition { node: HOLDER }]);
    ops.push(start(OTHER));
    // The row expires, and its mark comes due.
    ops.push(Op::SleepAll { ms: random.random_range(3_000_000..=7_200_000) });
    ops.extend([Op::Advance { ms: 30_000 }, Op::Everyone { code: 0, count: 4 }]);
    // No other node remembers what the backup lacks.
    ops.extend([Op::Crash { node: OTHER }, Op::RestoreBackup, Op::Heal { node: HOLDER }]);
    for _ in 0..3 {
        ops.extend([Op::Advance { ms: 5_000 }, Op::Everyone { code: 0, count: 2 }]);
    }
    Scenario { seed, setup, ops }
}

/// Restores a backup under running nodes, and another node starts before they check the store.
pub(crate) fn node_starts_after_a_restore(seed: u64, setup: Setup, mut random: StdRng) -> Scenario {
    let (unit, positions) = (TimeUnit::Millisecond, 64);
    let setup = Setup { unit, positions, offsets_ms: vec![0; 3], workers: 3, ..calm(setup) };
    let mut ops = vec![Op::Crash { node: OTHER }, Op::Crash { node: THIRD }];
    ops.extend([Op::Advance { ms: 8_000 }, Op::Backup, start(OTHER)]);
    let ms = random.random_range(backup_is_old_ms(&setup)..=6 * setup.renew_ms);
    ops.push(Op::Advance { ms });
    ops.extend([Op::Everyone { code: 0, count: 9 }, Op::RestoreInPlace]);
    for _ in 0..5 {
        ops.extend([Op::Everyone { code: 0, count: 9 }, Op::Advance { ms: 1_000 }]);
    }
    Scenario { seed, setup, ops }
}

/// Restores a backup under nodes that issue IDs for a past time. They count from the backup's
/// number until one of them checks the store.
pub(crate) fn backfill_after_a_restore(seed: u64, setup: Setup, mut random: StdRng) -> Scenario {
    let (unit, positions, min_sequence) = (TimeUnit::Millisecond, 64, 5);
    let setup = Setup { unit, positions, min_sequence, workers: 2, ..calm(setup) };
    let mut past = |node| Op::Past { node, ticks: random.random_range(0..2) };
    let mut ops = vec![Op::Advance { ms: 4_000 }, past(HOLDER), Op::Backup];
    ops.push(Op::Advance { ms: backup_is_old_ms(&setup) });
    ops.extend([past(HOLDER), past(OTHER), past(HOLDER), Op::Advance { ms: 100 }]);
    ops.push(Op::RestoreInPlace);
    for _ in 0..4 {
        ops.extend([past(OTHER), past(HOLDER), Op::Advance { ms: 500 }]);
    }
    Scenario { seed, setup, ops }
}

/// Restores a backup under nodes that have one worker id each, and another node starts before they
/// check the store. At the backup, only the holder of the other worker id ran. That holder may
/// crash meanwhile, so that a start releases its row.
pub(crate) fn node_starts_beside_another_worker_id(
    seed: u64,
    setup: Setup,
    mut random: StdRng,
) -> Scenario {
    let (unit, positions) = (TimeUnit::Millisecond, 64);
    let offsets_ms = vec![0; 3];
    let setup = Setup { unit, positions, offsets_ms, workers: 2, ..calm(setup) };
    let setup = Setup { has_fixed_workers: true, ..setup };
    // The other two share a worker id.
    let mut ops = vec![Op::Crash { node: HOLDER }, Op::Crash { node: THIRD }];
    ops.extend([Op::Advance { ms: 8_000 }, Op::Backup, start(HOLDER)]);
    let ms = random.random_range(backup_is_old_ms(&setup)..=6 * setup.renew_ms);
    ops.push(Op::Advance { ms });
    if random.random_bool(0.3) {
        ops.extend([Op::Crash { node: HOLDER }, Op::Crash { node: OTHER }]);
        ops.push(Op::Advance { ms: random.random_range(5_000..=40_000) });
        ops.extend([start(THIRD), Op::Advance { ms: random.random_range(1_000..=20_000) }]);
    }
    ops.extend([Op::Everyone { code: 0, count: 9 }, Op::RestoreInPlace]);
    for _ in 0..5 {
        ops.extend([Op::Everyone { code: 0, count: 9 }, Op::Advance { ms: 1_000 }]);
    }
    Scenario { seed, setup, ops }
}

/// Fails over while the node that holds the row is cut off. Another node begins the epoch while its
/// clock and the store's are ahead. Once they are right, an operator lowers the barrier: the
/// holder's lease is below it. The store may be replaced once more, losing nothing, and a third
/// node may have leased another row while the clocks were ahead.
pub(crate) fn barrier_put_ahead_is_lowered(
    seed: u64,
    setup: Setup,
    mut random: StdRng,
) -> Scenario {
    let leases_ahead = random.random_bool(0.3);
    let setup = Setup {
        unit: TimeUnit::Millisecond,
        positions: 64,
        workers: if leases_ahead { 2 } else { 1 },
        rollback_bits: 0,
        rollback_initial: 0,
        offsets_ms: vec![0; 3],
        ..calm(setup)
    };
    let by_ms = random.random_range(300_000..=1_000_000_000);
    let mut ops = vec![Op::Crash { node: OTHER }, Op::Crash { node: THIRD }];
    ops.extend([Op::Advance { ms: 8_000 }, Op::StopReplication]);
    // The fail-over loses the holder's renewals.
    ops.push(Op::Advance { ms: random.random_range(12_000..=25_000) });
    ops.extend([Op::Partition { node: HOLDER }, Op::FailOver { back: false }]);
    ops.extend([Op::StepStoreClock { by_ms }, Op::StepClock { node: OTHER, by_ms }]);
    ops.extend([start(OTHER), Op::Advance { ms: 1_000 }]);
    if leases_ahead {
        // The barrier comes due, by the clock that is ahead.
        ops.push(Op::StepClock { node: THIRD, by_ms });
        ops.extend([start(THIRD), Op::SleepAll { ms: 60_000 }, Op::Advance { ms: 15_000 }]);
        ops.extend([Op::Issue { node: THIRD, code: 0, count: 9 }, Op::Crash { node: THIRD }]);
        ops.push(Op::StepClock { node: THIRD, by_ms: -by_ms });
    }
    let by_ms = -by_ms;
    ops.extend([Op::StepStoreClock { by_ms }, Op::StepClock { node: OTHER, by_ms }]);
    ops.extend([Op::Crash { node: OTHER }, start(OTHER)]);
    if random.random_bool(0.3) {
        ops.extend([Op::FailOver { back: false }, Op::Advance { ms: 6_000 }]);
    }
    ops.push(Op::Operate { order: Order::LowerBarrier, fault: None, slow_ms: 0 });
    for _ in 0..8 {
        ops.extend([Op::Advance { ms: 10_000 }, Op::Everyone { code: 0, count: 9 }]);
    }
    Scenario { seed, setup, ops }
}

/// Lets a node find that no row was leased yet, and create rows long after one was leased and lost.
pub(crate) fn row_lost_while_a_node_starts(
    seed: u64,
    setup: Setup,
    mut random: StdRng,
) -> Scenario {
    // In one hour, both nodes count from the same position if both begin at a mark of 0.
    let (unit, positions, latency_ms) = (TimeUnit::Hour, 300, 20);
    let setup = Setup { unit, positions, latency_ms, ..calm(setup) };
    let mut ops = vec![Op::Advance { ms: random.random_range(1..=100) }];
    ops.push(Op::Slow { node: OTHER, ms: 300 });
    // The holder leased the row, and the other node has not created it yet.
    ops.extend([Op::Advance { ms: random.random_range(130..=500) }, Op::LoseRow { worker: 0 }]);
    for _ in 0..14 {
        ops.extend([Op::Advance { ms: 500 }, Op::Everyone { code: 0, count: 2 }]);
    }
    Scenario { seed, setup, ops }
}

/// Lets the first write of a row arrive after another node leased the row, lost it and created it
/// again.
pub(crate) fn row_lost_while_its_first_write_is_late(
    seed: u64,
    setup: Setup,
    mut random: StdRng,
) -> Scenario {
    let setup = Setup { unit: TimeUnit::Hour, positions: 300, ..calm(setup) };
    let skip = random.random_range(0..=1);
    let mut ops = vec![Op::Crash { node: HOLDER }];
    ops.push(Op::Fail { node: OTHER, skip, fault: Fault::Late, cut: true });
    ops.extend([Op::Advance { ms: 300 }, start(HOLDER), Op::Advance { ms: 1_000 }]);
    ops.extend([Op::Everyone { code: 0, count: 2 }, Op::Crash { node: HOLDER }]);
    ops.extend([Op::LoseRow { worker: 0 }, start(HOLDER), Op::Advance { ms: 3_000 }]);
    ops.extend([Op::Deliver { which: 0 }, Op::Heal { node: OTHER }]);
    for _ in 0..2 {
        ops.extend([Op::Advance { ms: 5_000 }, Op::Everyone { code: 0, count: 2 }]);
    }
    Scenario { seed, setup, ops }
}

/// Lets a node create a row and crash, perhaps before it recorded the row. Another node needs a row
/// and crashes as well, and the row is lost.
pub(crate) fn row_lost_before_it_was_recorded(
    seed: u64,
    setup: Setup,
    mut random: StdRng,
) -> Scenario {
    let offsets_ms = vec![0, 0, 0];
    let (unit, positions) = (TimeUnit::Hour, 300);
    let setup = Setup { unit, positions, offsets_ms, workers: 2, rows_at_once: 1, ..calm(setup) };
    let mut ops = vec![Op::Crash { node: OTHER }, Op::Crash { node: THIRD }];
    ops.extend([Op::Advance { ms: 500 }, start(OTHER), Op::Slow { node: OTHER, ms: 300 }]);
    ops.push(Op::Advance { ms: random.random_range(1..=4_000) });
    ops.extend([Op::Crash { node: OTHER }, start(THIRD), Op::Advance { ms: 200 }]);
    ops.extend([Op::Everyone { code: 0, count: 2 }, Op::Advance { ms: 10 }]);
    ops.extend([Op::Crash { node: THIRD }, Op::LoseRow { worker: 1 }, Op::Heal { node: OTHER }]);
    ops.extend([start(OTHER), Op::Advance { ms: 500 }, Op::Everyone { code: 0, count: 2 }]);
    ops.extend([Op::SleepAll { ms: 7_200_000 }, Op::Everyone { code: 0, count: 2 }]);
    Scenario { seed, setup, ops }
}

fn start(node: usize) -> Op {
    Op::Start { node, same_holder: true }
}

fn move_to(earlier_ms: i64, positions: u64, rollback_bits: u32, slow_ms: u64) -> Op {
    let order = Order::Relayout { earlier_ms, positions, rollback_bits };
    Op::Operate { order, fault: None, slow_ms }
}
