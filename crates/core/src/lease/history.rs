//! Which history of a store a lease belongs to.
//!
//! A store that fails over, or is restored elsewhere, continues from a *prefix* of what it had
//! acknowledged: the last writes may be lost. So the record of a namespace tells the server's
//! *identity*, a random *epoch* and a *barrier*. Whoever finds another identity, or any other
//! evidence that writes were lost, begins a new epoch, with a barrier beyond everything that a lost
//! write can have leased. Each row carries the epoch of its last write, and each write of a row
//! names the epoch of the record in the same statement. A row of another epoch may have lost writes:
//! its marks count as no lower than the barrier.
//!
//! The epoch is random and not the identity, because a fail-back brings an identity back.
//!
//! Each epoch has an *ordinal*, one more than that of the epoch before it. The record remembers the
//! last epochs. An epoch that a process knows and the record does not remember is lost if its ordinal
//! is not below those that are remembered; otherwise the record forgot it.

use std::{cmp::Reverse, fmt, iter, str::FromStr};

use super::{HighWaterMarks, LongestTime, Token};
use crate::{
    layout::Layout,
    planted::{Bug, planted},
};

/// How many epochs a record remembers, the present one included.
const REMEMBERED: usize = 8;
/// How often the clock skew is subtracted from a lease's ttl before it proves anything: the clocks
/// of both servers and the step of either differ by at most that, and so long may the old server
/// have gone on.
const SKEWS_OF_TTL: i64 = 4;

/// One epoch of a namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Epoch {
    /// What rows and writes name it by: random.
    pub token: Token,
    /// 1 for the first epoch; in each next one, one more than in those that its process knew.
    pub ordinal: u64,
}

/// What the record of a namespace tells about the history of its store.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct History {
    /// The identity of the server that the present epoch began on; empty until a process that compares
    /// identities follows the record.
    pub identity: String,
    /// The present epoch: random, another one after each fail-over.
    pub epoch: Token,
    /// The ordinal of the present epoch.
    pub ordinal: u64,
    /// The last epochs before it, the latest first.
    pub before: Vec<Epoch>,
    /// The store's clock when the present epoch began, Unix ms; 0 for the first epoch.
    pub since_ms: i64,
    /// No lost write leased beyond this instant, Unix ms; 0 for the first epoch.
    pub barrier_ms: i64,
    /// Whether the present epoch has that barrier.
    pub barrier_state: BarrierState,
    /// The longest reach of any node; see [`NodeTimes::reach_ms`].
    pub reach: LongestTime,
    /// The longest time between two renewals of the nodes that follow the present epoch.
    pub renew: LongestTime,
    /// How far leases reach that are beyond that because the store's clock is behind, Unix ms; 0 if there
    /// was none.
    pub reached_ms: i64,
}

/// Whether an epoch has a barrier. It begins without one if the clocks of the store and of the node that
/// begins it differ too much.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum BarrierState {
    /// It had one from its beginning on.
    Set,
    /// It never gets one, so no lease begins in it: a later epoch has the barrier (`SetLater`).
    Pending,
    /// It takes the place of one that had none: since no lease began in that, those of the epoch before
    /// may go on, too.
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

/// What a node tells of its lease times, in ms.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct NodeTimes {
    /// How far beyond the store's clock its leases reach: its window and twice its allowed clock skew.
    pub reach_ms: i64,
    /// How often it renews its lease.
    pub renew_ms: i64,
}

/// The clocks when an epoch begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EpochClocks {
    /// The store's clock, Unix ms.
    pub store_ms: i64,
    /// The later of that and the node's clock, Unix ms; `None` if they differ too much to tell which one
    /// is right.
    pub later_ms: Option<i64>,
}

impl EpochClocks {
    /// The clocks where the store's is the only one, Unix ms.
    pub const fn of_store(store_ms: i64) -> Self {
        Self { store_ms, later_ms: Some(store_ms) }
    }
}

/// How a record fits the server that holds it, and what a process knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HistoryVerdict {
    /// The server continues the history of the record, as far as its identity is recorded.
    Continued,
    /// Another server holds the record: what its predecessor acknowledged last may be lost.
    OtherServer,
    /// The store knew an epoch that the record neither remembers nor can have forgotten: it went back.
    WentBack,
}

/// What a holder knows of the last write that the store acknowledged for its row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct LastWrite {
    /// The token that the write set.
    pub token: Token,
    /// The epoch that the write named.
    pub epoch: Token,
    /// The store's clock before the write, Unix ms.
    pub store_ms: i64,
    /// The time that the write held the row for, in ms.
    pub ttl_ms: i64,
}

impl LastWrite {
    /// Whether no other process can have taken the row from this write up to an instant of the store's
    /// clock, whichever server that is.
    pub const fn held_until(&self, store_ms: i64, max_skew_ms: i64) -> bool {
        let proven_ms = self.ttl_ms.saturating_sub(max_skew_ms.saturating_mul(SKEWS_OF_TTL));
        let elapsed_ms = store_ms.saturating_sub(self.store_ms);
        // Clocks that disagree by more than the skew prove nothing.
        -max_skew_ms <= elapsed_ms && elapsed_ms < proven_ms
    }
}

