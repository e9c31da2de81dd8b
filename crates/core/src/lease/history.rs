//! Tells which history of a store a lease belongs to.
//!
//! A store that fails over, or is restored elsewhere, continues from a *prefix* of what it had
//! acknowledged: the last writes may be lost. So the record of a namespace has the server's
//! *identity*, a random *epoch* and a *barrier*. A process that finds another identity, or other
//! evidence of lost writes, begins a new epoch with a barrier beyond everything that a lost write
//! can have leased. Each row carries the epoch of its last write, and each write of a row names the
//! record's epoch in the same statement. A row of another epoch may have lost writes, so its marks
//! count as no lower than the barrier.
//!
//! The epoch is random and not the identity, because a fail-back brings an identity back.
//!
//! Each epoch has an *ordinal*, one more than that of the epoch before it. The record remembers the
//! last epochs. If a process knows an epoch that the record does not list, its ordinal decides: the
//! record forgot an epoch below all those that it lists; the store lost any other.
//!
//! An epoch *lost none* if the process that began it found another server, or clocks that agreed
//! again, and knew no epoch that the store lost and no row that was rolled back. The ordinal of
//! such an epoch is two more than that of the epoch before it. So a holder that missed several
//! epochs can tell whether one of them lost another ([`History::is_unbroken`]).
//!
//! A [`History`] writes nothing. The caller swaps the record with what these functions return; see
//! `crates/keeper/src/history`. Tests: `history/tests.rs` and the fail-over models in
//! `tests/models`.

use std::{
    cmp::Reverse,
    fmt,
    iter::{self, Peekable},
    str::{FromStr, Split},
};

use super::{HighWaterMarks, LongestTime, Token, planted};
use crate::layout::Layout;

/// Number of epochs that a record remembers, including the present one.
const REMEMBERED: usize = 8;
/// How many times the allowed clock skew is subtracted from a ttl before a write proves anything.
/// The clocks of two servers differ by at most one skew, each may step by at most one, and the old
/// server may have run on for one.
const SKEWS_OF_TTL: i64 = 4;
/// How much larger the ordinal of an epoch that lost none is than the ordinal before it. A version
/// that does not record the reason always adds one.
const STEP_WITHOUT_LOSS: u64 = 2;

/// One epoch of a namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Epoch {
    /// The random value that rows and writes name it by.
    pub token: Token,
    /// 1 for the first epoch. A later one has one or two more than the epoch that it follows.
    pub ordinal: u64,
}

/// The history of a store, as the record of a namespace has it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct History {
    /// The identity of the server on which the present epoch began; empty until a process that
    /// compares identities follows the record.
    pub identity: String,
    /// The present epoch: a random value, replaced after each fail-over.
    pub epoch: Token,
    /// The ordinal of the present epoch.
    pub ordinal: u64,
    /// The last epochs before the present one, latest first.
    pub before: Vec<Epoch>,
    /// The store's clock when the present epoch began, Unix ms; 0 for the first epoch.
    pub since_ms: i64,
    /// The barrier as an instant, Unix ms: no lost write leased beyond it. 0 for the first epoch.
    pub barrier_ms: i64,
    /// Whether the present epoch has a barrier.
    pub barrier_state: BarrierState,
    /// The longest reach of any node; see [`NodeTimes::reach_ms`].
    pub reach: LongestTime,
    /// The longest time between two renewals of the nodes that follow the present epoch.
    pub renew: LongestTime,
    /// The latest instant, in Unix ms, that leases reach although `reach` does not allow it: the
    /// store's clock was behind, or a longer `reach` fell. 0 if there are none.
    pub reached_ms: i64,
}

/// Whether an epoch has a barrier. An epoch begins without one if the clocks of the store and of
/// the node that begins it differ too much.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum BarrierState {
    /// The epoch has had its barrier since it began.
    Set,
    /// The epoch never gets a barrier, so no lease begins in it. A later epoch gets one
    /// (`SetLater`).
    Pending,
    /// The epoch replaces one without a barrier. No lease began in that one, so leases of the epoch
    /// before it may continue, too.
    SetLater,
}

impl BarrierState {
    const fn text(self) -> &'static str {
        match self {
            Self::Set => "set",
            Self::Pending => "pending",
            Self::SetLater => "set_later",
        }
    }
}

