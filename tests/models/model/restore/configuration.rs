//! How large a world with restores is, and what is wrong in it.

use std::time::Duration;

use raindrop_core::{
    layout::{Layout, LayoutSpec, TimeUnit},
    lease::NodeTimes,
    planted::Bug,
};

pub(super) const TICK_MS: i64 = 1_000;
/// The present tick. Time passes by making everything else older, so that no horizon ends a world.
pub(super) const PRESENT: u64 = 40;

/// The bounds of one world; everything inside them is explored. Times are in ticks, and a tick has
/// one position.
#[derive(Clone, Debug)]
pub(super) struct Configuration {
    pub(super) name: &'static str,
    pub(super) processes: usize,
    pub(super) rows: usize,
    /// Whether the last row is none that a present process may lease, and its holder crashed long ago.
    pub(super) is_last_outside: bool,
    /// How far leases reach ahead.
    pub(super) window: i64,
    pub(super) ttl: i64,
    /// In how many ticks each holder that lives looks once.
    pub(super) renew: u8,
    /// How long a store must be stale, and starts then wait; 0 if none waits.
    pub(super) stale_wait: i64,
    pub(super) restores: u8,
    pub(super) restored: Restored,
    /// How old a backup is at least.
    pub(super) age: u8,
    /// How far the store's clock is ahead after a restore, until it is mended; 0 if never.
    pub(super) clock_error: i64,
    /// How often the marks are raised before a backup.
    pub(super) epochs: u8,
    /// How often the marks are raised after a restore, before which nobody leases.
    pub(super) raises: u8,
    /// How many epochs the record remembers; fewer than it really does, so that some are forgotten.
    pub(super) remembers: usize,
    /// How often an operator releases a row that is held.
    pub(super) releases: u8,
    /// How often a process that crashes leaves its lease in a state file.
    pub(super) state_files: u8,
    /// How often a holder loses the store for as long as it likes.
    pub(super) cuts: u8,
    /// How many IDs of one past tick there are.
    pub(super) past: u8,
    pub(super) counts: Counts,
    pub(super) breaks: Breaks,
    /// Whether somebody can come to hold a row from each state.
    pub(super) recovers: bool,
    /// What must be seen beside, as a proof that the exploration was not idle.
    pub(super) shows: &'static [&'static str],
}

/// What is put back, or lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Restored {
    Whole,
    Rows,
    Record,
    /// How many IDs of the past tick were reserved, and nothing else.
    Counter,
    /// All rows are deleted.
    NoRows,
    /// The record is deleted.
    NoRecord,
    /// Record and rows are deleted.
    Nothing,
}

/// Whose IDs must differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Counts {
    All,
    /// Those of processes that have looked since the last restore.
    Looked,
}

/// What the world does beyond the rules or the premises.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Breaks {
    #[default]
    Nothing,
    /// Rule 3: a row that went back is written again, and no epoch begins.
    NoEvidence,
    /// Rule 3: whatever another token says, it is evidence.
    LossIsEvidence,
    /// Rule 4: a loser uses its range up.
    LoserUsesUp,
    /// Rule 5: what is done with the row is decided before the epoch stands.
    DecidedBefore,
    /// Rule 7: a barrier is set by clocks that differ.
    BarrierByWrongClock,
    /// Rule 7: a lease begins in an epoch without a barrier.
    LeasedWhilePending,
    /// Rule 8: who starts does not wait.
    NoWait,
    /// Rule 8: the store is not looked at again before the swap.
    NotLookedAtAgain,
    /// Rule 8: a holder whose row may have been taken does not wait.
    LapsedGoesOn,
    /// Rule 8: such a holder does not wait where its lease begins anew.
    LapsedBeginsAnew,
    /// Rule 8: a start looks only at the rows that it may lease.
    OwnRowsCount,
    /// Rule 8: a lease is resumed from the state file, whoever has its row.
    ResumedBlindly,
    /// Rule 8: such a holder frees its row.
    LapsedIsReleased,
    /// Rule 9: no marks are raised after a restore.
    NotRaised,
    /// An epoch that the record forgot counts as lost.
    ForgottenIsLost,
    /// Which epoch is later is told by when they began.
    EpochsByTime,
    /// A row that is missing is created by the store's clock alone, though that is behind.
    MadeByWrongClock,
    /// Backfill: the row is not read after the reservation.
    PastUnconfirmed,
    /// Backfill: the row is read before the reservation.
    PastConfirmedBefore,
    /// Backfill: the record is read before the row.
    PastRecordBefore,
    /// Backfill: a write of any age confirms.
    OldWriteConfirms,
    /// Premise of backfill: each holder ends before it has looked.
    NobodyRemembers,
    /// Premise: a backup is put back while a start waits, or swaps.
    RestoredInWait,
    /// Premise: a backup is put back while a start that has waited does not look.
    RestoredAfterWait,
    /// Premise: the backup is of a namespace in which nobody held a row.
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

    /// What is planted in the production code.
    pub(super) const fn bug(&self) -> Option<Bug> {
        match self.configuration.breaks {
            Breaks::ForgottenIsLost => Some(Bug::ForgottenEpochIsLost),
            Breaks::PastUnconfirmed => Some(Bug::PastUnconfirmed),
            Breaks::OldWriteConfirms => Some(Bug::OldWriteConfirms),
            _ => None,
        }
    }

    /// How many rows the processes may lease.
    pub(super) fn leasable(&self) -> usize {
        self.configuration.rows - usize::from(self.configuration.is_last_outside)
    }

    pub(super) fn breaks(&self, breaks: Breaks) -> bool {
        self.configuration.breaks == breaks
    }

    /// What the record keeps of them.
    pub(super) const fn times(&self) -> NodeTimes {
        NodeTimes { reach_ms: self.reach_ms(), renew_ms: 0 }
    }

    /// As the keeper's settings compute it; no clock is skewed, only wrong.
    pub(super) const fn reach_ms(&self) -> i64 {
        ms(self.configuration.window)
    }

    pub(super) const fn window(&self) -> Duration {
        duration(self.configuration.window)
    }

    pub(super) const fn ttl(&self) -> Duration {
        duration(self.configuration.ttl)
    }

    /// The time that a write proves something for, as the keeper computes it.
    pub(super) const fn proven_ms(&self) -> i64 {
        let Configuration { ttl, window, .. } = self.configuration;
        let half = ms(window) / 2;
        if ms(ttl) < half { ms(ttl) } else { half }
    }

    /// Whether it matters who looked since the last restore.
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

/// So many ticks from now, in Unix ms.
pub(super) const fn instant(ticks: i64) -> i64 {
    LayoutSpec::DEFAULT_EPOCH_MS + ms(PRESENT.cast_signed() + ticks)
}
