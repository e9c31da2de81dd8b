//! Keeps a namespace's record in step with the history of its store, and begins new epochs; see
//! [`History`](raindrop_core::lease::History).
//!
//! [`KnownHistory::follow`] compares the record with the server that has it and with the epochs
//! that this process knows. If writes may be lost, it swaps the record to a new epoch. It decides
//! nothing about leases or blocks. When it returns [`Followed::ReadAgain`], the record changed, and
//! the caller must survey again. `follower` follows it for reservations, `lease/context.rs` for
//! leases. Tests: `epochs.rs`, `failovers.rs` and `longest_times.rs` in `src/tests`.

pub(crate) mod follower;

use std::{collections::VecDeque, time::Duration};

use raindrop_core::{
    layout::Layout,
    lease::{
        Epoch, EpochClocks, HighWaterMarks, History, HistoryVerdict, LongestTime, NodeTimes, Token,
    },
};
use raindrop_store::{LayoutRecord, Store, StoreError, Survey};

use crate::support::{
    observer::{Observer, StoreOperation},
    store_call::store_call,
};

/// How many times the same server may come back within [`RECENT`]. More returns than fail-overs
/// explain mean that several servers accept writes in turn.
const RETURNS: usize = 2;
/// How many epochs in succession may begin within [`RECENT`] on one server that keeps losing
/// writes.
const LOSSES: usize = 4;
const RECENT: Duration = Duration::from_mins(5);
/// Number of epochs that are remembered.
const REMEMBERED: usize = 8;

/// How long this process must have read the same longest times before it lowers them. Every node
/// that uses such times confirms them in the record each hour. So if a backup's record lacks a
/// confirmation, a node renews it before this time has passed.
const READ_UNCHANGED: Duration = Duration::from_hours(2);

/// The history of a store, as far as a process knows it.
#[derive(Debug, Default)]
pub(crate) struct KnownHistory {
    /// The history in the record when it was last read.
    present: Option<History>,
    /// The epoch of the lease that was resumed from the state file.
    resumed: Option<Epoch>,
    /// Whether a row or reservation of this process was lost, so that the present epoch must end.
    pub(crate) epoch_must_end: bool,
    /// The last epochs in the record, including those that other processes began.
    epochs: VecDeque<MetEpoch>,
    /// The longest times in the record when it was last read.
    times: Option<ReadTimes>,
}

/// The longest times of an epoch, as this process read them in the record.
#[derive(Debug)]
struct ReadTimes {
    epoch: Token,
    reach: LongestTime,
    renew: LongestTime,
    /// The steady time at which this process first read them.
    since: Duration,
}

impl ReadTimes {
    fn are_those_of(&self, recorded: &History) -> bool {
        let Self { epoch, reach, renew, .. } = *self;
        (epoch, reach, renew) == (recorded.epoch(), recorded.reach, recorded.renew)
    }
}

/// An epoch that the record had when this process read it.
#[derive(Debug)]
struct MetEpoch {
    epoch: Token,
    /// The steady clock when this process first read it.
    since: Duration,
    /// The identity of the server on which it began.
    server: String,
}

impl KnownHistory {
    /// Records the epoch of a lease that was resumed from the state file.
    pub(crate) fn resume(&mut self, epoch: Epoch) {
        self.resumed = Some(epoch);
    }

    /// Returns the history in the record when it was last read; `None` before the first time.
    pub(crate) const fn present(&self) -> Option<&History> {
        self.present.as_ref()
    }

    /// Returns whether this process knows an epoch, even if only from the state file.
    pub(crate) fn is_known(&self) -> bool {
        self.known().is_some()
    }

    fn known(&self) -> Option<Epoch> {
        self.present().map(History::present_epoch).or(self.resumed)
    }

    /// Returns the ordinal of an epoch that this process or its state file knows; `None` if the
    /// record has forgotten the epoch.
    pub(crate) fn ordinal_of(&self, epoch: Token) -> Option<u64> {
        let resumed = || self.resumed.filter(|known| known.token == epoch);
        let present = self.present().and_then(|history| history.ordinal_of(epoch));
        present.or_else(|| resumed().map(|known| known.ordinal))
    }

    /// Returns the present epoch. Returns [`Token::UNUSED`] if none is known; since no record has
    /// that, the store refuses a write that names it.
    pub(crate) fn epoch(&self) -> Token {
        self.known().map_or(Token::UNUSED, |known| known.token)
    }

    /// Returns the history of a record that must be created: a first one or, if this process has
    /// read a record, the next epoch after that.
    pub(crate) fn created(
        &self,
        survey: &Survey,
        clocks: EpochClocks,
        fresh: Token,
        own: NodeTimes,
    ) -> History {
        let identity = survey.identity.as_deref().unwrap_or_default();
        match &self.present {
            Some(present) => present.next(identity, fresh, clocks, own),
            None => History::first(identity, fresh, own),
        }
    }