/// The lease times of a node, in ms.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct NodeTimes {
    /// How far beyond the store's clock the node's leases reach: its window plus twice its allowed
    /// clock skew.
    pub reach_ms: i64,
    /// The time between two renewals.
    pub renew_ms: i64,
}

/// The clocks at the time when an epoch begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EpochClocks {
    /// The store's clock, Unix ms.
    pub store_ms: i64,
    /// The later of the store's and the node's clock, Unix ms; `None` if they differ so much that
    /// one of them must be wrong.
    pub later_ms: Option<i64>,
}

impl EpochClocks {
    /// Uses the store's clock alone, Unix ms.
    pub const fn of_store(store_ms: i64) -> Self {
        Self { store_ms, later_ms: Some(store_ms) }
    }
}

/// How a record fits the server that has it, and what a process knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HistoryVerdict {
    /// The server continues the history of the record, or the record has no identity yet.
    Continued,
    /// Another server has the record: the last writes that its predecessor acknowledged may be
    /// lost.
    OtherServer,
    /// The store was rolled back: it had an epoch that the record neither remembers nor can have
    /// forgotten.
    RolledBack,
}

/// The last write of a row that the store acknowledged, as its holder remembers it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct LastWrite {
    /// The token that the write set.
    pub token: Token,
    /// The epoch that the write named.
    pub epoch: Token,
    /// The store's clock before the write, Unix ms.
    pub store_ms: i64,
    /// For how long the write held the row, in ms.
    pub ttl_ms: i64,
}

impl LastWrite {
    /// Returns whether no other process can have taken the row between this write and `store_ms`,
    /// an instant of the store's clock, whichever server shows it.
    pub const fn held_until(&self, store_ms: i64, max_skew_ms: i64) -> bool {
        let proven_ms = self.ttl_ms.saturating_sub(max_skew_ms.saturating_mul(SKEWS_OF_TTL));
        let elapsed_ms = store_ms.saturating_sub(self.store_ms);
        // A difference larger than the skew shows that a clock is wrong, and proves nothing.
        -max_skew_ms <= elapsed_ms && elapsed_ms < proven_ms
    }
}

impl History {
    /// Returns the history of a namespace in which no ID was issued yet.
    pub fn first(identity: &str, epoch: Token, longest: NodeTimes) -> Self {
        Self {
            identity: identity.to_owned(),
            epoch,
            ordinal: 1,
            before: Vec::new(),
            since_ms: 0,
            barrier_ms: 0,
            barrier_state: BarrierState::Set,
            reach: LongestTime::of(longest.reach_ms),
            renew: LongestTime::of(longest.renew_ms),
            reached_ms: 0,
        }
    }

    /// Returns the history as a process that continues it records it. The process adds the server's
    /// identity, if none is recorded, and its own times, if they are longer. A process whose clock
    /// is ahead of the store's also adds `until_ms`, the instant that its leases reach. It adds a
    /// quarter of its longest lease to that, so that not every lease writes the record. The instant
    /// needs no removal: it passes.
    #[must_use]
    pub fn continued(&self, server: Option<&str>, own: NodeTimes, until_ms: Option<i64>) -> Self {
        let recorded = Some(self.identity.as_str()).filter(|identity| !identity.is_empty());
        let identity = recorded.or(server).unwrap_or_default().to_owned();
        let until_ms = until_ms.filter(|until_ms| *until_ms > self.reached_ms);
        let reached_ms = until_ms.map_or(self.reached_ms, |ms| ms.saturating_add(own.reach_ms / 4));
        let reach = self.reach.at_least(own.reach_ms);
        let renew = self.renew.at_least(own.renew_ms);
        Self { identity, reach, renew, reached_ms, ..self.clone() }
    }

    /// Returns the history as known to a process that kept only this epoch.
    pub fn of_saved_epoch(epoch: Epoch) -> Self {
        let history = Self::first("", epoch.token, NodeTimes::default());
        Self { ordinal: epoch.ordinal, ..history }
    }

