//! The cursor of one code, which moves through its reserved blocks.
//!
//! A claim takes one of two paths. The fast path moves the cursor by one compare-and-exchange, and
//! only below `quick`, a limit inside the block that the cursor has reached. Other claims go
//! through the [`Chain`], which knows the gaps between blocks. `quick` rises only *after* the
//! cursor has reached a block. Otherwise a claim of the fast path could start in one block and end
//! in the next, and take numbers of another process in between (`Bug::QuickLimitAhead`). The task
//! that reserves blocks calls [`SegmentCursor::add`]; claims wake it when few numbers are left or
//! some are missing.

use std::task::Waker;

use super::{
    chain::{Chain, WentBack},
    numbers::Numbers,
    planted,
    spec::{Block, Progression},
};
use crate::{
    id::Id,
    lease::Token,
    sync::{Arc, AtomicU64, Mutex, Ordering, PoisonError, Slot},
};

/// The value of a sealed cursor. Indexes are smaller, because numbers are below 2^63.
const CLOSED: u64 = u64::MAX;

/// Why a claim was denied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Denied {
    /// The reserved blocks have too few numbers left; another block is on its way.
    Short {
        /// How many more numbers the claim needs.
        missing: u64,
    },
    /// The cursor was sealed.
    Sealed,
}

/// Unused numbers at the end of the last reservation, to be returned after the cursor was sealed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GiveBack {
    /// The first unused number.
    pub from: u64,
    /// How many numbers are returned.
    pub count: u64,
    /// The token that the reservation wrote. If the store has another one, a process has reserved
    /// since.
    pub token: Token,
}

/// The reserved blocks of one code and the cursor that moves through them.
#[derive(Debug)]
pub struct SegmentCursor {
    progression: Progression,
    /// The next index to issue, or [`CLOSED`]. It only rises.
    next: AtomicU64,
    /// Claims that end here or below take the fast path. The limit never passes the end of the
    /// block that the cursor has reached. So a claim that reads the limit *after* the cursor, and
    /// then moves the cursor from that position, takes only numbers of this process.
    quick: AtomicU64,
    chain: Slot<Chain>,
    /// How many numbers were reserved, less those that were returned or given up. Its lock also
    /// makes additions of blocks exclusive.
    given: Mutex<u64>,
    /// A claim that leaves this many numbers or fewer wakes the task that reserves blocks.
    low: AtomicU64,
    /// How many numbers the largest claim lacked, of the claims since the last call of
    /// [`Self::take_missing`].
    missing: AtomicU64,
    waker: Waker,
}

impl SegmentCursor {
    /// Makes a cursor without a block; `waker` wakes the task that reserves blocks.
    pub fn new(progression: Progression, waker: Waker) -> Self {
        Self {
            progression,
            next: AtomicU64::new(0),
            quick: AtomicU64::new(0),
            chain: Slot::empty(),
            given: Mutex::new(0),
            low: AtomicU64::new(0),
            missing: AtomicU64::new(0),
            waker,
        }
    }

    /// Claims `count` numbers in one atomic step.
    pub fn claim(&self, count: u64) -> Result<Numbers, Denied> {
        match self.take_quickly(self.next.load(Ordering::Acquire), count) {
            Some(first) => Ok(Numbers::new(self.progression, first..first + count, Vec::new())),
            None => self.claim_from_chain(count),
        }
    }

    /// Claims at least one number and at most `most`. It leaves half of the reserved numbers to
    /// other claims, or as many as cause the next reservation, whichever is less.
    pub fn claim_up_to(&self, most: u64) -> Result<Numbers, Denied> {
        let left = self.left();
        let spare = left.saturating_sub(self.low.load(Ordering::Acquire)).max(left / 2);
        // Other claims may have taken some of them meanwhile.
        match self.claim(spare.clamp(1, most)) {
            Err(Denied::Short { .. }) if spare > 1 => self.claim(1),
            claimed => claimed,
        }
    }

    /// Claims one number, if a block has one. `seen` is where this caller last saw the cursor,
    /// which saves a read while no other thread moves it.
    #[inline]
    pub fn claim_one(&self, seen: &mut u64) -> Option<Id> {
        let Some(index) = self.take_quickly(*seen, 1) else {
            return self.claim_from_chain(1).ok()?.next();
        };
        *seen = index + 1;
        Some(Id::from_composed(self.progression.number(index)))
    }

    /// Claims `count` indexes if they end at or below `quick`, and returns the first. `next` is
    /// where the caller last saw the cursor.
    #[inline]
    fn take_quickly(&self, mut next: u64, count: u64) -> Option<u64> {
        loop {
            let quick = self.quick.load(Ordering::Acquire);
            // A closed cursor is above every limit.
            if next >= quick || quick - next < count {
                return None;
            }
            match self.next.compare_exchange_weak(
                next,
                next + count,
                Ordering::AcqRel,
                Ordering::Acquire,
            ) {
                Ok(_) => return Some(next),
                Err(moved) => next = moved,
            }
        }
    }

