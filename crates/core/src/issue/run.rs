//! The IDs of a claim: consecutive positions, composed when the caller asks for them.

use crate::{id::Id, layout::Composer};

/// IDs of consecutive positions, in ascending order.
#[derive(Clone, Debug)]
pub struct Run {
    composer: Composer,
    next: u64,
    end: u64,
    /// The ID at `next`, while `left_in_tick` is not 0.
    id: u64,
    /// The number of positions that the tick of `next` has left; 0 where a tick begins and before
    /// the first ID.
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

/// The same range in each of one or more ticks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RepeatedRange {
    /// The range in the first tick.
    pub range: IdRange,
    /// The number of ticks.
    pub repeat: u64,
    /// The difference between an ID and the ID at the same place of the next tick.
    pub stride: u64,
}

impl RepeatedRange {
    /// Returns the last ID of the last tick.
    pub const fn last(&self) -> Id {
        Id::from_composed(self.range.last.get() + (self.repeat - 1) * self.stride)
    }
}

impl From<IdRange> for RepeatedRange {
    fn from(range: IdRange) -> Self {
        Self { range, repeat: 1, stride: 0 }
    }
}

impl Run {
    #[doc(hidden)]
    pub const fn new(composer: Composer, first: u64, end: u64) -> Self {
        Self { composer, next: first, end, id: 0, left_in_tick: 0 }
    }

    /// Returns the IDs as evenly spaced ranges, one for each tick.
    pub fn ranges(mut self) -> impl Iterator<Item = IdRange> {
        std::iter::from_fn(move || self.next_range(u64::MAX))
    }

    /// Takes the remaining IDs of the next ID's tick, at most `at_most` of them.
    #[doc(hidden)]
    pub fn next_range(&mut self, at_most: u64) -> Option<IdRange> {
        if self.next == self.end {
            return None;
        }
        let left = self.composer.left_in_tick(self.next).min(self.end - self.next);
        let count = left.min(at_most);
        let first = self.composer.compose(self.next);
        let last = self.composer.compose(self.next + count - 1);
        self.next += count;
        self.left_in_tick = 0;
        Some(IdRange { first, last, step: self.composer.step(), count })
    }

    /// Takes the remaining IDs of the next ID's tick. If they are the whole tick, takes the whole
    /// ticks that follow, too, as far as the same difference separates them.
    #[doc(hidden)]
    pub fn next_repeated(&mut self) -> Option<RepeatedRange> {
        let whole = self.composer.left_in_tick(0);
        let before_wrap = self.composer.ticks_before_wrap(self.next);
        let range = self.next_range(u64::MAX)?;
        let mut repeated = RepeatedRange { stride: self.composer.stride(), ..range.into() };
        if range.count == whole {
            let more = ((self.end - self.next) / whole).min(before_wrap);
            self.next += more * whole;
            repeated.repeat += more;
        }
        Some(repeated)
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        layout::{LayoutSpec, TimeUnit},
        preset::Preset,
    };

    /// Ten positions in a tick, whose IDs are 4 apart.
    fn run(first: u64, end: u64) -> Run {
        let spec = LayoutSpec {
            reserved_bits: 2,
            reserved_value: 1,
            max_sequence: Some(9),
            ..LayoutSpec::for_unit(TimeUnit::Millisecond)
        };
        let composer = spec.build().expect("valid").composer(7, 1).expect("fits");
        Run::new(composer, first, end)
    }

    #[test]
    fn ranges_have_the_same_ids_as_the_run() {
        for (first, end, counts) in [
            (0, 1, vec![1]),
            (3, 10, vec![7]),
            (10, 20, vec![10]),
            (7, 35, vec![3, 10, 10, 5]),
            (5, 5, vec![]),
        ] {
            let ranges: Vec<IdRange> = run(first, end).ranges().collect();
            assert_eq!(ranges.iter().map(|range| range.count).collect::<Vec<_>>(), counts);
            let mut ids = Vec::new();
            for range in &ranges {
                assert_eq!(range.step, 4);
                let of_range = |index| range.first.get() + index * range.step;
                assert_eq!(of_range(range.count - 1), range.last.get());
                ids.extend((0..range.count).map(of_range));
            }
            let run: Vec<u64> = run(first, end).map(Id::get).collect();
            assert_eq!(ids, run);
        }
    }

    #[test]
    fn whole_ticks_are_one_repeated_range() {
        for (first, end, counts) in [
            (0, 1, vec![(1, 1)]),
            (3, 10, vec![(7, 1)]),
            (10, 40, vec![(10, 3)]),
            (7, 45, vec![(3, 1), (10, 3), (5, 1)]),
            (5, 5, vec![]),
        ] {
            let mut left = run(first, end);
            let ranges: Vec<_> = std::iter::from_fn(|| left.next_repeated()).collect();
            let found = ranges.iter().map(|it| (it.range.count, it.repeat)).collect::<Vec<_>>();
            assert_eq!(found, counts);
            let mut ids = Vec::new();
            for it in &ranges {
                let of_tick = |tick| {
                    (0..it.range.count)
                        .map(move |index| tick * it.stride + it.range.first.get() + index * 4)
                };
                ids.extend((0..it.repeat).flat_map(of_tick));
                assert_eq!(ids.last(), Some(&it.last().get()));
            }
            assert_eq!(ids, run(first, end).map(Id::get).collect::<Vec<_>>());
        }
    }

    /// IDs begin again where the timestamp wraps, so no stride leads there.
    #[test]
    fn repeated_range_ends_before_the_timestamp_wraps() {
        let layout = Preset::WestidQr.layout();
        let composer = layout.composer(7, 0).expect("fits");
        let wraps_at = layout.first_position(1 << layout.widths().timestamp);
        let per_tick = layout.positions_per_tick();
        let mut run = Run::new(composer, wraps_at - 2 * per_tick, wraps_at + 3 * per_tick);
        let [before, after] = [(); 2].map(|()| run.next_repeated().expect("IDs"));
        assert_eq!((before.repeat, after.repeat, run.len()), (2, 3, 0));
        assert!(after.range.first < before.range.first, "the timestamp begins again at 0");
    }

    #[test]
    fn run_tells_how_many_ids_are_left() {
        let mut run = run(7, 35);
        for left in (0..28).rev() {
            assert!(run.next().is_some());
            assert_eq!((run.len(), run.size_hint()), (left, (left, Some(left))));
        }
        assert_eq!((run.next(), run.next()), (None, None));
    }

    #[test]
    fn ids_go_on_after_a_range_was_taken() {
        let mut run = run(7, 35);
        run.next().expect("an ID");
        let range = run.next_range(u64::MAX).expect("a range");
        assert_eq!(range.count, 2);
        assert!(run.next().is_some_and(|id| id.get() > range.last.get() + range.step));
        assert_eq!(run.len(), 24);
    }
}
