//! How large a world is.

use raindrop_core::layout::{Layout, LayoutSpec, TimeUnit};

pub(crate) const TICK_MS: i64 = 1_000;

/// The bounds of one world; everything inside them is explored.
#[derive(Clone, Debug)]
pub(crate) struct Configuration {
    pub(crate) name: &'static str,
    pub(crate) rows: usize,
    /// 1 or 2.
    pub(crate) lanes: usize,
    /// 1 or 2.
    pub(crate) codes: usize,
    pub(crate) positions_per_tick: u64,
    /// A reading of a clock may be any of this many ticks, in every process and whatever the
    /// reading before was: clocks run, stop, step and disagree.
    pub(crate) ticks: u64,
    /// How many ticks a lease reaches ahead.
    pub(crate) reach_ticks: i64,
    /// How many writes each process sends, including those after a restart.
    pub(crate) writes: &'static [u8],
    /// How often the store crashes, and loses writes that are visible and not acknowledged.
    pub(crate) crashes: u8,
    /// How often a step of a process's task panics.
    pub(crate) panics: u8,
    /// Whether the store compares tokens, as every store does.
    pub(crate) compares_tokens: bool,
    /// Whether each process keeps its lease in a state file.
    pub(crate) keeps_leases: bool,
}

/// A configuration with its layout.
#[derive(Clone, Debug)]
pub(crate) struct World {
    pub(crate) configuration: Configuration,
    pub(crate) layout: Layout,
}

impl World {
    pub(crate) fn new(configuration: Configuration) -> Self {
        let spec = LayoutSpec {
            rollback_bits: configuration.lanes.ilog2(),
            max_sequence: Some(configuration.positions_per_tick - 1),
            ..LayoutSpec::for_unit(TimeUnit::Second)
        };
        Self { layout: spec.build().expect("valid"), configuration }
    }
}

impl Configuration {
    pub(crate) fn instant(&self, tick: u64) -> i64 {
        LayoutSpec::DEFAULT_EPOCH_MS + i64::try_from(tick).expect("few ticks") * TICK_MS
    }

    /// Returns one past the highest position that a process issues; only a planted bug ever reaches
    /// it.
    pub(crate) fn end(&self) -> u64 {
        (self.ticks + self.reach_ticks.unsigned_abs()) * self.positions_per_tick
    }
}
