//! The numbers of a claim in segment mode.

use std::{ops::Range, vec};

use super::spec::Progression;
use crate::{id::Id, issue::IdRange};

/// Numbers of one code, in ascending order.
#[derive(Clone, Debug)]
pub struct Numbers {
    progression: Progression,
    part: Range<u64>,
    rest: vec::IntoIter<Range<u64>>,
    left: u64,
}

impl Numbers {
    pub(super) fn new(progression: Progression, part: Range<u64>, rest: Vec<Range<u64>>) -> Self {
        let length = |range: &Range<u64>| range.end - range.start;
        let left = length(&part) + rest.iter().map(length).sum::<u64>();
        Self { progression, part, rest: rest.into_iter(), left }
    }

    /// Returns the numbers as evenly spaced ranges, one for each block that they come from.
    pub fn ranges(mut self) -> impl Iterator<Item = IdRange> {
        std::iter::from_fn(move || self.next_range(u64::MAX))
    }

    /// Takes the remaining numbers of the next number's block, at most `at_most` of them.
    #[doc(hidden)]
    pub fn next_range(&mut self, at_most: u64) -> Option<IdRange> {
        while self.part.is_empty() {
            self.part = self.rest.next()?;
        }
        let count = (self.part.end - self.part.start).min(at_most);
        let first = self.part.start;
        self.part.start += count;
        self.left -= count;
        let number = |index| Id::from_composed(self.progression.number(index));
        let (last, step) = (number(first + count - 1), self.progression.increment());
        Some(IdRange { first: number(first), last, step, count })
    }
}

impl Iterator for Numbers {
    type Item = Id;

    fn next(&mut self) -> Option<Id> {
        if self.part.is_empty() {
            self.part = self.rest.next()?;
        }
        let index = self.part.next()?;
        self.left -= 1;
        Some(Id::from_composed(self.progression.number(index)))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let left = usize::try_from(self.left).expect("a claim is at most a u32 long");
        (left, Some(left))
    }
}

impl ExactSizeIterator for Numbers {}
impl std::iter::FusedIterator for Numbers {}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::segment::SegmentSpec;

    #[test]
    fn numbers_continue_from_block_to_block() {
        let numbers = Numbers::new(Progression::ALL, 3..5, vec![9..10, 12..14]);
        assert_eq!(numbers.len(), 5);
        let ranges: Vec<_> =
            numbers.clone().ranges().map(|range| (range.first.get(), range.count)).collect();
        assert_eq!(ranges, [(3, 2), (9, 1), (12, 2)]);
        let numbers: Vec<u64> = numbers.map(Id::get).collect();
        assert_eq!(numbers, [3, 4, 9, 12, 13]);
    }

    #[test]
    fn ranges_have_the_same_numbers() {
        let odd = SegmentSpec { increment: 2, remainder: 1, ..SegmentSpec::default() };
        let numbers = Numbers::new(odd.progression(), 3..5, vec![9..10, 12..14]);
        let ranges = numbers.clone().ranges();
        let of_range = |range: IdRange| {
            assert_eq!(range.first.get() + (range.count - 1) * range.step, range.last.get());
            (0..range.count).map(move |index| range.first.get() + index * range.step)
        };
        let of_ranges: Vec<u64> = ranges.flat_map(of_range).collect();
        assert_eq!(of_ranges, [7, 9, 19, 25, 27]);
        assert_eq!(numbers.map(Id::get).collect::<Vec<_>>(), of_ranges);
    }

    #[test]
    fn numbers_tell_how_many_are_left() {
        let mut numbers = Numbers::new(Progression::ALL, 3..5, vec![9..10, 12..14]);
        for left in (0..5).rev() {
            assert!(numbers.next().is_some());
            assert_eq!((numbers.len(), numbers.size_hint()), (left, (left, Some(left))));
        }
        assert_eq!((numbers.next(), numbers.next()), (None, None));
    }
}
