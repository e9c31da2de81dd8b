//! A lease in the memory of a process, without its concurrency: the models of issuing cover that,
//! with the real grant.

use raindrop_core::{
    lease::Lease,
    planted::{Bug, planted},
};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Grant {
    pub(crate) row: usize,
    pub(crate) lane: usize,
    pub(crate) start: u64,
    pub(crate) limit: u64,
    /// The mark that the store acknowledged; the limit is lower while a state file bounds it.
    pub(crate) acknowledged: u64,
    /// The next position of each code.
    next: [u64; 2],
    pub(crate) sealed: bool,
}

impl Grant {
    pub(crate) const fn new(row: usize, lease: Lease) -> Self {
        let Lease { lane, start, limit } = lease;
        Self { row, lane, start, limit, acknowledged: limit, next: [start; 2], sealed: false }
    }

    /// Makes a grant whose limit a state file bounds.
    pub(crate) const fn bounded(row: usize, lease: Lease) -> Self {
        Self { limit: lease.start, ..Self::new(row, lease) }
    }

    pub(crate) fn highest_next(&self) -> u64 {
        self.next[0].max(self.next[1])
    }

    /// Returns whether the limit would refuse a claim.
    pub(crate) fn is_used_up(&self) -> bool {
        self.highest_next() >= self.limit
    }

    /// Claims one position at or after `present`.
    pub(crate) fn claim(&mut self, code: usize, present: u64) -> Option<u64> {
        let position = self.next[code].max(present);
        if self.sealed || (position >= self.limit && !planted(Bug::LimitIgnored)) {
            return None;
        }
        self.next[code] = position + 1;
        Some(position)
    }

    /// Closes the grant and returns where the next lease of the lane may begin.
    pub(crate) fn seal(&mut self) -> u64 {
        self.sealed = !planted(Bug::LoweredUnsealed);
        let highest = self.highest_next();
        if highest == self.start && planted(Bug::LoweredBelowStart) {
            return 0;
        }
        highest.saturating_sub(u64::from(planted(Bug::LoweredToLastClaimed)))
    }

    /// Raises the limit, as a renewal does.
    pub(crate) fn raise_limit(&mut self, limit: u64) {
        self.acknowledged = self.acknowledged.max(limit);
        self.limit = self.acknowledged;
    }

    /// Forgets all claims: under a planted bug, a renewal starts every code again.
    pub(crate) const fn forget_claims(&mut self) {
        self.next = [self.start; 2];
    }
}
