//! Makes a scenario from a seed: a random set-up, and random operations of the kinds that the seed
//! favours, single ones and sequences that belong together.

use raindrop_core::{issue::RollbackPolicy, layout::TimeUnit};
use rand::{RngExt, SeedableRng, rngs::StdRng, seq::IndexedRandom};

use crate::{
    keeping, mishaps,
    model::{CODES, Fault, Op, Order, Scenario, Setup, Sharing},
};

const NOW: i64 = 1_763_650_000_000;

/// Returns the scenario of a seed.
pub(crate) fn generate(seed: u64) -> Scenario {
    let mut random = StdRng::seed_from_u64(seed);
    let setup = keeping::with_disks(seed, setup(&mut random));
    let setup = add_differences(seed, setup);
    // These operations come together too rarely by chance.
    match seed % 24 {
        1 => return mishaps::restored_while_the_holder_is_cut_off(seed, setup, random),
        3 => return mishaps::row_lost_before_it_was_recorded(seed, setup, random),
        5 => return mishaps::barrier_put_ahead_is_lowered(seed, setup, random),
        7 => return mishaps::while_a_node_acquires(seed, setup, random),
        10 => return mishaps::row_lost_while_its_first_write_is_late(seed, setup, random),
        13 => return mishaps::row_lost_while_a_node_starts(seed, setup, random),
        14 => return mishaps::node_starts_beside_another_worker_id(seed, setup, random),
        16 => return mishaps::backfill_after_a_restore(seed, setup, random),
        19 => return mishaps::while_a_renewal_is_late(seed, setup, random),
        22 => return mishaps::node_starts_after_a_restore(seed, setup, random),
        _ => {}
    }
    let mut generator = Generator { favoured: favoured(&mut random), setup: &setup, random };
    let count = generator.random.random_range(8..40);
    let mut ops = Vec::new();
    if generator.often() {
        ops.push(Op::Advance { ms: 50 });
    }
    for _ in 0..count {
        generator.add(&mut ops);
    }
    add_operators(seed, &setup, &mut ops);
    add_fail_overs(seed, &setup, &mut ops);
    keeping::add(seed, &setup, &mut ops);
    add_past(seed, &setup, &mut ops);
    Scenario { seed, setup, ops }
}

/// Makes some seeds differ: the rows are created in parts, the clocks keep no recent reading, or
/// processes differ in whether codes share a cursor. It draws from separate random numbers.
fn add_differences(seed: u64, setup: Setup) -> Setup {
    let mut random = StdRng::seed_from_u64(seed ^ 0x726f_7773_2061_7420);
    let rows_at_once = pick(&mut random, &[1, 2, 3, 8, 8, 8]);
    let recent_readings = random.random_bool(0.7);
    let sharing = if random.random_bool(0.3) { Sharing::Changing } else { setup.sharing };
    Setup { rows_at_once, recent_readings, sharing, ..setup }
}

/// Adds operators, or a store that loses data, to some seeds. It draws from separate random
/// numbers, so that the other operations are those of the same seed without them.
fn add_operators(seed: u64, setup: &Setup, ops: &mut Vec<Op>) {
    let random = StdRng::seed_from_u64(seed ^ 0x6f70_6572_6174_6f72);
    let mut generator = Generator { setup, favoured: Vec::new(), random };
    if !generator.random.random_bool(0.4) {
        return;
    }
    if generator.random.random_bool(0.1) {
        // A first write is the first event of a run.
        let added = generator.row_added_again();
        ops.splice(0..0, added);
    }
    for _ in 0..generator.random.random_range(1..=4) {
        let operated = generator.operated();
        let at = generator.random.random_range(0..=ops.len());
        ops.splice(at..at, operated);
    }
}

/// Adds IDs for a past time to some seeds that allow them. It draws from separate random numbers.
fn add_past(seed: u64, setup: &Setup, ops: &mut Vec<Op>) {
    let mut random = StdRng::seed_from_u64(seed ^ 0x7061_7374_2074_696d);
    if setup.min_sequence == 0 || !random.random_bool(0.5) {
        return;
    }
    for _ in 0..random.random_range(2..=8) {
        let node = random.random_range(0..setup.nodes());
        let past = Op::Past { node, ticks: random.random_range(0..2) };
        let at = random.random_range(0..=ops.len());
        ops.insert(at, past);
    }
}

