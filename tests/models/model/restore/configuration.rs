//! The size of a world with restores, and the rule that it breaks.

use std::time::Duration;

use raindrop_core::{
    layout::{Layout, LayoutSpec, TimeUnit},
    lease::NodeTimes,
    planted::Bug,
};

pub(super) const TICK_MS: i64 = 1_000;
/// The present tick. When time passes, everything else becomes older, so no horizon ends a world.
pub(super) const PRESENT: u64 = 40;

/// The bounds of one world; everything inside them is explored. Times are in ticks, and a tick has
/// one position.
#[derive(Clone, Debug)]
pub(super) struct Configuration {
    pub(super) name: &'static str,
    pub(super) processes: usize,
    pub(super) rows: usize,
    /// Whether no present process may lease the last row, whose holder crashed long ago.
    pub(super) is_last_outside: bool,
    /// How far leases reach ahead.
    pub(super) window: i64,
    pub(super) ttl: i64,
    /// In how many ticks each living holder checks its row once.
    pub(super) renew: u8,
    /// How long a store must be stale, and starts then wait; 0 if no process waits.
    pub(super) stale_wait: i64,
    pub(super) restores: u8,
    pub(super) restored: Restored,
    /// The least age of a backup.
    pub(super) age: u8,
    /// How far the store's clock is ahead after a restore, until it is corrected; 0 if never.
    pub(super) clock_error: i64,
    /// How often an operator raises the marks before a backup.
    pub(super) epochs: u8,
    /// How often an operator raises the marks after a restore; no process leases before that.
    pub(super) raises: u8,
    /// How many epochs the record remembers: fewer than in the service, so that it forgets some.
    pub(super) remembers: usize,
    /// How often an operator releases a row that is held.
    pub(super) releases: u8,
    /// How often a process that crashes leaves its lease in a state file.
    pub(super) state_files: u8,
    /// How often a holder loses the store for any length of time.
    pub(super) cuts: u8,
    /// How many IDs of one past tick there are.
    pub(super) past: u8,
    pub(super) counts: Counts,
    pub(super) breaks: Breaks,
    /// Whether, from each state, some process can come to hold a row.
    pub(super) recovers: bool,
    /// Properties that must occur as well, to prove that the exploration reached them.
    pub(super) shows: &'static [&'static str],
}

/// The part of the store that is restored, or lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Restored {
    Whole,
    Rows,
    Record,
    /// The number of reserved IDs of the past tick, and nothing else.
    Counter,
    /// All rows are deleted.
    NoRows,
    /// The record is deleted.
    NoRecord,
    /// Record and rows are deleted.
    Nothing,
}

/// The processes whose IDs must differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Counts {
    All,
    /// Processes that have checked the store since the last restore.
    Looked,
}

/// How the world breaks the rules or the premises.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Breaks {
    #[default]
    Nothing,
    /// Rule 3: a process writes a row that was rolled back again, and begins no epoch.
    NoEvidence,
    /// Rule 3: a row with any other token is evidence.
    LossIsEvidence,
    /// Rule 4: a loser uses up its range.
    LoserUsesUp,
    /// Rule 5: a holder decides about the row before the record has the epoch.
    DecidedBefore,
    /// Rule 7: a process sets a barrier by clocks that differ.
    BarrierByWrongClock,
    /// Rule 7: a lease begins in an epoch without a barrier.
    LeasedWhilePending,
    /// Rule 8: a process that starts does not wait.
    NoWait,
    /// Rule 8: a process does not check the store again before the swap.
    NotLookedAtAgain,
    /// Rule 8: a holder whose row another process may have taken does not wait.
    LapsedGoesOn,
    /// Rule 8: such a holder does not wait where it leases the row again.
    LapsedBeginsAnew,
    /// Rule 8: a start counts only the rows that it may lease.
    OwnRowsCount,
    /// Rule 8: a process resumes a lease from the state file whatever process has its row.
    ResumedBlindly,
    /// Rule 8: such a holder frees its row.
    LapsedIsReleased,
    /// Rule 9: no operator raises marks after a restore.
    NotRaised,
    /// An epoch that the record forgot counts as lost.
    ForgottenIsLost,
    /// The times at which two epochs began tell which is later.
    EpochsByTime,
    /// A process creates a missing row by the store's clock alone, though that is behind.
    MadeByWrongClock,
    /// Backfill: the process does not read the row after the reservation.
    PastUnconfirmed,
    /// Backfill: the process reads the row before the reservation.
    PastConfirmedBefore,
    /// Backfill: the process reads the record before the row.
    PastRecordBefore,
    /// Backfill: a write of any age confirms.
    OldWriteConfirms,
    /// Premise of backfill: each holder ends before it has checked its row.
    NobodyRemembers,
    /// Premise: a backup is restored while a start waits, or swaps.
    RestoredInWait,
    /// Premise: a backup is restored while a start that has waited does not check.
    RestoredAfterWait,
    /// Premise: the backup is of a namespace in which no process held a row.
    AtRest,
}

