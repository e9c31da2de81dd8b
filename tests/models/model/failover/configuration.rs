//! The size of a world with fail-overs, and the rule that it breaks.

use raindrop_core::{
    layout::{Layout, LayoutSpec, TimeUnit},
    lease::NodeTimes,
    planted::Bug,
};

const TICK_MS: i64 = 1_000;

/// The names of the two servers that fail over to each other.
pub(super) const SERVERS: [&str; 2] = ["a", "b"];

/// The bounds of one world; everything inside them is explored. Times are in ticks, and a tick has
/// one position.
#[derive(Clone, Debug)]
pub(super) struct Configuration {
    pub(super) name: &'static str,
    /// 1 or 2.
    pub(super) lanes: usize,
    /// The lane that new rows use first.
    pub(super) initial_lane: usize,
    /// How many writes each process sends, including those after a restart.
    pub(super) writes: &'static [u8],
    /// The ticks at which the world stops; all others pass without a step.
    pub(super) instants: &'static [i64],
    /// How far the leases of each process reach ahead.
    pub(super) windows: &'static [i64],
    /// How far a lease reaches before its first renewal.
    pub(super) first_reach: i64,
    pub(super) ttl: i64,
    /// How far clocks may disagree: those of the servers with each other, and a node's with its
    /// server's.
    pub(super) skew: i64,
    /// How far each server's clock is ahead.
    pub(super) clocks: [i64; 2],
    pub(super) failovers: u8,
    /// Whether the second fail-over leads back to the first server as it was left, with writes that the
    /// other never had.
    pub(super) returns: bool,
    /// Whether each write arrives at once, so that none is late, lost or unanswered.
    pub(super) prompt: bool,
    /// How often an operator begins an epoch.
    pub(super) raises: u8,
    /// How often an operator releases the row while it is held.
    pub(super) releases: u8,
    pub(super) breaks: Breaks,
    /// Properties that must occur as well, to prove that the exploration reached them.
    pub(super) shows: &'static [&'static str],
}

/// How the world breaks the rules or the premises.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Breaks {
    #[default]
    Nothing,
    /// The store compares its identity, but not the epoch, in the swap of a row.
    EpochNotInSwap,
    /// A lease continues as unbroken for its whole ttl, whatever the clocks say.
    TtlWithoutSkews,
    /// The barrier is the store's clock.
    BarrierWithoutReach,
    /// The barrier ignores that clocks may disagree.
    BarrierWithoutSkews,
    /// A holder whose row was rolled back forgets the marks that it knows.
    WentBackForgetsMarks,
    /// A holder lowers, in a new epoch, a lane that it left before that epoch.
    LeftLaneLowered,
    /// A search that ends in a new epoch releases the row with the mark that it read before.
    AbandonedMarkNotRaised,
    /// A lease that continues as unbroken does not raise the lanes that it does not use.
    UnbrokenLanesNotRaised,
    /// A lease continues as unbroken for its whole ttl, though that is longer than leases reach.
    TtlBeyondReach,
    /// Premise: a fail-over happens before any process checked the server.
    NobodyLooked,
    /// Premise: the second fail-over may lose the record that a process wrote after the first.
    RecordLost,
    /// A process reads the record apart from the identity of the server and its clock.
    RecordReadApart,
    /// A process trusts a node's clock that ran evenly more than the store's, however far ahead it
    /// is.
    StoreClockBehind,
}

/// A configuration with its layout.
#[derive(Clone, Debug)]
pub(super) struct World {
    pub(super) configuration: Configuration,
    pub(super) layout: Layout,
    pub(super) bug: Option<Bug>,
}

impl World {
    pub(super) fn new(configuration: Configuration, bug: Option<Bug>) -> Self {
        let spec = LayoutSpec {
            rollback_bits: configuration.lanes.ilog2(),
            rollback_initial: u32::try_from(configuration.initial_lane).expect("few lanes"),
            max_sequence: Some(0),
            ..LayoutSpec::for_unit(TimeUnit::Second)
        };
        Self { layout: spec.build().expect("valid"), configuration, bug }
    }

    pub(super) fn breaks(&self, breaks: Breaks) -> bool {
        self.configuration.breaks == breaks
    }

    /// Returns whether the times of writes can prove anything. Otherwise the state has none, so
    /// that equal states are one.
    pub(super) const fn keeps_times(&self) -> bool {
        let Configuration { ttl, skew, breaks, .. } = self.configuration;
        ttl > 4 * skew || matches!(breaks, Breaks::TtlWithoutSkews)
    }

    /// Returns the time that a server's clock shows, Unix ms.
    pub(super) fn clock(&self, server: usize, tick: i64) -> i64 {
        instant(tick + self.configuration.clocks[server])
    }

    /// Returns the earliest reading of any server's clock.
    pub(super) fn earliest(&self, tick: i64) -> i64 {
        self.clock(0, tick).min(self.clock(1, tick))
    }

    pub(super) fn window_ms(&self, process: usize) -> i64 {
        ms(self.configuration.windows[process])
    }

    /// Returns the times of a node, as the keeper's settings compute them.
    pub(super) fn times(&self, process: usize) -> NodeTimes {
        let skews = if self.breaks(Breaks::BarrierWithoutSkews) { 0 } else { 2 };
        let reach_ms = self.window_ms(process) + skews * ms(self.configuration.skew);
        NodeTimes { reach_ms, renew_ms: 0 }
    }
}

pub(super) const fn ms(ticks: i64) -> i64 {
    ticks * TICK_MS
}

/// Returns an instant some ticks after the epoch, so that clocks that are behind are not before it.
const fn instant(tick: i64) -> i64 {
    LayoutSpec::DEFAULT_EPOCH_MS + ms(tick + 2)
}