/// Adds fail-overs to some seeds. It draws from separate random numbers.
fn add_fail_overs(seed: u64, setup: &Setup, ops: &mut Vec<Op>) {
    let random = StdRng::seed_from_u64(seed ^ 0x6661_696c_206f_7665);
    let mut generator = Generator { setup, favoured: Vec::new(), random };
    if !generator.random.random_bool(0.2) {
        return;
    }
    // Servers that come back more often are an error.
    let failed_over = generator.failed_over();
    let at = generator.random.random_range(0..=ops.len());
    ops.splice(at..at, failed_over);
}

pub(crate) fn pick<T: Copy>(random: &mut StdRng, among: &[T]) -> T {
    *among.choose(random).expect("something to choose from")
}

fn setup(random: &mut StdRng) -> Setup {
    let unit = pick(random, &TimeUnit::ALL);
    let renew_ms = pick(random, &[1_000, 2_000, 5_000]);
    let ttl_ms = pick(random, &[2 * renew_ms + 1, 3 * renew_ms, 20_000]);
    let window_ms = pick(random, &[2 * renew_ms + 1, 4 * renew_ms, 15_000, 60_000]);
    let half = window_ms / 2;
    let hold_ms = pick(random, &[0, 1_000, 3_000]).min(half);
    let nodes = random.random_range(2..=5);
    let skewed = random.random_bool(0.5);
    let skew_ms = pick(random, &[500, 3_000, 10_000]);
    let mut offset = || if skewed { random.random_range(-skew_ms..=skew_ms) } else { 0 };
    let offsets_ms = (0..nodes).map(|_| offset()).collect();
    let begins_late = random.random_bool(0.5);
    let unit_ms = unit.millis();
    let in_unit = if begins_late {
        // Shortly before the next tick.
        unit_ms - random.random_range(1..=unit_ms.min(40_000))
    } else {
        random.random_range(0..unit_ms)
    };
    let rollback_bits = random.random_range(0..=2);
    let codes = random.random_range(1..=CODES.len());
    Setup {
        unit,
        positions: pick(random, &[2, 4, 8, 16, 64, 300]),
        min_sequence: pick(random, &[0, 0, 1, 5]),
        rollback_bits,
        rollback_initial: random.random_range(0..1 << rollback_bits),
        workers: random.random_range(1..=4),
        has_fixed_workers: false,
        rows_at_once: 8,
        recent_readings: true,
        codes,
        codes_max: pick(random, &[1, 2, 2, 3, 100]),
        sharing: if random.random_bool(0.1) { Sharing::Always } else { Sharing::Never },
        own_clock: random.random_bool(0.8),
        prefer_previous: random.random_bool(0.3),
        one_holder: random.random_bool(0.4),
        rollback: pick(random, &RollbackPolicy::ALL),
        hold_ms,
        max_wait_ms: pick(random, &[0, 200, 1_000, 3_000]).min(half),
        borrow_ms: pick(random, &[0, 0, 500]).min(half - hold_ms),
        window_ms,
        ttl_ms,
        renew_ms,
        skew_ms: u64::try_from(skew_ms).expect("positive"),
        // Answers come while a lease lasts.
        latency_ms: pick(random, &[0, 2, 2, 20, 300]).min(window_ms / 16),
        disk_ms: None,
        began_ms: NOW.div_euclid(unit_ms) * unit_ms + in_unit,
        offsets_ms,
    }
}

/// The kinds of operations that a seed can favour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Issue,
    Advance,
    SleepAll,
    Stale,
    Clock,
    StoreClock,
    Crash,
    CrashLoop,
    Stop,
    Deploy,
    Partition,
    HoldBack,
    Outage,
    Slow,
    Fail,
    Deliver,
    GoBack,
    JumpAndReturn,
    Takeover,
    Move,
    OtherLayout,
    LogHangs,
    StoreCrash,
}