impl History {
    /// Returns the history of a namespace in which nothing was issued yet.
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

    /// Returns the history with what a process adds that continues it: the identity of the server, if
    /// none is recorded, its own times, if they are longer, and the instant that its leases reach, if it
    /// goes by a clock that is ahead of the store's. That passes by itself, and is registered for a
    /// quarter of a reach more, so that the record is not written with each lease.
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

    /// Returns what a process knows of a history of which it kept one epoch alone.
    pub fn kept(epoch: Epoch) -> Self {
        let history = Self::first("", epoch.token, NodeTimes::default());
        Self { ordinal: epoch.ordinal, ..history }
    }

    /// Returns the history that the next epoch follows, if the store shows this one and a process knew
    /// `known`: both, if this one lost the epoch of that. So the next epoch is later than either, and
    /// every process that knew one of them follows it.
    #[must_use]
    pub fn or_known(&self, known: Option<&Self>) -> Self {
        let Some(known) = known.filter(|known| self.lost(known.present())) else {
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

    /// Returns the history with a new epoch, which begins at this time on the server of this identity.
    /// The reach does not fall: a node whose lease goes on in place may have a longer one than the node
    /// that begins the epoch.
    #[must_use]
    pub fn next(&self, identity: &str, fresh: Token, clocks: EpochClocks, own: NodeTimes) -> Self {
        let fresh = if planted(Bug::EpochIsIdentity) { of_identity(identity) } else { fresh };
        let before = self.remembered().take(REMEMBERED - 1).collect();
        let EpochClocks { store_ms, later_ms } = clocks;
        let reach = self.reach.at_least(own.reach_ms);
        let set_ms = later_ms.map(|ms| ms.saturating_add(reach.ms).max(self.reached_ms));
        Self {
            identity: identity.to_owned(),
            epoch: fresh,
            ordinal: self.ordinal.saturating_add(1),
            before,
            since_ms: store_ms,
            barrier_ms: self.barrier_ms.max(set_ms.unwrap_or(0)),
            barrier_state: match (set_ms, self.is_pending()) {
                (None, _) => BarrierState::Pending,
                (Some(_), true) => BarrierState::SetLater,
                (Some(_), false) => BarrierState::Set,
            },
            reach,
            renew: LongestTime::of(own.renew_ms),
            reached_ms: self.reached_ms,
        }
    }

    /// Returns the history with a new epoch in which no lease goes on in place, because the epoch
    /// before it is one that no lease was written in. See [`Self::next`].
    #[must_use]
    pub fn raised(
        &self,
        identity: &str,
        [nobodys, fresh]: [Token; 2],
        clocks: EpochClocks,
        own: NodeTimes,
    ) -> Self {
        let before = self.next(identity, nobodys, clocks, own);
        before.next(identity, fresh, clocks, own)
    }

    /// The first position beyond everything that any node can have leased by this time of the store's
    /// clock, Unix ms.
    pub fn beyond(&self, layout: &Layout, store_ms: i64) -> u64 {
        let reach_ms = store_ms.saturating_add(self.reach.ms).max(self.reached_ms);
        layout.first_position(layout.tick_clamped(reach_ms) + 1)
    }

    /// Whether the present epoch is another one than the first.
    pub const fn has_failed_over(&self) -> bool {
        self.barrier_ms != 0 || self.is_pending()
    }

    /// Whether no lease may begin in the present epoch.
    pub const fn is_pending(&self) -> bool {
        matches!(self.barrier_state, BarrierState::Pending)
    }

    /// The present epoch.
    pub const fn epoch(&self) -> Token {
        self.epoch
    }

    /// The present epoch with its ordinal.
    pub const fn present(&self) -> Epoch {
        Epoch { token: self.epoch, ordinal: self.ordinal }
    }

    /// The epochs that the record remembers, the present one first.
    pub fn remembered(&self) -> impl Iterator<Item = Epoch> {
        iter::once(self.present()).chain(self.before.iter().copied())
    }

    /// The tokens of the epochs that the record remembers, the present one first.
    pub fn epochs(&self) -> impl Iterator<Item = Token> {
        self.remembered().map(|epoch| epoch.token)
    }

    fn remembers(&self, epoch: Token) -> bool {
        self.epochs().any(|known| known == epoch)
    }

    /// The smallest ordinal of an epoch that the record remembers; 1 while it forgot none.
    fn oldest(&self) -> u64 {
        self.before.iter().map(|epoch| epoch.ordinal).fold(self.ordinal, u64::min)
    }

    /// Whether the record lost this epoch: it does not remember it, and forgot only earlier ones.
    fn lost(&self, known: Epoch) -> bool {
        let is_forgotten = known.ordinal < self.oldest() && !planted(Bug::ForgottenEpochIsLost);
        !(self.remembers(known.token) || is_forgotten)
    }

    /// Returns the ordinal of an epoch that the record remembers.
    pub fn ordinal_of(&self, epoch: Token) -> Option<u64> {
        self.remembered().find(|known| known.token == epoch).map(|known| known.ordinal)
    }

    /// Returns how many epochs began since a write in `epoch`. A write before the first epoch is as old
    /// as the namespace; one in an epoch that is not remembered may be older than all that are.
    pub fn missed(&self, epoch: Token) -> u64 {
        let known = self.epochs().position(|known| known == epoch);
        let first = (epoch == Token::UNUSED && self.oldest() == 1).then_some(self.before.len());
        known.or(first).unwrap_or(REMEMBERED) as u64
    }

    /// Judges the record by the identity of the server that holds it, `None` if identities are not
    /// compared, and by the last epoch that the process knows.
    pub fn judge(&self, server: Option<&str>, known: Option<Epoch>) -> HistoryVerdict {
        if known.is_some_and(|known| self.lost(known)) {
            return HistoryVerdict::WentBack;
        }
        let is_other = server.is_some_and(|server| server != self.identity);
        if is_other && !self.identity.is_empty() && !planted(Bug::IdentityIgnored) {
            return HistoryVerdict::OtherServer;
        }
        HistoryVerdict::Continued
    }

    /// The first position that no lost write can have leased; 0 in the first epoch.
    pub fn barrier(&self, layout: &Layout) -> u64 {
        if self.barrier_ms != 0 {
            layout.first_position(layout.tick_clamped(self.barrier_ms) + 1)
        } else {
            0
        }
    }

    /// Returns the marks of a row that was last written in `epoch`. In another epoch than the
    /// present one writes may be lost, so none is below the barrier.
    pub fn marks(&self, layout: &Layout, epoch: Token, marks: &HighWaterMarks) -> HighWaterMarks {
        if epoch == self.epoch() || planted(Bug::EpochNotInRows) {
            marks.clone()
        } else {
            marks.at_least(self.barrier(layout))
        }
    }

    /// Returns whether the holder of a row of the last epoch in which leases began may go on with it: no
    /// other process can have taken the row since its last acknowledged write, because the row had not
    /// expired by the old server's clock when this epoch began.
    pub fn is_unbroken(&self, last: &LastWrite, max_skew_ms: i64) -> bool {
        if planted(Bug::RenewedAcrossEpochs) {
            return true;
        }
        let left = if self.barrier_state == BarrierState::SetLater { 2 } else { 1 };
        self.before.iter().take(left).any(|before| before.token == last.epoch)
            && last.held_until(self.since_ms, max_skew_ms)
    }
}

/// The epoch of [`Bug::EpochIsIdentity`].
fn of_identity(identity: &str) -> Token {
    Token::from_bits(identity.bytes().fold(1, |bits, byte| (bits << 8) | u128::from(byte)))
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
    /// Returns what a record keeps beside identity and present epoch.
    pub fn text(&self) -> String {
        let Self { ordinal, before, since_ms, barrier_ms, barrier_state, .. } = self;
        let Self { reach, renew, reached_ms, .. } = self;
        let state = barrier_state.text();
        let before = before.iter().map(Epoch::to_string).collect::<Vec<_>>().join(",");
        let mut text = format!(
            "ordinal={ordinal} since={since_ms} barrier={barrier_ms} state={state} reach={} renew={} \
             reached={reached_ms} before={before}",
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
        let mut fields = text.split(' ').peekable();
        let mut field = |name: &str| {
            let value =
                |field: &&str| field.strip_prefix(name)?.strip_prefix('=').map(str::to_owned);
            fields.next_if(|field| value(field).is_some()).as_ref().and_then(value)
        };
        let mut read = || {
            let ordinal = field("ordinal")?.parse().ok()?;
            let since_ms = field("since")?.parse().ok()?;
            let barrier_ms = field("barrier")?.parse().ok()?;
            let state = field("state")?;
            let known = [BarrierState::Set, BarrierState::Pending, BarrierState::SetLater];
            let barrier_state = known.into_iter().find(|known| known.text() == state)?;
            let reach_ms = field("reach")?.parse().ok()?;
            let renew_ms = field("renew")?.parse().ok()?;
            let reached_ms = field("reached")?.parse().ok()?;
            let before = field("before")?;
            let before = before.split_terminator(',').map(str::parse);
            let before = before.collect::<Result<_, _>>().ok()?;
            let mut shorter = |name| match field(name) {
                Some(text) => text.parse().map(Some).ok(),
                None => Some(None),
            };
            let (shorter_reach, shorter_renew) =
                (shorter("shorter_reach")?, shorter("shorter_renew")?);
            let identity = identity.to_owned();
            Some(Self {
                identity,
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
        };
        let history = read().filter(|history| history.text() == text);
        history.ok_or(InvalidHistory)
    }
}

#[cfg(test)]
mod tests;
