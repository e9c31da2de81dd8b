//! What the holder of a row knows of it.

use super::{HeldLanes, History, LastWrite, Lease, Purpose, ReleasingRow, Row, Tenure, Token};
use crate::layout::Layout;

/// How many tokens of a row are remembered. A fail-over loses the writes of a few seconds, and a lease is
/// renewed more often than that only while much is issued from it.
const REMEMBERED: usize = 64;

/// A row that is held, and the lease that follows the one in use.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct HeldRow<P> {
    /// Its token and marks, and the writes whose outcome is unknown.
    pub tenure: Tenure<P>,
    /// Its lanes.
    pub lanes: HeldLanes,
    /// The lease that follows the one in use.
    pub next: NextLease,
    /// The last write that the store acknowledged to this process, while it proves anything.
    pub last_write: Option<LastWrite>,
    /// The tokens of the last writes that were acknowledged: a row that has one of them, and not the
    /// last, went back, however short the time.
    own_tokens: Vec<Token>,
}

/// The lease of a held row that follows the one in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum NextLease {
    /// There is none.
    None,
    /// It was leased, on another lane or from a barrier on, and is used once the state file has it.
    Arriving(Lease),
    /// It begins at the barrier of a new epoch. Until that comes due, the present lease is used up, and
    /// not extended.
    AtBarrier(Lease),
}

/// What a row says to its holder that has neither the token of the holder's last write nor that of an
/// attempt of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OtherToken {
    /// Somebody else wrote the row, or the store lost writes that nothing proves: whoever cannot swap,
    /// stops.
    Taken,
    /// The store shows the last write that it acknowledged, and no longer one that it had only shown.
    LastWrite,
    /// The row was created again, with marks that are beyond the lease.
    CreatedAgain,
    /// The store lost the last write that it acknowledged.
    WentBack,
}

/// What a row under another token is judged by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RowCheck {
    /// The present epoch.
    pub epoch: Token,
    /// Up to where the store acknowledged the lease that renewals extend.
    pub limit: u64,
    /// How much clocks may differ, in ms.
    pub max_skew_ms: i64,
    /// Whether the store's clock is known to be behind: then it writes old heartbeats.
    pub is_store_behind: bool,
}

impl<P: Copy + Into<Purpose>> HeldRow<P> {
    /// Begins with a lease of this lane, whose token is the tenure's.
    pub fn new(tenure: Tenure<P>, lane: usize) -> Self {
        let (lanes, own_tokens) = (HeldLanes::on(lane), vec![tenure.token()]);
        Self { tenure, lanes, next: NextLease::None, last_write: None, own_tokens }
    }

    /// The next lease, if it begins at the barrier.
    pub const fn at_barrier(&self) -> Option<Lease> {
        match self.next {
            NextLease::AtBarrier(lease) => Some(lease),
            NextLease::None | NextLease::Arriving(_) => None,
        }
    }

    /// Takes note that the store acknowledged the write that set the tenure's token. `store_ms` is the
    /// store's clock before that write, Unix ms; for `ttl_ms` nobody else can have taken the row.
    pub fn acknowledged(&mut self, store_ms: i64, ttl_ms: i64) {
        let (token, epoch) = (self.tenure.token(), self.tenure.epoch());
        self.last_write = Some(LastWrite { token, epoch, store_ms, ttl_ms });
        if self.own_tokens.len() == REMEMBERED {
            self.own_tokens.remove(0);
        }
        self.own_tokens.push(token);
    }