const FAULTY: [Kind; 21] = [
    Kind::SleepAll,
    Kind::Stale,
    Kind::Clock,
    Kind::StoreClock,
    Kind::Crash,
    Kind::CrashLoop,
    Kind::Stop,
    Kind::Deploy,
    Kind::Partition,
    Kind::HoldBack,
    Kind::Outage,
    Kind::Slow,
    Kind::Fail,
    Kind::Deliver,
    Kind::GoBack,
    Kind::JumpAndReturn,
    Kind::Takeover,
    Kind::Move,
    Kind::OtherLayout,
    Kind::LogHangs,
    Kind::StoreCrash,
];

/// Returns a few kinds of faults beside those that always happen: seeds that do a little of
/// everything rarely get anywhere.
fn favoured(random: &mut StdRng) -> Vec<Kind> {
    let mut favoured = vec![Kind::Issue; 6];
    favoured.extend([Kind::Advance; 4]);
    let share = pick(random, &[0.15, 0.3, 0.6]);
    for kind in FAULTY {
        if random.random_bool(share) {
            let weight = random.random_range(1..=3);
            favoured.extend(std::iter::repeat_n(kind, weight));
        }
    }
    if favoured.contains(&Kind::Fail) {
        favoured.push(Kind::Deliver);
    }
    favoured
}

struct Generator<'a> {
    setup: &'a Setup,
    favoured: Vec<Kind>,
    random: StdRng,
}