    /// Returns whether no lease may begin in the present epoch, because it has no barrier.
    pub(crate) fn lacks_barrier(&self) -> bool {
        self.present().is_some_and(History::lacks_barrier)
    }

    /// Returns the first position that no lost write can have leased; 0 if no fail-over is known.
    pub(crate) fn barrier(&self, layout: &Layout) -> u64 {
        self.present().map_or(0, |history| history.barrier(layout))
    }

    /// Returns the marks of a row that was last written in `epoch`, as they count in the known
    /// history.
    pub(crate) fn marks(
        &self,
        layout: &Layout,
        epoch: Token,
        marks: &HighWaterMarks,
    ) -> HighWaterMarks {
        let history = self.present();
        history.map_or_else(|| marks.clone(), |history| history.marks(layout, epoch, marks))
    }

    /// Records the history of a record of another layout, which is only read.
    pub(crate) fn read(&mut self, record: &LayoutRecord) -> &History {
        self.present.insert(record.history.clone())
    }

    /// Follows the history of a record: decides which history the record must have, and swaps the
    /// record if it has another one. Begins a new epoch if the store does not continue the history.
    pub(crate) async fn follow(
        &mut self,
        context: &HistoryContext<'_>,
        survey: &Survey,
        record: &LayoutRecord,
        mut fresh: impl FnMut() -> Token,
    ) -> Result<Followed, StoreError> {
        let recorded = &record.history;
        // Remembers an epoch of another server even if this call ends it.
        if self.epochs.back().is_none_or(|last| last.server != recorded.identity) {
            self.meet(recorded, context.steady);
        }
        let read_server = survey.identity.as_deref();
        let verdict = if self.epoch_must_end && self.epoch() == recorded.epoch() {
            HistoryVerdict::RolledBack
        } else {
            recorded.judge(read_server, self.known())
        };
        // The present epoch has no barrier, because the clocks differed when it began. Now they
        // agree, so this call begins a new epoch with one.
        let can_set_barrier = recorded.lacks_barrier() && context.clocks.later_ms.is_some();
        let history = if verdict == HistoryVerdict::Continued && !can_set_barrier {
            let continued = recorded.continued(read_server, context.own, context.until_ms);
            self.with_own_times(continued, context)
        } else {
            let server = read_server.unwrap_or(&recorded.identity);
            if verdict != HistoryVerdict::Continued {
                let namespace = context.namespace;
                tracing::debug!(namespace, server, ?verdict, "history does not continue");
                self.check_servers(server, recorded, context.steady)?;
            }
            self.next_epoch(context, server, recorded, fresh()).begun_by(verdict)
        };
        if history == *recorded {
            if self.is_known() && self.epoch() != recorded.epoch() {
                let (namespace, server) = (context.namespace, &recorded.identity);
                tracing::debug!(namespace, server, "another process began an epoch: following it");
            }
            self.note(recorded, context.steady);
            return Ok(Followed::Current);
        }
        let since_tick = context.since_tick(record, &history);
        let changed = LayoutRecord { token: fresh(), since_tick, history, ..record.clone() };
        let swap = context.store.swap_record(context.namespace, record.token, &changed);
        let swapped =
            store_call(context.store, context.observer, StoreOperation::Swap, swap).await?;
        if !swapped {
            return Ok(Followed::ReadAgain);
        }
        self.note(&changed.history, context.steady);
        if changed.history.epoch() != recorded.epoch() {
            let (namespace, before) = (context.namespace, &recorded.identity);
            let (server, is_pending) = (&changed.history.identity, changed.history.lacks_barrier());
            tracing::warn!(namespace, before, server, is_pending, "store failed over: new epoch");
            context.observer.epoch_changed();
        }
        Ok(Followed::ReadAgain)
    }

    /// Returns the history with the next epoch, later than any that this process knows.
    fn next_epoch(
        &self,
        context: &HistoryContext<'_>,
        server: &str,
        recorded: &History,
        fresh: Token,
    ) -> History {
        let known = self.present.clone().or_else(|| self.resumed.map(History::of_saved_epoch));
        recorded.or_known(known.as_ref()).next(server, fresh, context.clocks, context.own)
    }

    /// Returns a history with the times of this process, if its leases use them, and without longer
    /// times that no node uses.
    fn with_own_times(&self, history: History, context: &HistoryContext<'_>) -> History {
        if !context.leases {
            return history;
        }
        let store_ms = context.clocks.store_ms;
        let history = history.used_by(context.own, store_ms);
        // If the clock is ahead, the record would name an instant far ahead as the one that leases
        // can reach, and keep it until the clock is right. So times fall only if the clocks agree.
        let clocks_agree = context.clocks.later_ms.is_some() && !history.lacks_barrier();
        let unchanged = self.times.as_ref().filter(|times| times.are_those_of(&history));
        if clocks_agree
            && unchanged.is_some_and(|times| context.steady >= times.since + READ_UNCHANGED)
        {
            history.without_unused_times(store_ms)
        } else {
            history
        }
    }

