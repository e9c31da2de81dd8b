//! Models a store that fails over to a prefix of its history, and the messages on their way to it.

use std::sync::Arc;

use raindrop_core::{
    lease::{History, HistoryVerdict, Row, RowExpiry, RowWrite, Token},
    planted::{Bug, planted},
};

use super::configuration::{Breaks, SERVERS, World};

/// The record of the namespace.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Record {
    pub(super) token: Token,
    pub(super) history: History,
}

/// Everything that a server holds at one moment.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Tables {
    pub(super) record: Arc<Record>,
    pub(super) row: Arc<Row>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Store {
    /// Which of the two accepts writes.
    pub(super) server: usize,
    /// The tables after each acknowledged write. A fail-over goes back to any of them.
    pub(super) log: Vec<Tables>,
    pub(super) failovers: u8,
    /// The server that was left, if the next fail-over leads back to it.
    left: Option<Tables>,
    /// Whether it leads on now, and its record lacks an epoch: then a process that knows that, or an
    /// operator, acts first.
    is_back: bool,
}

/// A swap that the store has not received yet, and may never receive.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Message {
    /// The process that waits for the answer.
    pub(super) awaited_by: Option<usize>,
    pub(super) expected: Token,
    pub(super) swap: Swap,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Swap {
    Row(RowWrite),
    Record(Arc<Record>),
}

impl Store {
    pub(super) fn new(tables: Tables) -> Self {
        Self { server: 0, log: vec![tables], failovers: 0, left: None, is_back: false }
    }

    /// Everything that a server shows or may show again.
    pub(super) fn tables(&self) -> impl DoubleEndedIterator<Item = &Tables> {
        self.log.iter().chain(&self.left)
    }

    pub(super) fn tables_mut(&mut self) -> impl DoubleEndedIterator<Item = &mut Tables> {
        self.log.iter_mut().chain(&mut self.left)
    }

    /// Returns whether a process that knows this may be the first to check the store after a fail-over.
    pub(super) fn may_be_checked(&self, known: Option<&History>) -> bool {
        let history = &self.present().record.history;
        let known = known.map(History::present_epoch);
        !self.is_back || history.judge(None, known) == HistoryVerdict::RolledBack
    }

    pub(super) fn present(&self) -> &Tables {
        self.log.last().expect("a server holds something")
    }

    pub(super) const fn identity(&self) -> &'static str {
        SERVERS[self.server]
    }

    fn is_continued_by(&self, history: &History) -> bool {
        planted(Bug::IdentityIgnored) || history.identity == self.identity()
    }

    /// Returns the row as a process reads it.
    pub(super) fn row(&self, world: &World, tick: i64) -> Row {
        let row = &*self.present().row;
        Row { free: row.expires_ms <= world.clock(self.server, tick), ..row.clone() }
    }

    /// Runs one statement, as the stores have it: compares and sets. Returns whether it did.
    pub(super) fn apply(&mut self, world: &World, tick: i64, message: &Message) -> bool {
        let Tables { record, row } = self.present();
        match &message.swap {
            Swap::Row(write) => {
                let is_epoch =
                    record.history.epoch() == write.epoch || world.breaks(Breaks::EpochNotInSwap);
                let is_present = (is_epoch && self.is_continued_by(&record.history))
                    || planted(Bug::IdentityCheckedBefore);
                if !is_present || row.token != message.expected {
                    return false;
                }
                let now_ms = world.clock(self.server, tick);
                let expires_ms = match write.expiry {
                    RowExpiry::Released => 0,
                    RowExpiry::After(ttl) => {
                        let ttl_ms = i64::try_from(ttl.as_millis()).expect("short");
                        now_ms + ttl_ms
                    }
                };
                let row = Row {
                    token: write.token,
                    epoch: write.epoch,
                    lane: write.lane,
                    marks: write.marks.clone(),
                    heartbeat_ms: if world.keeps_times() { now_ms } else { 1 },
                    expires_ms,
                    free: false,
                    ..(**row).clone()
                };
                let record = Arc::clone(record);
                self.log.push(Tables { record, row: Arc::new(row) });
            }
            Swap::Record(changed) => {
                let is_expected = record.token == message.expected;
                if !is_expected || !self.is_continued_by(&changed.history) {
                    return false;
                }
                let begins = changed.history.epoch() != record.history.epoch();
                let row = Arc::clone(row);
                if begins && !world.breaks(Breaks::RecordLost) {
                    // Premise: the next fail-over keeps this write.
                    self.log.clear();
                }
                self.is_back &= !begins;
                self.log.push(Tables { record: Arc::clone(changed), row });
            }
        }
        true
    }

    /// Returns whether a process has checked this server, so that it can tell the next fail-over
    /// from this one.
    pub(super) fn may_fail_over(&self, world: &World) -> bool {
        let looked = self.is_continued_by(&self.present().record.history);
        self.failovers < world.configuration.failovers
            && !self.is_back
            && (looked || world.breaks(Breaks::NobodyLooked))
    }

    /// Lets the other server continue with the first `kept` states of the log, or as it was left.
    pub(super) fn fail_over(&mut self, world: &World, kept: usize) {
        if let Some(left) = self.left.take() {
            (self.log, self.is_back) = (vec![left], true);
        } else if world.configuration.returns && self.failovers == 0 {
            self.left = self.log.last().cloned();
        }
        self.log.truncate(kept);
        self.server = 1 - self.server;
        self.failovers += 1;
    }

    /// Forgets the states that no fail-over goes back to.
    pub(super) fn forget_states(&mut self, world: &World) {
        if self.left.is_some() || self.failovers == world.configuration.failovers {
            self.log.drain(..self.log.len() - 1);
        }
    }

    /// Returns whether a message may still change something, now or after a fail-over.
    pub(super) fn may_match(&self, message: &Message) -> bool {
        self.tables().any(|Tables { record, row }| match &message.swap {
            Swap::Row(_) => row.token == message.expected,
            Swap::Record(_) => record.token == message.expected,
        })
    }
}