    /// Returns the history that the next epoch must follow, when the store shows this one and a
    /// process knew `known`. If this history lost the epoch of `known`, that is both of them
    /// joined: the next epoch is then later than either, and every process that knew one of them
    /// follows it.
    #[must_use]
    pub fn or_known(&self, known: Option<&Self>) -> Self {
        let Some(known) = known.filter(|known| self.lost(known.present_epoch())) else {
            return self.clone();
        };
        let is_later = known.ordinal > self.ordinal;
        let (later, other) = if is_later { (known, self) } else { (self, known) };
        let mut both = later.continued(None, other.longest(), None);
        both.before.extend(other.remembered().filter(|epoch| !later.remembers(epoch.token)));
        both.before.sort_by_key(|epoch| Reverse(epoch.ordinal));
        both.barrier_ms = later.barrier_ms.max(other.barrier_ms);
        both.reached_ms = later.reached_ms.max(other.reached_ms);
        both
    }

    /// Returns the history with a new epoch, which begins at the time of `clocks` on the server
    /// with this identity. The reach does not fall: a node whose lease continues in place may have
    /// a longer one than the node that begins the epoch.
    #[must_use]
    pub fn next(&self, identity: &str, fresh: Token, clocks: EpochClocks, own: NodeTimes) -> Self {
        let before = self.remembered().take(REMEMBERED - 1).collect();
        let EpochClocks { store_ms, later_ms } = clocks;
        let reach = self.reach.at_least(own.reach_ms);
        let set_ms = later_ms.map(|ms| ms.saturating_add(reach.ms).max(self.reached_ms));
        Self {
            identity: identity.to_owned(),
            epoch: planted::epoch(fresh, identity),
            ordinal: self.ordinal.saturating_add(1),
            before,
            since_ms: store_ms,
            barrier_ms: self.barrier_ms.max(set_ms.unwrap_or(0)),
            barrier_state: match (set_ms, self.lacks_barrier()) {
                (None, _) => BarrierState::Pending,
                (Some(_), true) => BarrierState::SetLater,
                (Some(_), false) => BarrierState::Set,
            },
            reach,
            renew: LongestTime::of(own.renew_ms),
            reached_ms: self.reached_ms,
        }
    }

    /// Returns the history with the ordinal that tells whether the present epoch lost none, if
    /// [`Self::next`] has just begun that epoch because of `verdict`.
    #[must_use]
    pub fn begun_by(self, verdict: HistoryVerdict) -> Self {
        let is_loss = planted::is_loss(verdict == HistoryVerdict::RolledBack);
        let more = if is_loss { 0 } else { STEP_WITHOUT_LOSS - 1 };
        Self { ordinal: self.ordinal.saturating_add(more), ..self }
    }

    /// Returns the history with a new epoch in which no lease continues in place: it follows
    /// another new epoch, in which no row can have been written. See [`Self::next`].
    #[must_use]
    pub fn raised(
        &self,
        identity: &str,
        [unused, fresh]: [Token; 2],
        clocks: EpochClocks,
        own: NodeTimes,
    ) -> Self {
        let unused = self.next(identity, unused, clocks, own);
        planted::raised(unused.next(identity, fresh, clocks, own), &unused)
    }

    /// Returns the first position beyond everything that any node can have leased by `store_ms`,
    /// the store's clock in Unix ms.
    pub fn beyond(&self, layout: &Layout, store_ms: i64) -> u64 {
        let reach_ms = store_ms.saturating_add(self.reach.ms).max(self.reached_ms);
        layout.first_position(layout.tick_clamped(reach_ms) + 1)
    }

    /// Returns whether the present epoch is not the first.
    pub const fn has_failed_over(&self) -> bool {
        self.barrier_ms != 0 || self.lacks_barrier()
    }

    /// Returns whether no lease may begin in the present epoch, because it has no barrier.
    pub const fn lacks_barrier(&self) -> bool {
        matches!(self.barrier_state, BarrierState::Pending)
    }

    /// Returns the token of the present epoch.
    pub const fn epoch(&self) -> Token {
        self.epoch
    }

    /// Returns the present epoch with its ordinal.
    pub const fn present_epoch(&self) -> Epoch {
        Epoch { token: self.epoch, ordinal: self.ordinal }
    }

    /// Returns the epochs that the record remembers, the present one first.
    pub fn remembered(&self) -> impl Iterator<Item = Epoch> {
        iter::once(self.present_epoch()).chain(self.before.iter().copied())
    }

    /// Returns the tokens of the epochs that the record remembers, the present one first.
    pub fn epochs(&self) -> impl Iterator<Item = Token> {
        self.remembered().map(|epoch| epoch.token)
    }

    fn remembers(&self, epoch: Token) -> bool {
        self.epochs().any(|known| known == epoch)
    }

