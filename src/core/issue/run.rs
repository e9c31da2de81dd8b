//! What a claim gives: consecutive positions, composed one by one.

use crate::core::{id::Id, layout::Composer};

/// IDs of consecutive positions, in ascending order.
#[derive(Clone, Debug)]
pub struct Run {
    composer: Composer,
    next: u64,
    end: u64,
}

/// IDs of one tick, evenly spaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IdRange {
    /// The first ID.
    pub first: Id,
    /// The last ID.
    pub last: Id,
    /// The difference between neighbours.
    pub step: u64,
    /// How many there are.
    pub count: u64,
}

impl Run {
    pub(crate) const fn new(composer: Composer, first: u64, end: u64) -> Self {
        Self { composer, next: first, end }
    }

    /// The IDs as evenly spaced ranges, one for each tick.
    pub fn ranges(mut self) -> impl Iterator<Item = IdRange> {
        std::iter::from_fn(move || {
            if self.next == self.end {
                return None;
            }
            let count = self.composer.left_in_tick(self.next).min(self.end - self.next);
            let first = self.composer.compose(self.next);
            let last = self.composer.compose(self.next + count - 1);
            self.next += count;
            Some(IdRange { first, last, step: self.composer.step(), count })
        })
    }
}

impl Iterator for Run {
    type Item = Id;

    fn next(&mut self) -> Option<Id> {
        if self.next == self.end {
            return None;
        }
        let id = self.composer.compose(self.next);
        self.next += 1;
        Some(id)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let left = usize::try_from(self.end - self.next).expect("a claim is at most a u32 long");
        (left, Some(left))
    }
}

impl ExactSizeIterator for Run {}
impl std::iter::FusedIterator for Run {}
