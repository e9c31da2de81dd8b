//! Tracks what a holder knows of its row, and decides what a read of the row means for the lease.
//!
//! A [`HeldRow`] has the last known token and marks, the writes whose outcome is unknown, the
//! lanes, and the lease that follows the one in use. It also remembers the last write that the
//! store acknowledged to this process, and the tokens before it. From these, [`HeldRow::judge`]
//! decides whether another process took the row or the store was rolled back.
//!
//! It calls no store, and it neither seals nor extends a grant: the keeper (`lease/held.rs`) does.
//! A caller reads the row before [`HeldRow::enter`], and calls [`HeldRow::adopt`] only where
//! `judge` returned `CreatedAgain` or `RolledBack`. Tests: `held_row/tests.rs` and the models in
//! `tests/models`.

use super::{
    Acknowledged, HeldLanes, History, KnownRow, LastWrite, Lease, Purpose, ReleasingRow, Row, Token,
};
use crate::layout::Layout;

/// Number of acknowledged tokens that are remembered. A fail-over loses the writes of a few
/// seconds; only a lease from which many IDs are issued is renewed several times in that time.
const REMEMBERED: usize = 64;

/// A held row, and the lease that follows the one in use.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct HeldRow<P> {
    /// The row's token and marks, and the writes whose outcome is unknown.
    pub known_row: KnownRow<P>,
    /// The row's lanes.
    pub lanes: HeldLanes,
    /// The lease that follows the one in use.
    pub next: NextLease,
    /// The last write that the store acknowledged to this process; `None` once it proves nothing.
    pub last_write: Option<LastWrite>,
    /// The tokens of the last acknowledged writes. If the row has one of them, and not the last,
    /// the store was rolled back, however short the time since.
    own_tokens: Vec<Token>,
}

/// The lease of a held row that follows the one in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum NextLease {
    /// There is none.
    None,
    /// The store acknowledged it, on another lane or from a barrier on. The process issues from it
    /// once the state file has it.
    Arriving(Lease),
    /// It begins at the barrier of a new epoch. Until the barrier comes due, IDs are issued from
    /// the present lease, which is not extended.
    AtBarrier(Lease),
}

/// The meaning of a row with an unexpected token: no token of the holder's last write, and none of
/// a write whose outcome is unknown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OtherToken {
    /// Another process wrote the row, or the store lost writes and nothing proves it. The holder
    /// cannot swap the row, so it stops.
    Taken,
    /// The row has the token of the last acknowledged write. It no longer has that of a later
    /// write, which the store had shown but not acknowledged.
    LastWrite,
    /// The row was created again, with marks beyond the lease.
    CreatedAgain,
    /// The store was rolled back: it lost the last write that it acknowledged.
    RolledBack,
}

/// The facts by which a holder judges a row under another token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RowCheck {
    /// The present epoch.
    pub epoch: Token,
    /// The mark that the store acknowledged for the lease that renewals extend.
    pub limit: u64,
    /// The allowed clock skew, in ms.
    pub max_skew_ms: i64,
    /// Whether the store's clock is known to be behind. Such a store writes heartbeats that look
    /// old.
    pub is_store_behind: bool,
}

impl<P: Copy + Into<Purpose>> HeldRow<P> {
    /// Starts with a lease of this lane on a known row.
    pub fn new(known_row: KnownRow<P>, lane: usize) -> Self {
        let (lanes, own_tokens) = (HeldLanes::on(lane), vec![known_row.token()]);
        Self { known_row, lanes, next: NextLease::None, last_write: None, own_tokens }
    }

    /// Returns the next lease, if it begins at the barrier.
    pub const fn at_barrier(&self) -> Option<Lease> {
        match self.next {
            NextLease::AtBarrier(lease) => Some(lease),
            NextLease::None | NextLease::Arriving(_) => None,
        }
    }

    /// Records that the store acknowledged the write that set the known token. `store_ms` is the
    /// store's clock before that write, in Unix ms. For `ttl_ms` from then on no other process can
    /// take the row.
    pub fn acknowledged(&mut self, store_ms: i64, ttl_ms: i64) {
        let (token, epoch) = (self.known_row.token(), self.known_row.epoch());
        self.last_write = Some(LastWrite { token, epoch, store_ms, ttl_ms });
        if self.own_tokens.len() == REMEMBERED {
            self.own_tokens.remove(0);
        }
        self.own_tokens.push(token);
    }

    /// Applies a write to the lease in use or to the next one. Returns the new limit of the lease
    /// in use, if the write raised it.
    pub fn apply(&mut self, write: &Acknowledged<P>) -> Option<u64> {
        self.lanes.confirmed(self.known_row.marks());
        match (*write.intent()).into() {
            Purpose::Renew { limit } => match &mut self.next {
                NextLease::AtBarrier(lease) => lease.limit = limit,
                NextLease::None | NextLease::Arriving(_) => return Some(limit),
            },
            Purpose::Lease(lease) => self.next = NextLease::Arriving(lease),
            Purpose::NewEpoch(lease) => {
                self.lanes = HeldLanes::on(lease.lane);
                self.next = NextLease::AtBarrier(lease);
            }
            // A row that is being released is not held.
            Purpose::Release => {}
        }
        None
    }