    #[cold]
    fn claim_from_chain(&self, count: u64) -> Result<Numbers, Denied> {
        loop {
            let next = self.next.load(Ordering::Acquire);
            if next == CLOSED {
                return Err(Denied::Sealed);
            }
            // Load the chain after the cursor: a later chain still has every block from `next` on.
            let chain = self.chain.load_full().unwrap_or_default();
            let taken = match chain.take(next, count) {
                Ok(taken) => taken,
                Err(missing) => {
                    self.missing.fetch_max(missing, Ordering::AcqRel);
                    self.waker.wake_by_ref();
                    return Err(Denied::Short { missing });
                }
            };
            let end = taken.end();
            planted::before_cursor_moves(&self.quick, &chain, end);
            if self.next.compare_exchange(next, end, Ordering::AcqRel, Ordering::Acquire).is_err() {
                continue;
            }
            let left = chain.remaining(end);
            let low = self.low.load(Ordering::Acquire);
            let quick = match left.count.checked_sub(low).filter(|above| *above > 0) {
                Some(above) => left.block_end.min(end.saturating_add(above)),
                None => {
                    self.waker.wake_by_ref();
                    left.block_end
                }
            };
            // Only now: the cursor must have reached that block.
            self.quick.fetch_max(quick, Ordering::AcqRel);
            return Ok(Numbers::new(self.progression, taken.first, taken.rest));
        }
    }

    /// Adds a block that the store reserved for this process. From now on, a claim that leaves
    /// `low` numbers or fewer wakes the task.
    ///
    /// # Errors
    ///
    /// When the block begins below a number that this process reserved before.
    pub fn add(&self, block: &Block, low: u64) -> Result<(), WentBack> {
        let mut given = self.given.lock().unwrap_or_else(PoisonError::into_inner);
        let next = self.next.load(Ordering::Acquire);
        if next == CLOSED {
            // A sealed cursor issues nothing, so the numbers of the block stay unused.
            return Ok(());
        }
        let chain = self.chain.load_full().unwrap_or_default();
        let chain = chain.with(block, self.progression, next)?;
        *given += self.progression.index_at(block.end) - self.progression.index_at(block.first);
        self.low.store(low, Ordering::Release);
        self.chain.swap(Some(Arc::new(chain)));
        Ok(())
    }

    /// Gives up all numbers that are left. In a new epoch, other processes may have reserved them
    /// again.
    pub fn give_up(&self) {
        let mut given = self.given.lock().unwrap_or_else(PoisonError::into_inner);
        let chain = self.chain.load_full().unwrap_or_default();
        // A closed cursor is above every block.
        let next = self.next.fetch_max(chain.end(), Ordering::AcqRel);
        if next != CLOSED {
            *given -= chain.remaining(next).count;
        }
    }

    /// Returns how many numbers were issued in all.
    pub fn handed_out(&self) -> u64 {
        let given = self.given.lock().unwrap_or_else(PoisonError::into_inner);
        given.saturating_sub(self.left())
    }

    /// Returns how many reserved numbers are left.
    pub fn left(&self) -> u64 {
        let next = self.next.load(Ordering::Acquire);
        if next == CLOSED {
            return 0;
        }
        self.chain.load().as_ref().map_or(0, |chain| chain.remaining(next).count)
    }

    /// Returns the last of the next `count` numbers, or `None` if fewer are left. It claims
    /// nothing: another claim may take them first.
    pub fn last_of_next(&self, count: u64) -> Option<u64> {
        // A closed cursor is above every block.
        let next = self.next.load(Ordering::Acquire);
        let taken = self.chain.load().as_ref()?.take(next, count).ok()?;
        Some(self.progression.number(taken.end() - 1))
    }

    /// Returns how many numbers the largest claim since the last call lacked; 0 if all were
    /// granted.
    pub fn take_missing(&self) -> u64 {
        self.missing.swap(0, Ordering::AcqRel)
    }

    /// Returns whether another block must be reserved.
    pub fn needs_more(&self) -> bool {
        self.missing.load(Ordering::Acquire) > 0 || self.left() < self.low.load(Ordering::Acquire)
    }

    /// Wakes the task that reserves blocks.
    pub fn wake(&self) {
        self.waker.wake_by_ref();
    }

    /// Closes the cursor for good. Returns the unused numbers of the last reservation, and how many
    /// unused numbers of earlier reservations are lost, because other processes have reserved in
    /// between.
    pub fn seal(&self) -> (Option<GiveBack>, u64) {
        let next = self.next.swap(CLOSED, Ordering::AcqRel);
        planted::after_closing(&self.next, next);
        let mut given = self.given.lock().unwrap_or_else(PoisonError::into_inner);
        let chain = self.chain.swap(None).unwrap_or_default();
        if next == CLOSED {
            return (None, 0);
        }
        let unused = chain.unused_end(planted::first_unused(next));
        let back = unused.map_or(0, |unused| unused.end - unused.from);
        let give_back = unused.map(|unused| GiveBack {
            from: self.progression.number(unused.from),
            count: back,
            token: unused.token,
        });
        let left = chain.remaining(next).count;
        *given -= left;
        (give_back, left.saturating_sub(back))
    }
}

#[cfg(test)]
mod tests;