    /// Returns the smallest ordinal of an epoch that the record remembers; 1 if it forgot none.
    fn oldest(&self) -> u64 {
        self.before.iter().map(|epoch| epoch.ordinal).fold(self.ordinal, u64::min)
    }

    /// Returns whether the store lost this epoch: the record does not remember it, and forgot only
    /// earlier ones.
    fn lost(&self, known: Epoch) -> bool {
        let is_forgotten = planted::is_forgotten(known.ordinal < self.oldest());
        !(self.remembers(known.token) || is_forgotten)
    }

    /// Returns the ordinal of an epoch that the record remembers.
    pub fn ordinal_of(&self, epoch: Token) -> Option<u64> {
        self.remembered().find(|known| known.token == epoch).map(|known| known.ordinal)
    }

    /// Returns how many epochs began since a write in `epoch`. A row that was never written is as
    /// old as the namespace. An epoch that is not remembered may be older than all that are.
    pub fn missed(&self, epoch: Token) -> u64 {
        let known = self.epochs().position(|known| known == epoch);
        let first = (epoch == Token::UNUSED && self.oldest() == 1).then_some(self.before.len());
        known.or(first).unwrap_or(REMEMBERED) as u64
    }

    /// Judges the record by the server that has it and by the last epoch that the process knows.
    /// `server` is the server's identity, or `None` if identities are not compared.
    pub fn judge(&self, server: Option<&str>, known: Option<Epoch>) -> HistoryVerdict {
        if known.is_some_and(|known| self.lost(known)) {
            return HistoryVerdict::RolledBack;
        }
        let is_other = server.is_some_and(|server| server != self.identity);
        if planted::is_other_server(is_other && !self.identity.is_empty()) {
            return HistoryVerdict::OtherServer;
        }
        HistoryVerdict::Continued
    }

    /// Returns the first position that no lost write can have leased; 0 in the first epoch.
    pub fn barrier(&self, layout: &Layout) -> u64 {
        if self.barrier_ms != 0 {
            layout.first_position(layout.tick_clamped(self.barrier_ms) + 1)
        } else {
            0
        }
    }

    /// Returns the marks of a row that was last written in `epoch`. If that is not the present
    /// epoch, writes may be lost, so no mark is below the barrier.
    pub fn marks(&self, layout: &Layout, epoch: Token, marks: &HighWaterMarks) -> HighWaterMarks {
        if planted::is_present(epoch == self.epoch()) {
            marks.clone()
        } else {
            marks.at_least(self.barrier(layout))
        }
    }

    /// Returns whether a holder may continue its lease in place in the present epoch. A holder may
    /// if no other process can have taken the row since the holder's last acknowledged write,
    /// because the row had not expired by the servers' clocks when this epoch began.
    ///
    /// There are two cases. Either the write is of the last epoch in which leases began. Or the
    /// write is of an earlier epoch, the row still shows it (`is_shown`), and each epoch since
    /// then *lost none*. In any other case, a process may have leased the row in one of these
    /// epochs, and the store may have lost that lease.
    pub fn is_unbroken(&self, last: &LastWrite, is_shown: bool, max_skew_ms: i64) -> bool {
        // How many epochs ago leases began last: none begin in an epoch without a barrier.
        let last_leased = if self.barrier_state == BarrierState::SetLater { 2 } else { 1 };
        let is_held = last.held_until(self.since_ms, max_skew_ms);
        planted::is_unbroken(match self.epochs().position(|epoch| epoch == last.epoch) {
            // The record forgot the epoch, or the write is of the present one.
            None | Some(0) => false,
            Some(epochs_since) if epochs_since <= last_leased => is_held,
            Some(epochs_since) => {
                planted::is_shown(is_shown)
                    && self.have_lost_none(epochs_since)
                    && planted::is_held(is_held)
            }
        })
    }

    /// Returns whether each of the last `count` epochs lost none.
    fn have_lost_none(&self, count: usize) -> bool {
        let mut steps = self.remembered().zip(&self.before).take(count);
        steps.all(|(epoch, before)| {
            epoch.ordinal == before.ordinal.saturating_add(STEP_WITHOUT_LOSS)
        })
    }
}

impl fmt::Display for Epoch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.token, self.ordinal)
    }
}

impl FromStr for Epoch {
    type Err = InvalidHistory;