    /// Remembers the epoch that the record names, even one that another process began.
    fn meet(&mut self, recorded: &History, steady: Duration) {
        let (epoch, server) = (recorded.epoch(), recorded.identity.clone());
        if let Some(known) = self.epochs.iter_mut().find(|known| known.epoch == epoch) {
            known.server = server;
            return;
        }
        self.epochs.push_back(MetEpoch { epoch, since: steady, server });
        if self.epochs.len() > REMEMBERED {
            self.epochs.pop_front();
        }
    }

    /// Records the history that the record has now.
    fn note(&mut self, recorded: &History, steady: Duration) {
        self.meet(recorded, steady);
        if self.epoch() != recorded.epoch() {
            self.epoch_must_end = false;
        }
        if !self.times.as_ref().is_some_and(|times| times.are_those_of(recorded)) {
            let History { reach, renew, .. } = *recorded;
            self.times = Some(ReadTimes { epoch: recorded.epoch(), reach, renew, since: steady });
        }
        self.present = Some(recorded.clone());
    }

    /// Refuses a new epoch if several servers accept writes in turn, or if one keeps losing writes.
    fn check_servers(
        &self,
        server: &str,
        recorded: &History,
        steady: Duration,
    ) -> Result<(), StoreError> {
        let since = steady.saturating_sub(RECENT);
        let met_since = self.epochs.iter().filter(|met| met.since >= since);
        let mut recent: Vec<&str> = met_since.map(|met| met.server.as_str()).collect();
        let losses = recent.iter().rev().take_while(|before| **before == server).count();
        recent.dedup();
        let returns = recent.iter().filter(|before| **before == server).count();
        let other = &recorded.identity;
        if server == other && losses > LOSSES {
            let reason = format!(
                "the server {server:?} keeps losing acknowledged writes: let it write to disk \
                 before it answers, and let no replica answer reads"
            );
            return Err(StoreError::Refused(reason.into()));
        }
        if server != other && returns >= RETURNS {
            let reason = format!(
                "several servers accept writes in turn ({server:?} and {other:?}), so which one \
                 has the last writes is unknown: name only one of them in store.url, or set \
                 store.failover = \"lossless\" if they are one cluster that loses no write"
            );
            return Err(StoreError::Refused(reason.into()));
        }
        Ok(())
    }
}

/// The result of [`KnownHistory::follow`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Followed {
    /// The record has the present history.
    Current,
    /// This process or another one changed the record: the caller must read it again.
    ReadAgain,
}

/// The parts that following a history needs.
pub(crate) struct HistoryContext<'a> {
    pub(crate) store: &'a dyn Store,
    /// The steady clock, now.
    pub(crate) steady: Duration,
    pub(crate) observer: &'a dyn Observer,
    pub(crate) namespace: &'a str,
    /// The layout; `None` if IDs are plain numbers.
    pub(crate) layout: Option<&'a Layout>,
    /// The clocks when the record was read.
    pub(crate) clocks: EpochClocks,
    /// The lease times of this process.
    pub(crate) own: NodeTimes,
    /// Whether this process leases rows, with `own` as their times.
    pub(crate) leases: bool,
    /// The instant that its leases reach, in Unix ms, if it uses a clock that is ahead of the
    /// store's.
    pub(crate) until_ms: Option<i64>,
}

impl HistoryContext<'_> {
    /// Returns the tick from which IDs for a past time are issued, once the record has this
    /// history. Which of them the lost writes had reserved is unknown, so a new epoch closes
    /// earlier ticks.
    fn since_tick(&self, record: &LayoutRecord, history: &History) -> u64 {
        match self.layout.filter(|layout| layout.backfill_per_tick() > 0) {
            Some(layout) if history.epoch() != record.history.epoch() => {
                record.since_tick.max(layout.tick_of(history.barrier(layout)))
            }
            _ => record.since_tick,
        }
    }
}

/// Creates a record unless there is one. Returns the stored one.
pub(crate) async fn create_record(
    store: &dyn Store,
    observer: &dyn Observer,
    namespace: &str,
    record: &LayoutRecord,
) -> Result<LayoutRecord, StoreError> {
    let created = store.create_record(namespace, record);
    let stored = store_call(store, observer, StoreOperation::Prepare, created).await?;
    // Another process may have changed the record since, but kept the epoch, which this process
    // began.
    let is_ours = stored.history.epoch() == record.history.epoch();
    if is_ours && record.history.has_failed_over() {
        tracing::warn!(namespace, "layout record was gone: written again with a new epoch");
        observer.epoch_changed();
    }
    Ok(stored)
}

/// Returns the error for a record that other processes changed before each attempt to follow it.
pub(crate) fn contended() -> StoreError {
    StoreError::Refused("other nodes keep changing the layout record".into())
}
