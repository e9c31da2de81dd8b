//! What the write of a held row carries, and what its acknowledgement means.

use super::{HighWaterMarks, LimitRequest, Token, limit_for};
use crate::{
    layout::Layout,
    planted::{Bug, planted},
};

/// What a write is for, kept until its outcome is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Purpose {
    /// A new lease: on a row that was free, or on another lane of a held row.
    Lease(Lease),
    /// A lease that begins anew on a held row, because its epoch ended.
    NewEpoch(Lease),
    /// A renewal, which raises the limit of the lease.
    Renew {
        /// The limit once the write is acknowledged.
        limit: u64,
    },
    /// A release of the row.
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
    /// Makes a new lease that starts at the mark of a lane. The marks must have been read with the
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

/// The lanes of a held row: the one that the process issues on, and the one that it left, whose
/// lowered mark goes with the next write.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct HeldLanes {
    present: usize,
    /// The lane that was left, and its lowered mark, where the next lease of it may begin.
    left: Option<(usize, u64)>,
}

impl HeldLanes {
    /// Starts on a row of which only this lane was used.
    pub const fn on(lane: usize) -> Self {
        Self { present: lane, left: None }
    }

    /// The lane that the process issues on.
    pub const fn present(&self) -> usize {
        self.present
    }

    /// Whether the lowered mark of a lane that was left is still to be written.
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

    /// Records that a write with these marks was acknowledged. A lane that was left after the write
    /// was sent goes with the next one.
    pub fn confirmed(&mut self, marks: &HighWaterMarks) {
        self.left = self.left.filter(|(lane, mark)| marks[*lane] != *mark);
    }

    /// Records that another lane was leased, and that the grant of the one before was sealed at
    /// this mark.
    pub const fn moved_to(&mut self, lane: usize, sealed_mark: u64) {
        self.left = Some((self.present, sealed_mark));
        self.present = lane;
    }
}

/// Returns the token of the next write: a fresh one, never derived from the one before, because two
/// processes would derive the same.
pub fn next_token(before: Token, fresh: impl FnOnce() -> Token) -> Token {
    if planted(Bug::TokenDerived) {
        return Token::from_bits(before.bits().wrapping_add(1));
    }
    fresh()
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
        assert_eq!((lanes.present(), lanes.has_lowered_mark()), (1, true));
        // The confirmation of a write that did not carry it.
        lanes.confirmed(&marks.with(1, 80));
        assert!(lanes.has_lowered_mark());
        let carried = lanes.marks_with(&marks, 1, 95);
        assert_eq!(carried.to_string(), "40,95");
        lanes.confirmed(&carried);
        assert!(!lanes.has_lowered_mark());
    }
}
