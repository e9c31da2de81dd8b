//! The purpose of a write of a held row, and the marks that the write carries.
//!
//! A process keeps the [`Purpose`] of a write until it knows the outcome, because the purpose says
//! what the acknowledgement means. After the process leaves a lane, [`HeldLanes`] adds the lane's
//! lowered mark to each write, whatever its purpose, until the store acknowledges one that has it.
//! Tests are at the end of this file.

use super::{HighWaterMarks, LimitRequest, Token, limit_for, planted};
use crate::layout::Layout;

/// The purpose of a write, kept until its outcome is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Purpose {
    /// Takes a new lease: on a row that was free, or on another lane of a held row.
    Lease(Lease),
    /// Leases a held row again, because its epoch ended.
    NewEpoch(Lease),
    /// Renews the lease, which raises its limit.
    Renew {
        /// The limit once the write is acknowledged.
        limit: u64,
    },
    /// Releases the row.
    Release,
}

/// The range of a lease on a lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Lease {
    /// The lane.
    pub lane: usize,
    /// The first position: the mark that the swap replaces.
    pub start: u64,
    /// One past the last position: the mark that the swap sets.
    pub limit: u64,
}

impl Lease {
    /// Creates a lease that starts at the mark of a lane. The marks must have been read with the
    /// token that the swap names.
    pub fn from_mark(
        layout: &Layout,
        marks: &HighWaterMarks,
        lane: usize,
        now_ms: i64,
        reach_ms: i64,
    ) -> Self {
        let start = marks[lane];
        let request = LimitRequest {
            old_limit: start,
            start,
            highest_next: start,
            refused: 0,
            now_ms,
            reach_ms,
        };
        Self { lane, start, limit: limit_for(layout, &request) }
    }
}

/// The lanes of a held row: the one that the process issues on, and the one that it left. The
/// lowered mark of that one is written with the next write of the row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct HeldLanes {
    in_use: usize,
    /// The lane that was left, and its lowered mark, at which its next lease may start.
    left: Option<(usize, u64)>,
}

impl HeldLanes {
    /// Starts with a row of which only this lane was used.
    pub const fn on(lane: usize) -> Self {
        Self { in_use: lane, left: None }
    }

    /// Returns the lane that the process issues on.
    pub const fn in_use(&self) -> usize {
        self.in_use
    }

    /// Returns whether the lowered mark of a left lane is still to be written.
    pub const fn has_lowered_mark(&self) -> bool {
        self.left.is_some()
    }

    /// Returns the marks of a write that sets the mark of `lane`.
    #[must_use]
    pub fn marks_with(&self, known: &HighWaterMarks, lane: usize, mark: u64) -> HighWaterMarks {
        match self.left {
            Some((left, lowered_mark)) => known.with(left, lowered_mark),
            None => known.clone(),
        }
        .with(lane, mark)
    }

    /// Records that a write with these marks was acknowledged. If a lane was left after that write
    /// was sent, its lowered mark stays for the next one.
    pub fn confirmed(&mut self, marks: &HighWaterMarks) {
        self.left = self.left.filter(|(lane, mark)| marks[*lane] != *mark);
    }

    /// Records that another lane was leased, and that the grant on the lane before was sealed at
    /// this mark.
    pub const fn moved_to(&mut self, lane: usize, sealed_mark: u64) {
        self.left = Some((self.in_use, sealed_mark));
        self.in_use = lane;
    }
}

/// Returns the token of the next write: a fresh one, never derived from `before`. Two processes
/// would derive the same token.
pub fn next_token(before: Token, fresh: impl FnOnce() -> Token) -> Token {
    planted::next_token(fresh(), before)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lowered_mark_of_a_left_lane_goes_with_the_next_write_only() {
        let marks: HighWaterMarks = "90,7".parse().expect("marks");
        let mut lanes = HeldLanes::on(0);
        assert_eq!(lanes.marks_with(&marks, 1, 80).to_string(), "90,80");
        lanes.moved_to(1, 40);
        assert_eq!((lanes.in_use(), lanes.has_lowered_mark()), (1, true));
        // A write that did not carry the lowered mark is confirmed.
        lanes.confirmed(&marks.with(1, 80));
        assert!(lanes.has_lowered_mark());
        let carried = lanes.marks_with(&marks, 1, 95);
        assert_eq!(carried.to_string(), "40,95");
        lanes.confirmed(&carried);
        assert!(!lanes.has_lowered_mark());
    }
}
