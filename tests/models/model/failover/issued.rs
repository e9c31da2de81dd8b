//! The positions that were issued, and those that leases may still issue.

use raindrop_core::lease::Lease;

/// The positions that ended leases may have issued, by lane. A lease that continues may issue every
/// position in it at any time, so the model has no step for that.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Issued {
    lanes: [u64; 2],
    twice: bool,
}

impl Issued {
    /// Adds the positions that a lease issued until it ended at `end`.
    pub(super) fn add(&mut self, lease: &Lease, end: u64) {
        let range = bits(lease.start, end);
        self.twice |= self.lanes[lease.lane] & range != 0;
        self.lanes[lease.lane] |= range;
    }

    /// Returns whether a position was issued twice, or will be once each of these leases issues all
    /// that it has.
    pub(super) fn any_twice<'a>(&self, leases: impl Iterator<Item = &'a Lease>) -> bool {
        let mut all = *self;
        for lease in leases {
            all.add(lease, lease.limit);
        }
        all.twice
    }
}

/// Returns a bit for each position of a range.
const fn bits(start: u64, end: u64) -> u64 {
    assert!(end < 64, "few positions");
    let below_end = (1 << end) - 1;
    let below_start = (1 << start) - 1;
    below_end & !below_start
}