    /// Does what an acknowledged write of this purpose allows. Returns the limit of the lease in use, if
    /// the write raised that.
    pub fn apply(&mut self, purpose: Purpose) -> Option<u64> {
        self.lanes.confirmed(self.tenure.marks());
        match purpose {
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

    /// Lets the lease that begins at the barrier arrive, because it came due.
    pub const fn come_due(&mut self) {
        if let Some(lease) = self.at_barrier() {
            self.next = NextLease::Arriving(lease);
        }
    }

    /// Takes note that the lease that arrived is used, and the one before was sealed at this mark.
    pub fn arrived(&mut self, sealed_mark: u64) {
        let NextLease::Arriving(lease) = self.next else { return };
        self.next = NextLease::None;
        if lease.lane != self.lanes.present() {
            self.lanes.moved_to(lease.lane, sealed_mark);
        }
    }

    /// Whether this process wrote the row as it was read.
    pub fn is_own(&self, row: &Row) -> bool {
        self.own_tokens.contains(&row.token)
    }

    /// Judges a row with another token.
    pub fn judge(&self, row: &Row, check: &RowCheck) -> OtherToken {
        let RowCheck { epoch, limit, max_skew_ms, is_store_behind } = *check;
        if row.marks.lanes() != self.tenure.marks().lanes() {
            return OtherToken::Taken;
        }
        let last = self.last_write.as_ref();
        if last.is_some_and(|last| last.token == row.token) {
            return OtherToken::LastWrite;
        }
        if row.was_never_written() {
            let mark = row.marks.iter().nth(self.lanes.present());
            let is_beyond = mark.is_some_and(|mark| mark >= limit);
            return if is_beyond { OtherToken::CreatedAgain } else { OtherToken::WentBack };
        }
        let is_before = |last: &LastWrite| {
            // Whatever the clocks say, the epoch of a write does not lie.
            let is_of_later_epoch = row.epoch == epoch && last.epoch != epoch;
            !is_of_later_epoch && row.heartbeat_ms < last.store_ms.saturating_sub(max_skew_ms)
        };
        let is_older = !is_store_behind && last.is_some_and(is_before);
        if is_older || self.is_own(row) { OtherToken::WentBack } else { OtherToken::Taken }
    }

    /// Goes on from a row that was found under another token. Unless this process wrote that, another one
    /// may have held the row since: then the last write proves something only if nobody can have taken
    /// the row until `now_ms`, the store's clock after the row was read.
    pub fn adopt(&mut self, mut row: Row, check: &RowCheck, now_ms: Option<i64>) {
        let lane = self.lanes.present();
        if !self.is_own(&row) {
            let proves = |last: &LastWrite| {
                now_ms.is_some_and(|now_ms| last.held_until(now_ms, check.max_skew_ms))
            };
            self.last_write = self.last_write.filter(proves);
            if !row.was_never_written() {
                self.last_write.take_if(|_| row.marks[lane] > check.limit);
            } else if self.last_write.is_some() {
                // Nobody leased beyond the limit.
                row.marks = row.marks.with(lane, 0);
            }
        }
        self.tenure.went_back(&row);
    }

    /// Goes on with the lease in this epoch, in which its marks count as they are.
    pub fn continue_in(&mut self, epoch: Token) {
        self.lanes = HeldLanes::on(self.lanes.present());
        let marks = self.tenure.marks().clone();
        self.tenure.continue_in(epoch, marks);
    }

    /// Enters another epoch, once the row was read in it. The lease goes on if the store cannot have lost
    /// another process's lease of the row; otherwise the row is to be leased anew.
    pub fn enter(&mut self, present: &History, layout: &Layout, max_skew_ms: i64) {
        // What is known of the lane that was left does not hold in another epoch.
        let lane = self.lanes.present();
        self.lanes = HeldLanes::on(lane);
        let is_unbroken =
            self.last_write.is_some_and(|last| present.is_unbroken(&last, max_skew_ms));
        if self.at_barrier().is_none() && is_unbroken {
            // An operator may have released the row, and another process leased another lane.
            let known = self.tenure.marks();
            let marks = present.marks(layout, self.tenure.epoch(), known).with(lane, known[lane]);
            self.tenure.continue_in(present.epoch(), marks);
        } else {
            self.tenure.forget_before(present.epoch());
        }
    }

    /// Ends the lease in use, which was sealed at this mark.
    pub fn end(self, sealed_mark: u64) -> ReleasingRow<P> {
        let (mut lanes, mut mark) = (self.lanes, sealed_mark);
        // Nothing was issued on a lane that the state file does not have yet.
        if let NextLease::Arriving(lease) | NextLease::AtBarrier(lease) = self.next {
            if lease.lane != lanes.present() {
                lanes.moved_to(lease.lane, mark);
            }
            mark = lease.start;
        }
        ReleasingRow::of_lease(self.tenure, lanes, mark)
    }

    /// For the models, which rename tokens to tell equal states, and forget those that are nowhere else.
    #[cfg(feature = "planted")]
    pub const fn own_tokens_mut(&mut self) -> &mut Vec<Token> {
        &mut self.own_tokens
    }
}

#[cfg(test)]
mod tests;