    /// Marks the lease that begins at the barrier as arriving, because the barrier came due.
    pub const fn come_due(&mut self) {
        if let Some(lease) = self.at_barrier() {
            self.next = NextLease::Arriving(lease);
        }
    }

    /// Records that IDs are issued from the lease that arrived, and that the grant of the lease
    /// before was sealed at this mark.
    pub fn arrived(&mut self, sealed_mark: u64) {
        let NextLease::Arriving(lease) = self.next else { return };
        self.next = NextLease::None;
        if lease.lane != self.lanes.in_use() {
            self.lanes.moved_to(lease.lane, sealed_mark);
        }
    }

    /// Returns whether the row has the token of a remembered write of this process.
    pub fn is_own(&self, row: &Row) -> bool {
        self.own_tokens.contains(&row.token)
    }

    /// Judges a row that has another token than the known one. See [`OtherToken`].
    pub fn judge(&self, row: &Row, check: &RowCheck) -> OtherToken {
        let RowCheck { epoch, limit, max_skew_ms, is_store_behind } = *check;
        if row.marks.lanes() != self.known_row.marks().lanes() {
            return OtherToken::Taken;
        }
        let last = self.last_write.as_ref();
        if last.is_some_and(|last| last.token == row.token) {
            return OtherToken::LastWrite;
        }
        if row.was_never_written() {
            let mark = row.marks.iter().nth(self.lanes.in_use());
            let is_beyond = mark.is_some_and(|mark| mark >= limit);
            return if is_beyond { OtherToken::CreatedAgain } else { OtherToken::RolledBack };
        }
        let is_before = |last: &LastWrite| {
            // Heartbeats are clock readings, epochs are not: a row of a later epoch is younger.
            let is_of_later_epoch = row.epoch == epoch && last.epoch != epoch;
            // No process wrote a heartbeat before 1970: an engine returns one for a time that no
            // calendar has, which a person set.
            let is_written = row.heartbeat_ms > 0;
            is_written
                && !is_of_later_epoch
                && row.heartbeat_ms < last.store_ms.saturating_sub(max_skew_ms)
        };
        let is_older = !is_store_behind && last.is_some_and(is_before);
        if is_older || self.is_own(row) { OtherToken::RolledBack } else { OtherToken::Taken }
    }

    /// Adopts a row that was found under another token. Unless this process wrote the row, another
    /// process may have held it since. The last write then remains evidence only if no process can
    /// have taken the row before `now_ms`, the store's clock after the row was read (Unix ms).
    pub fn adopt(&mut self, mut row: Row, check: &RowCheck, now_ms: Option<i64>) {
        let lane = self.lanes.in_use();
        if !self.is_own(&row) {
            let proves = |last: &LastWrite| {
                now_ms.is_some_and(|now_ms| last.held_until(now_ms, check.max_skew_ms))
            };
            self.last_write = self.last_write.filter(proves);
            if !row.was_never_written() {
                self.last_write.take_if(|_| row.marks[lane] > check.limit);
            } else if self.last_write.is_some() {
                // No other process can have leased beyond the limit, so the new row's mark is not
                // needed.
                row.marks = row.marks.with(lane, 0);
            }
        }
        self.known_row.adopt(&row);
    }

    /// Continues the lease in this epoch, with the known marks unchanged.
    pub fn continue_in(&mut self, epoch: Token) {
        self.lanes = HeldLanes::on(self.lanes.in_use());
        let marks = self.known_row.marks().clone();
        self.known_row.continue_in(epoch, marks);
    }

    /// Enters the present epoch, after the row was read in it. The lease continues if the store
    /// cannot have lost another process's lease of the row; otherwise the caller must lease the row
    /// again.
    pub fn enter(&mut self, present: &History, layout: &Layout, max_skew_ms: i64) {
        // The lowered mark of the lane that was left holds only in the epoch in which the lane was
        // left.
        let lane = self.lanes.in_use();
        self.lanes = HeldLanes::on(lane);
        let is_unbroken = self.last_write.is_some_and(|last| {
            let is_shown = last.token == self.known_row.token();
            present.is_unbroken(&last, is_shown, max_skew_ms)
        });
        if self.at_barrier().is_none() && is_unbroken {
            // An operator may have released the row, and another process may have leased another
            // lane of it.
            let known = self.known_row.marks();
            let marks =
                present.marks(layout, self.known_row.epoch(), known).with(lane, known[lane]);
            self.known_row.continue_in(present.epoch(), marks);
        } else {
            self.known_row.forget_before(present.epoch());
        }
    }

    /// Ends the lease in use, whose grant was sealed at this mark.
    pub fn end(self, sealed_mark: u64) -> ReleasingRow<P> {
        let (mut lanes, mut mark) = (self.lanes, sealed_mark);
        // No ID was issued from the next lease yet: its start is its mark.
        if let NextLease::Arriving(lease) | NextLease::AtBarrier(lease) = self.next {
            if lease.lane != lanes.in_use() {
                lanes.moved_to(lease.lane, mark);
            }
            mark = lease.start;
        }
        ReleasingRow::of_lease(self.known_row, lanes, mark)
    }

    /// Gives the models access: they rename tokens to find equal states, and drop tokens that
    /// nothing else names.
    #[cfg(feature = "planted")]
    pub const fn own_tokens_mut(&mut self) -> &mut Vec<Token> {
        &mut self.own_tokens
    }
}

#[cfg(test)]
mod tests;
