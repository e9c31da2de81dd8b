//! The cursor of one code, which moves through its blocks.

use std::task::Waker;

use super::{
    chain::{Chain, WentBack},
    numbers::Numbers,
    spec::{Block, Progression},
};
use crate::{
    id::Id,
    lease::Token,
    planted::{Bug, planted},
    sync::{Arc, AtomicU64, Mutex, Ordering, PoisonError, Slot},
};

/// A sealed cursor: no index is ever this large, since numbers are below 2^63.
const CLOSED: u64 = u64::MAX;

/// Why a claim was denied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Denied {
    /// The reserved blocks have too few numbers.
    Short {
        /// How many more numbers the claim needs.
        missing: u64,
    },
    /// The cursor was sealed.
    Sealed,
}

/// The unused end of the last reservation of a sealed code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GiveBack {
    /// The first unused number.
    pub from: u64,
    /// The number of numbers.
    pub count: u64,
    /// The token that the reservation wrote; another token in the store means a later reservation.
    pub token: Token,
}

/// The blocks of one code and the cursor that moves through them.
#[derive(Debug)]
pub struct SegmentCursor {
    progression: Progression,
    /// The index to hand out next; it only rises, until it is closed.
    next: AtomicU64,
    /// Claims that end here or below take the quick path. It never passes the end of the block that
    /// the cursor has reached. So a claim that reads it after the cursor, and then moves the cursor
    /// from where it stood, takes only numbers of this process.
    quick: AtomicU64,
    chain: Slot<Chain>,
    /// How many numbers were ever reserved, without those that a seal took away. The lock makes
    /// blocks come one at a time.
    given: Mutex<u64>,
    /// With this many numbers or fewer left, the waker is called.
    low: AtomicU64,
    /// How many numbers the largest claim lacked since the last call of [`Self::take_missing`].
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

    /// Claims at least one number and at most so many: what is in hand above the mark at which the next
    /// block is reserved, or half of it, so that other claims need not wait.
    pub fn claim_up_to(&self, most: u64) -> Result<Numbers, Denied> {
        let left = self.left();
        let spare = left.saturating_sub(self.low.load(Ordering::Acquire)).max(left / 2);
        // Others may have taken some meanwhile.
        match self.claim(spare.clamp(1, most)) {
            Err(Denied::Short { .. }) if spare > 1 => self.claim(1),
            claimed => claimed,
        }
    }

    /// Claims one number if a block has one. `seen` is where this caller last saw the cursor; the
    /// cursor is read only if it has moved since.
    #[inline]
    pub fn claim_one(&self, seen: &mut u64) -> Option<Id> {
        let Some(index) = self.take_quickly(*seen, 1) else {
            return self.claim_from_chain(1).ok()?.next();
        };
        *seen = index + 1;
        Some(Id::from_composed(self.progression.number(index)))
    }

    /// Claims `count` indexes if they end at or below the quick limit, and returns the first. `next`
    /// is where the cursor was seen.
    #[inline]
    fn take_quickly(&self, mut next: u64, count: u64) -> Option<u64> {
        loop {
            let quick = self.quick.load(Ordering::Acquire);
            // CLOSED is above every limit.
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
            // Loaded after the cursor: a later chain still has everything from there on.
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
            if planted(Bug::QuickLimitAhead) {
                self.quick.fetch_max(chain.remaining(end).block_end, Ordering::AcqRel);
            }
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
            // Not before the cursor has reached that block.
            self.quick.fetch_max(quick, Ordering::AcqRel);
            return Ok(Numbers::new(self.progression, taken.first, taken.rest));
        }
    }

    /// Adds a block that the store reserved for this process. The waker is called when `low` numbers
    /// or fewer are left.
    pub fn add(&self, block: &Block, low: u64) -> Result<(), WentBack> {
        let mut given = self.given.lock().unwrap_or_else(PoisonError::into_inner);
        let next = self.next.load(Ordering::Acquire);
        if next == CLOSED {
            // A sealed cursor hands out nothing, so the block is lost.
            return Ok(());
        }
        let chain = self.chain.load_full().unwrap_or_default();
        let chain = chain.with(block, self.progression, next)?;
        *given += self.progression.index_at(block.end) - self.progression.index_at(block.first);
        self.low.store(low, Ordering::Release);
        self.chain.swap(Some(Arc::new(chain)));
        Ok(())
    }

    /// Gives up the numbers that are left: in another epoch of the store, other processes may have
    /// reserved them again.
    pub fn give_up(&self) {
        let mut given = self.given.lock().unwrap_or_else(PoisonError::into_inner);
        let chain = self.chain.load_full().unwrap_or_default();
        // A closed cursor is above every block.
        let next = self.next.fetch_max(chain.end(), Ordering::AcqRel);
        if next != CLOSED {
            *given -= chain.remaining(next).count;
        }
    }

    /// The number of numbers that were ever handed out.
    pub fn handed_out(&self) -> u64 {
        let given = self.given.lock().unwrap_or_else(PoisonError::into_inner);
        given.saturating_sub(self.left())
    }

    /// The number of numbers that are left.
    pub fn left(&self) -> u64 {
        let next = self.next.load(Ordering::Acquire);
        if next == CLOSED {
            return 0;
        }
        self.chain.load().as_ref().map_or(0, |chain| chain.remaining(next).count)
    }

    /// Returns the last of the next `count` numbers, if so many are left. Other claims may take them
    /// first.
    pub fn last_of_next(&self, count: u64) -> Option<u64> {
        // A closed cursor is above every block.
        let next = self.next.load(Ordering::Acquire);
        let taken = self.chain.load().as_ref()?.take(next, count).ok()?;
        Some(self.progression.number(taken.end() - 1))
    }

    /// Returns how many numbers the largest claim lacked since the last call; 0 if none did.
    pub fn take_missing(&self) -> u64 {
        self.missing.swap(0, Ordering::AcqRel)
    }

    /// Whether another block is due.
    pub fn needs_more(&self) -> bool {
        self.missing.load(Ordering::Acquire) > 0 || self.left() < self.low.load(Ordering::Acquire)
    }

    /// Calls the waker.
    pub fn wake(&self) {
        self.waker.wake_by_ref();
    }

    /// Closes the cursor for good. Returns what the last reservation has left, and how many numbers
    /// of earlier ones are lost because other processes reserved in between.
    pub fn seal(&self) -> (Option<GiveBack>, u64) {
        let next = if planted(Bug::GivenBackUnsealed) {
            self.next.load(Ordering::Acquire)
        } else {
            self.next.swap(CLOSED, Ordering::AcqRel)
        };
        let mut given = self.given.lock().unwrap_or_else(PoisonError::into_inner);
        let chain = self.chain.swap(None).unwrap_or_default();
        if next == CLOSED {
            return (None, 0);
        }
        let unused = chain.unused_end(if planted(Bug::GivenBackWhole) { 0 } else { next });
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
