//! What a write of a held row carries, and what its confirmation means.

use super::{LimitRequest, Marks, Token, limit_for};
use crate::core::{
    layout::Layout,
    planted::{Bug, planted},
};

/// What a write was for, kept until its outcome is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Purpose {
    /// A lease on a row that was free, or on another lane of our own.
    Lease(Lease),
    /// The limit of the lease rises.
    Renew {
        /// Where it ends once the write is confirmed.
        limit: u64,
    },
    /// The row is given back.
    Release,
}

/// A lane of a row, from a position up to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Lease {
    /// The lane.
    pub lane: usize,
    /// The first position, which is the mark that the swap replaces.
    pub start: u64,
    /// One past the last position, which is the mark that the swap sets.
    pub limit: u64,
}

impl Lease {
    /// A new lease on a lane, from the mark that came with the token which its swap names.
    pub fn from_mark(
        layout: &Layout,
        marks: &Marks,
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

/// The lanes of a row that is ours: the one that we issue on, and the one that we left, whose
/// true mark goes with the next write.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct HeldLanes {
    present: usize,
    /// The lane that was left, and where the next lease of it may begin.
    left: Option<(usize, u64)>,
}

impl HeldLanes {
    /// A row of which nothing but this lane was used.
    pub const fn on(lane: usize) -> Self {
        Self { present: lane, left: None }
    }

    /// The lane that we issue on.
    pub const fn present(&self) -> usize {
        self.present
    }

    /// Whether the true mark of a lane that was left is still to be written.
    pub const fn has_left_one(&self) -> bool {
        self.left.is_some()
    }

    /// The marks that a write carries which sets the mark of `lane`.
    #[must_use]
    pub fn marks_with(&self, known: &Marks, lane: usize, mark: u64) -> Marks {
        match self.left {
            Some((left, true_mark)) => known.with(left, true_mark),
            None => known.clone(),
        }
        .with(lane, mark)
    }

    /// A write with these marks took place. Only what it carried is done with: a lane that was
    /// left since comes with the next write.
    pub fn confirmed(&mut self, marks: &Marks) {
        self.left = self.left.filter(|(lane, mark)| marks[*lane] != *mark);
    }

    /// Another lane was leased, and the grant of the one before is sealed at this mark.
    pub const fn moved_to(&mut self, lane: usize, sealed_mark: u64) {
        self.left = Some((self.present, sealed_mark));
        self.present = lane;
    }
}

/// The token of the next write: fresh, and never derived from the one before, because two
/// processes would derive the same.
pub fn next_token(before: Token, fresh: impl FnOnce() -> Token) -> Token {
    if planted(Bug::TokenDerived) { before.successor() } else { fresh() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_true_mark_of_a_lane_that_was_left_goes_with_the_next_write_only() {
        let marks: Marks = "90,7".parse().expect("marks");
        let mut lanes = HeldLanes::on(0);
        assert_eq!(lanes.marks_with(&marks, 1, 80).to_string(), "90,80");
        lanes.moved_to(1, 40);
        assert_eq!((lanes.present(), lanes.has_left_one()), (1, true));
        // The confirmation of a write that did not carry it.
        lanes.confirmed(&marks.with(1, 80));
        assert!(lanes.has_left_one());
        let carried = lanes.marks_with(&marks, 1, 95);
        assert_eq!(carried.to_string(), "40,95");
        lanes.confirmed(&carried);
        assert!(!lanes.has_left_one());
    }
}