    fn from_str(text: &str) -> Result<Self, InvalidHistory> {
        let (token, ordinal) = text.split_once(':').ok_or(InvalidHistory)?;
        let token = token.parse().map_err(|_| InvalidHistory)?;
        let ordinal = ordinal.parse().map_err(|_| InvalidHistory)?;
        Ok(Self { token, ordinal })
    }
}

/// A text that is not the history of a record.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "a history is `ordinal=<number> since=<ms> barrier=<ms> state=<set, pending or set_later> \
     reach=<ms> renew=<ms> reached=<ms> before=<epoch:ordinal, joined by commas>`, and perhaps \
     ` shorter_reach=<ms>@<ms>` and ` shorter_renew=<ms>@<ms>`"
)]
pub struct InvalidHistory;

impl History {
    /// Returns the text of all fields except the identity and the present epoch, which the record
    /// keeps separately.
    pub fn text(&self) -> String {
        let Self { ordinal, before, since_ms, barrier_ms, barrier_state, .. } = self;
        let Self { reach, renew, reached_ms, .. } = self;
        let state = barrier_state.text();
        let before = before.iter().map(Epoch::to_string).collect::<Vec<_>>().join(",");
        let mut text = format!(
            "ordinal={ordinal} since={since_ms} barrier={barrier_ms} state={state} reach={} \
             renew={} reached={reached_ms} before={before}",
            reach.ms, renew.ms
        );
        for (name, longest) in [("shorter_reach", reach), ("shorter_renew", renew)] {
            if let Some(shorter) = longest.shorter {
                text += &format!(" {name}={shorter}");
            }
        }
        text
    }

    /// Reads a history from its parts in a record.
    ///
    /// # Errors
    ///
    /// When the text is not what [`Self::text`] writes.
    pub fn from_parts(identity: &str, epoch: Token, text: &str) -> Result<Self, InvalidHistory> {
        let history = Self::parse(identity, epoch, text);
        history.filter(|history| history.text() == text).ok_or(InvalidHistory)
    }

    /// Parses a text that [`Self::text`] wrote. Another one may give a history, too.
    fn parse(identity: &str, epoch: Token, text: &str) -> Option<Self> {
        let mut fields = Fields(text.split(' ').peekable());
        // The fields are evaluated in this order, which is that of the text.
        let ordinal = fields.parsed("ordinal")?;
        let since_ms = fields.parsed("since")?;
        let barrier_ms = fields.parsed("barrier")?;
        let state = fields.value("state")?;
        let known = [BarrierState::Set, BarrierState::Pending, BarrierState::SetLater];
        let barrier_state = known.into_iter().find(|known| known.text() == state)?;
        let reach_ms = fields.parsed("reach")?;
        let renew_ms = fields.parsed("renew")?;
        let reached_ms = fields.parsed("reached")?;
        let epochs_before = fields.value("before")?.split_terminator(',').map(str::parse);
        let before = epochs_before.collect::<Result<_, _>>().ok()?;
        let shorter_reach = fields.optional("shorter_reach").ok()?;
        let shorter_renew = fields.optional("shorter_renew").ok()?;
        Some(Self {
            identity: identity.to_owned(),
            epoch,
            ordinal,
            before,
            since_ms,
            barrier_ms,
            barrier_state,
            reach: LongestTime { ms: reach_ms, shorter: shorter_reach },
            renew: LongestTime { ms: renew_ms, shorter: shorter_renew },
            reached_ms,
        })
    }
}

/// The fields of a history's text, each of which is read in its turn.
struct Fields<'a>(Peekable<Split<'a, char>>);

impl<'a> Fields<'a> {
    /// Returns the value of the next field, if it has this name.
    fn value(&mut self, name: &str) -> Option<&'a str> {
        let value = self.0.peek()?.strip_prefix(name)?.strip_prefix('=')?;
        self.0.next();
        Some(value)
    }

    /// Parses the value of the next field, if it has this name.
    fn parsed<T: FromStr>(&mut self, name: &str) -> Option<T> {
        self.value(name)?.parse().ok()
    }

    /// Parses the value of the next field. Returns `None` if it has another name.
    fn optional<T: FromStr>(&mut self, name: &str) -> Result<Option<T>, T::Err> {
        self.value(name).map(str::parse).transpose()
    }
}

#[cfg(test)]
mod tests;
