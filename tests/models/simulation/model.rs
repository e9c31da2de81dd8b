//! The parts of a simulation: a set-up and a list of operations.

use raindrop_core::{
    issue::{IssueSettings, RollbackPolicy},
    layout::{Layout, LayoutSpec, TimeUnit},
};
use raindrop_keeper::{KeeperSettings, LeaseTimes};
use std::{ops::RangeInclusive, time::Duration};

pub(crate) const CODES: [&str; 5] = ["order", "user", "item", "cart", "note"];

/// The values that stay the same during a simulation.
#[derive(Clone, Debug)]
pub(crate) struct Setup {
    pub(crate) unit: TimeUnit,
    pub(crate) positions: u64,
    pub(crate) min_sequence: u64,
    pub(crate) rollback_bits: u32,
    pub(crate) rollback_initial: u32,
    pub(crate) workers: u64,
    /// Whether each node may use one worker id alone.
    pub(crate) has_fixed_workers: bool,
    /// How many of the layout's eight rows a node creates at a time.
    pub(crate) rows_at_once: u64,
    /// Whether the nodes' clocks keep a recent reading.
    pub(crate) recent_readings: bool,
    pub(crate) codes: usize,
    pub(crate) codes_max: usize,
    pub(crate) sharing: Sharing,
    /// Whether the store has its own clock; otherwise all nodes are on one machine.
    pub(crate) own_clock: bool,
    pub(crate) prefer_previous: bool,
    /// Whether all nodes have the same holder label.
    pub(crate) one_holder: bool,
    pub(crate) rollback: RollbackPolicy,
    pub(crate) hold_ms: u64,
    pub(crate) max_wait_ms: u64,
    pub(crate) borrow_ms: u64,
    pub(crate) window_ms: u64,
    pub(crate) ttl_ms: u64,
    pub(crate) renew_ms: u64,
    pub(crate) skew_ms: u64,
    /// The store's answers take this long, half of it on the way there.
    pub(crate) latency_ms: u64,
    /// How long each part of a write of a state file takes, if nodes have one.
    pub(crate) disk_ms: Option<u64>,
    pub(crate) began_ms: i64,
    /// By how much each node's clock is wrong at first; also how many nodes there are.
    pub(crate) offsets_ms: Vec<i64>,
}

impl Setup {
    pub(crate) fn nodes(&self) -> usize {
        self.offsets_ms.len()
    }

    pub(crate) fn layout(&self) -> Layout {
        self.shaped(Shape {
            epoch_ms: LayoutSpec::DEFAULT_EPOCH_MS,
            positions: self.positions,
            rollback_bits: self.rollback_bits,
        })
    }

    /// Returns the layout that an operator moves to.
    pub(crate) fn shaped(&self, shape: Shape) -> Layout {
        LayoutSpec {
            epoch_ms: shape.epoch_ms,
            worker_bits: 3,
            rollback_bits: shape.rollback_bits,
            rollback_initial: self.rollback_initial % (1 << shape.rollback_bits),
            min_sequence: self.min_sequence,
            max_sequence: Some(self.min_sequence + shape.positions - 1),
            ..LayoutSpec::for_unit(self.unit)
        }
        .build()
        .expect("a valid layout")
    }

    /// Returns whether the codes of the process of this number share a cursor.
    pub(crate) const fn codes_shared(&self, generation: u32) -> bool {
        match self.sharing {
            Sharing::Never => false,
            Sharing::Always => true,
            Sharing::Changing => generation.is_multiple_of(2),
        }
    }

    /// Returns the worker ids that the processes of a node may lease.
    pub(crate) const fn workers_of(&self, node: usize) -> RangeInclusive<u64> {
        if self.has_fixed_workers {
            let worker = node as u64 % self.workers + 1;
            worker..=worker
        } else {
            1..=self.workers
        }
    }

    pub(crate) fn settings(&self, layout: &Layout, holder: &str) -> KeeperSettings {
        let millis = Duration::from_millis;
        KeeperSettings {
            max_worker: self.workers,
            rows_at_once: self.rows_at_once,
            prefer_previous: self.prefer_previous,
            issue: IssueSettings {
                borrow_ahead: millis(self.borrow_ms),
                max_wait: millis(self.max_wait_ms),
                hold: millis(self.hold_ms),
                rollback: self.rollback,
                codes_max: self.codes_max,
                ..IssueSettings::default()
            },
            lease: LeaseTimes {
                window: millis(self.window_ms),
                ttl: millis(self.ttl_ms),
                renew: millis(self.renew_ms),
                max_clock_skew: millis(self.skew_ms),
                stale_wait: millis(self.renew_ms * 3 / 2),
            },
            ..KeeperSettings::new(layout.clone(), holder)
        }
    }
}