/// A configuration with its layout.
#[derive(Clone, Debug)]
pub(super) struct World {
    pub(super) configuration: Configuration,
    pub(super) layout: Layout,
}

impl World {
    pub(super) fn new(configuration: Configuration) -> Self {
        let spec = LayoutSpec {
            rollback_bits: 0,
            max_sequence: Some(0),
            ..LayoutSpec::for_unit(TimeUnit::Second)
        };
        Self { layout: spec.build().expect("valid"), configuration }
    }

    /// Returns the bug that the production code has planted.
    pub(super) const fn bug(&self) -> Option<Bug> {
        match self.configuration.breaks {
            Breaks::ForgottenIsLost => Some(Bug::ForgottenEpochIsLost),
            Breaks::PastUnconfirmed => Some(Bug::PastUnconfirmed),
            Breaks::OldWriteConfirms => Some(Bug::OldWriteConfirms),
            _ => None,
        }
    }

    /// Returns how many rows the processes may lease.
    pub(super) fn leasable(&self) -> usize {
        self.configuration.rows - usize::from(self.configuration.is_last_outside)
    }

    pub(super) fn breaks(&self, breaks: Breaks) -> bool {
        self.configuration.breaks == breaks
    }

    /// Returns the times of nodes as the record keeps them.
    pub(super) const fn times(&self) -> NodeTimes {
        NodeTimes { reach_ms: self.reach_ms(), renew_ms: 0 }
    }

    /// Returns the reach as the keeper's settings compute it; no clock is skewed, only wrong.
    pub(super) const fn reach_ms(&self) -> i64 {
        ms(self.configuration.window)
    }

    pub(super) const fn window(&self) -> Duration {
        duration(self.configuration.window)
    }

    pub(super) const fn ttl(&self) -> Duration {
        duration(self.configuration.ttl)
    }

    /// Returns how long a write proves something, as the keeper computes it.
    pub(super) const fn proven_ms(&self) -> i64 {
        let Configuration { ttl, window, .. } = self.configuration;
        let half = ms(window) / 2;
        if ms(ttl) < half { ms(ttl) } else { half }
    }

    /// Returns whether it matters which processes have checked the store since the last restore.
    pub(super) fn tells_who_looked(&self) -> bool {
        self.configuration.counts == Counts::Looked
    }
}

pub(super) const fn ms(ticks: i64) -> i64 {
    ticks * TICK_MS
}

pub(super) const fn duration(ticks: i64) -> Duration {
    Duration::from_millis(ms(ticks).unsigned_abs())
}

/// Returns the instant this many ticks from now, Unix ms.
pub(super) const fn instant(ticks: i64) -> i64 {
    LayoutSpec::DEFAULT_EPOCH_MS + ms(PRESENT.cast_signed() + ticks)
}