impl Generator<'_> {
    fn often(&mut self) -> bool {
        self.random.random_bool(0.7)
    }

    fn node(&mut self) -> usize {
        self.random.random_range(0..self.setup.nodes())
    }

    fn others_than(&self, node: usize) -> impl Iterator<Item = usize> + use<> {
        (0..self.setup.nodes()).filter(move |other| *other != node)
    }

    fn code(&mut self) -> usize {
        self.random.random_range(0..self.setup.codes)
    }

    fn ids(&mut self) -> u32 {
        let most = u32::try_from(self.setup.positions).expect("few");
        match self.random.random_range(0..4) {
            0 | 1 => 1,
            2 => self.random.random_range(1..=most.min(4)),
            _ => self.random.random_range(1..=most.min(40)),
        }
    }

    fn issue(&mut self) -> Op {
        let (code, count) = (self.code(), self.ids());
        if self.random.random_bool(0.5) {
            Op::Everyone { code, count }
        } else {
            Op::Issue { node: self.node(), code, count }
        }
    }

    fn moment(&mut self) -> u64 {
        self.random.random_range(1..=500)
    }

    /// Returns a time that matters to leases.
    fn while_ms(&mut self) -> u64 {
        let Setup { renew_ms, ttl_ms, window_ms, .. } = *self.setup;
        let length = pick(&mut self.random, &[500, 3_000, renew_ms, ttl_ms, window_ms]);
        self.random.random_range(length / 2..=length + length / 4)
    }

    fn longer_than_ttl(&mut self) -> u64 {
        self.setup.ttl_ms + self.random.random_range(0..=6_000)
    }

    /// Returns by how much a clock is stepped.
    fn step_ms(&mut self) -> i64 {
        let unit_ms = self.setup.unit.millis();
        let lengths = [100, 1_500, 5_000, 20_000, 90_000, unit_ms, 2 * unit_ms];
        let length = pick(&mut self.random, &lengths);
        self.random.random_range(length / 2..=length)
    }

    fn signed_step_ms(&mut self) -> i64 {
        let step = self.step_ms();
        if self.random.random_bool(0.5) { step } else { -step }
    }

    fn fault(&mut self, node: usize) -> Op {
        Op::Fail {
            node,
            skip: pick(&mut self.random, &[0, 0, 1, 2]),
            fault: pick(&mut self.random, &[Fault::NeverArrives, Fault::LostReply, Fault::Late]),
            cut: self.random.random_bool(0.3),
        }
    }

    fn start(&mut self, node: usize) -> Op {
        Op::Start { node, same_holder: self.random.random_bool(0.7) }
    }

    fn stop(&mut self, node: usize) -> Op {
        Op::Stop { node, deadline_ms: pick(&mut self.random, &[2_000, 10_000]) }
    }

    /// Adds one operation, or several that belong together.
    fn add(&mut self, ops: &mut Vec<Op>) {
        let kind = *self.favoured.choose(&mut self.random).expect("issuing is always favoured");
        let node = self.node();
        match kind {
            Kind::Issue => ops.push(self.issue()),
            Kind::Advance => ops.push(Op::Advance { ms: self.while_ms() }),
            Kind::SleepAll => ops.push(Op::SleepAll { ms: self.step_ms() }),
            Kind::Stale => {
                let (code, others) = (self.code(), self.random.random_range(1..=4));
                let asleep_ms = self.step_ms();
                ops.extend((0..self.setup.codes).map(|code| Op::Issue { node, code, count: 1 }));
                ops.push(Op::Advance { ms: self.moment() });
                ops.push(Op::Issue { node, code, count: 1 });
                ops.push(Op::Stale { node, code, asleep_ms, others });
            }
            Kind::Clock => ops.push(if self.often() {
                Op::StepClock { node, by_ms: self.signed_step_ms() }
            } else {
                Op::DriftClock { node, ppm: self.random.random_range(-50_000..=50_000) }
            }),
            Kind::StoreClock => ops.push(Op::StepStoreClock { by_ms: self.signed_step_ms() }),
            Kind::Crash => {
                ops.push(Op::Crash { node });
                if self.often() {
                    ops.push(self.start(node));
                    ops.push(Op::Advance { ms: self.while_ms() });
                }
            }
            Kind::CrashLoop => {
                for _ in 0..self.random.random_range(2..6) {
                    ops.push(self.start(node));
                    ops.push(Op::Advance { ms: self.while_ms() });
                    ops.push(Op::Issue { node, code: self.code(), count: self.ids() });
                    ops.push(Op::Crash { node });
                }
                ops.push(self.start(node));
            }
            Kind::Stop => {
                ops.push(self.stop(node));
                ops.push(Op::Advance { ms: self.moment() });
                ops.push(self.issue());
                if self.often() {
                    ops.push(self.start(node));
                }
            }
            Kind::Deploy => {
                for node in 0..self.setup.nodes() {
                    ops.push(self.stop(node));
                    ops.push(Op::Issue { node, code: self.code(), count: 1 });
                    ops.push(Op::Advance { ms: self.moment() });
                    ops.push(self.start(node));
                    ops.push(Op::Advance { ms: self.moment() });
                    ops.push(self.issue());
                }
            }
            Kind::Partition => self.cut_off(ops, Op::Partition { node }, Op::Heal { node }),
            Kind::HoldBack => self.cut_off(ops, Op::HoldBack { node }, Op::Heal { node }),
            Kind::Outage => self.cut_off(ops, Op::Outage, Op::Restore),
            Kind::Slow => {
                let ms = pick(&mut self.random, &[300, 3_000, 9_000, 12_000]);
                self.cut_off(ops, Op::Slow { node, ms }, Op::Heal { node });
            }
            Kind::Fail => {
                ops.push(self.fault(node));
                if self.often() {
                    ops.push(Op::Advance { ms: self.while_ms() });
                }
            }
            Kind::Deliver => ops.push(Op::Deliver { which: self.random.random_range(0..4) }),
            Kind::GoBack => {
                if self.often() {
                    ops.push(self.fault(node));
                }
                ops.push(Op::Issue { node, code: self.code(), count: 1 });
                ops.push(Op::StepClock { node, by_ms: -self.step_ms() });
                ops.push(Op::Issue { node, code: self.code(), count: 1 });
                ops.push(Op::Advance { ms: self.moment() });
                ops.push(self.issue());
            }
            Kind::JumpAndReturn => {
                let by_ms = self.step_ms();
                ops.push(Op::StepClock { node, by_ms });
                ops.push(Op::Issue { node, code: self.code(), count: 1 });
                ops.push(Op::StepClock { node, by_ms: -by_ms });
                ops.push(self.issue());
            }
            Kind::Takeover => {
                let cut = if self.often() { Op::Partition { node } } else { Op::HoldBack { node } };
                ops.push(cut);
                ops.push(Op::Advance { ms: self.longer_than_ttl() });
                for _ in 0..3 {
                    ops.push(self.issue());
                }
                ops.push(Op::Heal { node });
                ops.push(Op::Advance { ms: self.while_ms() });
                ops.push(self.issue());
            }
            Kind::Move => self.move_away(ops, node),
            Kind::OtherLayout => ops.push(Op::OtherLayout),
            Kind::LogHangs => self.log_hangs(ops, node),
            Kind::StoreCrash => {
                ops.push(self.fault(node));
                ops.extend([Op::Advance { ms: self.while_ms() }, self.store_crash()]);
                ops.extend([Op::Advance { ms: self.moment() }, self.issue()]);
            }
        }
    }

    fn store_crash(&mut self) -> Op {
        Op::CrashStore { lose: self.random.random_range(0..6) }
    }

    /// Makes the log hang: the store shows a write before it is durable, and the node reads it and
    /// is paused. Then the store crashes, and another node takes the row.
    fn log_hangs(&mut self, ops: &mut Vec<Op>, node: usize) {
        let code = self.code();
        ops.extend([Op::HangLog, Op::Advance { ms: self.while_ms() }, self.issue()]);
        if self.random.random_bool(0.2) {
            ops.push(Op::FreeLog);
            return;
        }
        let pause = if self.often() { Op::Partition { node } } else { Op::HoldBack { node } };
        ops.extend([pause, self.store_crash()]);
        if self.random.random_bool(0.5) {
            let worker = self.random.random_range(0..self.setup.workers);
            ops.push(self.order(Order::Release { worker }));
            ops.push(Op::Advance { ms: self.moment() });
        } else {
            ops.push(Op::Advance { ms: self.longer_than_ttl() });
        }
        ops.push(Op::Everyone { code, count: self.ids() });
        ops.extend([Op::Advance { ms: self.moment() }, Op::Everyone { code, count: 2 }]);
        ops.extend([Op::Heal { node }, Op::Advance { ms: self.while_ms() }, self.issue()]);
    }

    /// Returns an act of an operator or of a failing store, and what nodes do afterwards.
    fn operated(&mut self) -> Vec<Op> {
        let worker = self.random.random_range(0..self.setup.workers);
        let rarely = self.random.random_range(0..10);
        let mut ops = match self.random.random_range(0..12) {
            11 => return self.restored_in_place(),
            10 => return self.restored_backup(),
            0..3 => vec![self.order(Order::Release { worker })],
            3..5 => vec![self.order(Order::Raise)],
            5..8 => return self.relayout(),
            8 => vec![Op::LoseRow { worker }],
            _ if rarely < 4 => vec![Op::LoseRecord],
            _ => (0..self.setup.workers).map(|worker| Op::LoseRow { worker }).collect(),
        };
        ops.extend([Op::Advance { ms: self.moment() }, self.issue()]);
        if self.often() {
            let node = self.node();
            ops.extend([Op::Crash { node }, self.start(node)]);
            ops.extend([Op::Advance { ms: self.while_ms() }, self.issue()]);
        }
        ops
    }

    /// Restores a backup: a node is cut off and loses its row after the backup was made. The backup
    /// comes back with its marks raised, and so does the node.
    fn restored_backup(&mut self) -> Vec<Op> {
        let (node, code) = (self.node(), self.code());
        let mut ops = vec![Op::Issue { node, code, count: 1 }, Op::Backup];
        if self.often() {
            let used_up_ms = self.setup.window_ms + self.longer_than_ttl();
            ops.extend([Op::Partition { node }, Op::Advance { ms: used_up_ms }]);
        } else {
            ops.extend([self.fault(node), Op::Advance { ms: self.while_ms() }]);
        }
        // No other node remembers what the backup lacks.
        ops.push(Op::Everyone { code, count: self.ids() });
        ops.extend(self.others_than(node).map(|node| Op::Crash { node }));
        ops.push(Op::RestoreBackup);
        let others: Vec<_> = self.others_than(node).collect();
        ops.extend(others.into_iter().map(|node| self.start(node)));
        ops.extend([Op::Deliver { which: 0 }, Op::Heal { node }]);
        // The node tries again within a few seconds.
        for longest_ms in [500, 2_000, 4_000] {
            let ms = self.random.random_range(1..=longest_ms);
            ops.extend([Op::Advance { ms }, Op::Everyone { code, count: 2 }]);
        }
        ops
    }

    /// Restores a backup under running nodes, while others start.
    fn restored_in_place(&mut self) -> Vec<Op> {
        let (node, code, renew_ms) = (self.node(), self.code(), self.setup.renew_ms);
        let mut ops: Vec<_> = (0..self.setup.nodes()).map(|node| Op::Heal { node }).collect();
        ops.extend([Op::Restore, Op::FreeLog, Op::Advance { ms: 2 * renew_ms }]);
        ops.extend([Op::Everyone { code, count: 1 }, Op::Backup]);
        for _ in 0..2 {
            if self.often() {
                let node = self.node();
                ops.extend([Op::Crash { node }, self.start(node), Op::Advance { ms: 500 }]);
            }
            ops.push(Op::Advance { ms: renew_ms + self.while_ms() });
            ops.push(Op::Everyone { code, count: self.ids() });
        }
        if self.often() {
            ops.push(Op::Crash { node });
        }
        ops.extend([Op::RestoreInPlace, Op::Everyone { code, count: self.ids() }]);
        ops
    }

    /// Fails over: replication stops, a node may be cut off, others issue, and the replica takes
    /// over, once or twice.
    fn failed_over(&mut self) -> Vec<Op> {
        let (node, code) = (self.node(), self.code());
        let mut ops = vec![Op::Issue { node, code, count: 1 }];
        for back in [false, true] {
            ops.push(Op::StopReplication);
            if self.often() {
                ops.push(if self.often() { Op::Partition { node } } else { Op::HoldBack { node } });
            }
            if self.often() {
                ops.push(self.fault(node));
            }
            let lag_ms = if self.often() { self.while_ms() } else { self.longer_than_ttl() };
            ops.extend([Op::Advance { ms: lag_ms }, Op::Everyone { code, count: self.ids() }]);
            if self.often() {
                let node = self.node();
                ops.extend([Op::Crash { node }, self.start(node), Op::Advance { ms: 500 }]);
                ops.push(Op::Issue { node, code, count: self.ids() });
            }
            ops.push(Op::FailOver { back });
            if self.often() {
                ops.push(Op::Deliver { which: 0 });
            }
            ops.extend([Op::Advance { ms: self.moment() }, Op::Everyone { code, count: 2 }]);
            if self.often() {
                ops.push(Op::Heal { node });
            }
            for _ in 0..3 {
                ops.extend([Op::Advance { ms: self.while_ms() }, Op::Everyone { code, count: 2 }]);
            }
            if self.random.random_bool(0.5) {
                break;
            }
        }
        if self.often() {
            // Some nodes check the store between two of these restarts, and others only after them.
            for _ in 0..self.random.random_range(2..=4) {
                let ms = self.random.random_range(100..=self.setup.renew_ms);
                ops.extend([Op::FailOver { back: false }, Op::Advance { ms }]);
            }
            ops.push(Op::Everyone { code, count: 2 });
        }
        ops.extend([Op::Heal { node }, Op::Deliver { which: 0 }]);
        ops.extend([Op::Advance { ms: self.while_ms() }, Op::Everyone { code, count: 2 }]);
        ops
    }

    /// Lets a node's first write come late: after its row was written, lost and added again.
    fn row_added_again(&mut self) -> Vec<Op> {
        let (node, code) = (self.node(), self.code());
        let mut ops = vec![
            Op::Fail { node, skip: 0, fault: Fault::Late, cut: true },
            Op::Advance { ms: 3_000 },
            Op::Everyone { code, count: self.ids() },
        ];
        ops.extend((0..self.setup.workers).map(|worker| Op::LoseRow { worker }));
        let others: Vec<_> = self.others_than(node).collect();
        for other in others {
            ops.extend([Op::Crash { node: other }, self.start(other)]);
        }
        ops.extend([Op::Advance { ms: 1_000 }, Op::Deliver { which: 0 }, Op::Heal { node }]);
        for _ in 0..4 {
            ops.extend([Op::Advance { ms: self.moment() }, Op::Everyone { code, count: 2 }]);
        }
        ops
    }

    fn order(&mut self, order: Order) -> Op {
        let skip = self.random.random_range(0..12);
        let fault = pick(&mut self.random, &[Fault::NeverArrives, Fault::LostReply, Fault::Late]);
        let slow_ms = pick(&mut self.random, &[0, 0, 0, 200, 3_000]);
        let fault = self.random.random_bool(0.4).then_some((skip, fault));
        Op::Operate { order, fault, slow_ms }
    }

    /// Moves to another layout while nodes run. They restart before or after its end, and an
    /// operator may be killed during the move.
    fn relayout(&mut self) -> Vec<Op> {
        let positions = pick(&mut self.random, &[2, 4, 8, 16, 64, 300]);
        let rollback_bits = self.random.random_range(0..=2);
        // The new IDs are larger than any mark allows, hardly larger, or not larger.
        let lease_ms = self.setup.window_ms + self.setup.skew_ms + 1_000;
        let hardly_ms = self.random.random_range(1..=2 * lease_ms);
        let hardly_ms = i64::try_from(hardly_ms).expect("small");
        let earlier_ms = pick(&mut self.random, &[60 * 86_400_000, hardly_ms, hardly_ms, 0]);
        let mut ops = vec![self.order(Order::Relayout { earlier_ms, positions, rollback_bits })];
        // The same layout once more: the second operator continues the move of the first.
        let again = Order::Relayout { earlier_ms: 0, positions, rollback_bits };
        match self.random.random_range(0..10) {
            0..3 => {
                // Somewhere in the middle of the move.
                let ms = self.random.random_range(1..=6 * self.setup.latency_ms.max(10));
                ops.extend([Op::Advance { ms }, Op::KillOperators, self.issue()]);
                if self.random.random_bool(0.5) {
                    ops.push(Op::OtherLayout);
                }
                let next = if self.random.random_bool(0.4) { again } else { Order::TakeBack };
                ops.extend([self.order(next), Op::Advance { ms: self.while_ms() }]);
            }
            // Two operators at once, one of which may be slow.
            3..5 => ops.extend([Op::Advance { ms: self.moment() }, self.order(again)]),
            _ => {}
        }
        for node in 0..self.setup.nodes() {
            if self.often() {
                ops.extend([Op::Advance { ms: self.moment() }, Op::Crash { node }]);
                ops.extend([self.start(node), self.issue()]);
            }
        }
        ops.extend([Op::Advance { ms: self.while_ms() }, self.issue()]);
        ops
    }

    /// Steps a node's clock back while another node leaves it a row to move to. The write that
    /// releases the old row gets no answer; the other node comes back and may take that row.
    fn move_away(&mut self, ops: &mut Vec<Op>, node: usize) {
        let other = (node + 1) % self.setup.nodes();
        let code = self.code();
        ops.extend([self.stop(other), Op::Advance { ms: self.moment() }]);
        ops.push(Op::Issue { node, code, count: 1 });
        ops.push(Op::Fail {
            node,
            skip: pick(&mut self.random, &[0, 1, 1]),
            fault: pick(&mut self.random, &[Fault::NeverArrives, Fault::LostReply, Fault::Late]),
            cut: self.random.random_bool(0.5),
        });
        let hold_ms = i64::try_from(self.setup.hold_ms).expect("small");
        let beyond_ms = pick(&mut self.random, &[100, 1_000, 30_000]);
        ops.push(Op::StepClock { node, by_ms: -hold_ms - beyond_ms });
        ops.push(Op::Issue { node, code, count: 1 });
        ops.extend([Op::Advance { ms: self.moment() }, Op::Issue { node, code, count: 1 }]);
        ops.extend([Op::Deliver { which: 0 }, self.start(other)]);
        ops.push(Op::Advance { ms: self.while_ms() });
        ops.extend([Op::Everyone { code, count: self.ids() }; 2]);
        if self.often() {
            ops.push(Op::Heal { node });
        }
    }

    fn cut_off(&mut self, ops: &mut Vec<Op>, begin: Op, end: Op) {
        ops.push(begin);
        ops.push(Op::Advance { ms: self.while_ms() });
        ops.push(self.issue());
        if self.often() {
            ops.push(end);
        }
    }
}