/// In which processes all codes share a cursor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sharing {
    Never,
    Always,
    /// In every other one: operators change the setting back and forth, also beside nodes without
    /// it.
    Changing,
}

/// The properties by which the layouts of one simulation differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Shape {
    pub(crate) epoch_ms: i64,
    pub(crate) positions: u64,
    pub(crate) rollback_bits: u32,
}

/// An operator's command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Order {
    Release {
        worker: u64,
    },
    Raise,
    /// Lowers a barrier that a clock put far ahead.
    LowerBarrier,
    /// Moves to another layout, whose epoch is `earlier_ms` earlier, so that its IDs are larger.
    Relayout {
        earlier_ms: i64,
        positions: u64,
        rollback_bits: u32,
    },
    /// Goes back to the layout before.
    TakeBack,
}

/// The fate of a swap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// The store does not apply it, and the caller gets an error.
    NeverArrives,
    /// The store applies it, and the caller gets an error.
    LostReply,
    /// The network holds it back until it is delivered, and the caller gets an error.
    Late,
}

/// One operation. Nodes, codes and held-back writes are counted modulo their number, so that every
/// list of operations can run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Op {
    /// Time passes.
    Advance {
        ms: u64,
    },
    /// Every machine is suspended for a while.
    SleepAll {
        ms: i64,
    },
    /// A claim; later operations await its answer.
    Issue {
        node: usize,
        code: usize,
        count: u32,
    },
    /// A claim on every node, running or stopping.
    Everyone {
        code: usize,
        count: u32,
    },
    /// A claim that reads the clock and is then suspended with its machine, while another thread of
    /// the process issues some other codes.
    Stale {
        node: usize,
        code: usize,
        asleep_ms: i64,
        others: usize,
    },
    /// A claim of one ID for a past time, this many ticks before the beginning.
    Past {
        node: usize,
        ticks: u64,
    },
    StepClock {
        node: usize,
        by_ms: i64,
    },
    DriftClock {
        node: usize,
        ppm: i64,
    },
    StepStoreClock {
        by_ms: i64,
    },
    Crash {
        node: usize,
    },
    /// A crash that also loses the writes that the disk had not made durable.
    LosePower {
        node: usize,
    },
    /// The node's disk fails, or hangs.
    BreakDisk {
        node: usize,
        fails: bool,
    },
    MendDisk {
        node: usize,
    },
    /// Starts a node that does not run; one that stops in order is gone then.
    Start {
        node: usize,
        same_holder: bool,
    },
    /// A clean stop, during which the node issues.
    Stop {
        node: usize,
        deadline_ms: u64,
    },
    /// Nothing from or to the node arrives.
    Partition {
        node: usize,
    },
    /// Holds back every answer to the node: its keeper is paused, its handlers are not.
    HoldBack {
        node: usize,
    },
    /// Every answer to the node takes this much longer.
    Slow {
        node: usize,
        ms: u64,
    },
    /// Ends a partition, a pause and slowness of the node.
    Heal {
        node: usize,
    },
    Outage,
    Restore,
    /// Sets the fate of a coming swap of the node, the next one after `skip` others; `cut` begins a
    /// partition with it.
    Fail {
        node: usize,
        skip: usize,
        fault: Fault,
        cut: bool,
    },
    /// A held-back write arrives.
    Deliver {
        which: usize,
    },
    /// A node with another layout tries to join.
    OtherLayout,
    /// An operator begins. `fault` may make one of the operator's writes fail, after this number of
    /// other writes.
    Operate {
        order: Order,
        fault: Option<(usize, Fault)>,
        /// Every answer of the store to the operator takes this much longer.
        slow_ms: u64,
    },
    /// Every operator is killed during its work.
    KillOperators,
    /// The store loses a row, or the record, as far as the rule for rows that are added later
    /// covers it.
    LoseRow {
        worker: u64,
    },
    LoseRecord,
    /// From now on writes become visible, and none is acknowledged.
    HangLog,
    /// The log works again: all visible writes are durable.
    FreeLog,
    /// The store crashes, and loses this many of the writes that it did not acknowledge.
    CrashStore {
        lose: usize,
    },
    /// Later writes do not reach the replica.
    StopReplication,
    /// The replica takes the store's place, under a new identity or the one before.
    FailOver {
        back: bool,
    },
    /// The store is backed up.
    Backup,
    /// The backup takes the store's place, and an operator raises the marks before a node reaches
    /// it.
    RestoreBackup,
    /// The backup takes the store's place under running nodes, and no operator raises anything.
    RestoreInPlace,
}

/// A set-up with its operations, and the seed that both came from.
#[derive(Clone, Debug)]
pub(crate) struct Scenario {
    pub(crate) seed: u64,
    pub(crate) setup: Setup,
    pub(crate) ops: Vec<Op>,
}
