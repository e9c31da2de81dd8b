//! The IDs of a claim: consecutive positions, composed one by one.

use crate::core::{id::Id, layout::Composer};

/// IDs of consecutive positions, in ascending order.
#[derive(Clone, Debug)]
pub struct Run {
    composer: Composer,
    next: u64,
    end: u64,
    /// The ID at `next`, if that has the tick of the ID before.
    id: u64,
    /// The number of IDs left in that tick; 0 before the first ID.
    left_in_tick: u64,
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
    /// The number of IDs.
    pub count: u64,
}

impl Run {
    pub(crate) const fn new(composer: Composer, first: u64, end: u64) -> Self {
        Self { composer, next: first, end, id: 0, left_in_tick: 0 }
    }

    /// Returns the IDs as evenly spaced ranges, one for each tick.
    pub fn ranges(mut self) -> impl Iterator<Item = IdRange> {
        std::iter::from_fn(move || self.next_range())
    }

    /// Takes the remaining IDs of the next ID's tick.
    pub(super) fn next_range(&mut self) -> Option<IdRange> {
        if self.next == self.end {
            return None;
        }
        let count = self.composer.left_in_tick(self.next).min(self.end - self.next);
        let first = self.composer.compose(self.next);
        let last = self.composer.compose(self.next + count - 1);
        self.next += count;
        self.left_in_tick = 0;
        Some(IdRange { first, last, step: self.composer.step(), count })
    }

    fn begin_tick(&mut self) {
        self.id = self.composer.compose(self.next).get();
        self.left_in_tick = self.composer.left_in_tick(self.next);
    }
}

impl Iterator for Run {
    type Item = Id;

    #[inline]
    fn next(&mut self) -> Option<Id> {
        if self.next == self.end {
            return None;
        }
        if self.left_in_tick == 0 {
            self.begin_tick();
        }
        let id = Id::from_composed(self.id);
        self.id += self.composer.step();
        self.left_in_tick -= 1;
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
