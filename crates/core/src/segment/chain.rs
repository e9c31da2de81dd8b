//! The reserved blocks of one code, in ascending order.
//!
//! A chain is a value that never changes: each reservation makes a new one, which the cursor swaps
//! in. The chain counts in *indexes* of the code's [`Progression`], so that neighbours differ by 1
//! with any increment. The last block stays in the chain even when it is used up, because a later
//! block below its end shows that the store was rolled back.

use std::ops::Range;

use super::spec::{Block, Progression};
use crate::lease::Token;

/// Blocks in ascending order, by index (see [`Progression`]). Adjacent reservations are merged,
/// unless they are adjacent by index only: numbers between them may belong to a process with
/// another progression.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Chain(Vec<Link>);

/// One or more adjacent reservations.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Link {
    indexes: Range<u64>,
    /// One past the last reserved number, which may lie outside the progression.
    end: u64,
    /// The token that the last reservation wrote.
    token: Token,
}

/// A reservation below numbers that this process reserved before: the store lost acknowledged
/// reservations, because it failed over or was rolled back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the store went back in time: it reserved from {first}, below {held} of an earlier block")]
pub struct WentBack {
    /// The first number of the reservation.
    pub first: u64,
    /// One past the highest number that this process reserved before.
    pub held: u64,
}

/// The indexes that a claim takes from a chain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClaimedIndexes {
    /// The indexes from the first block.
    pub first: Range<u64>,
    /// The indexes from further blocks, in order.
    pub rest: Vec<Range<u64>>,
}

impl ClaimedIndexes {
    /// Returns one past the last index.
    pub fn end(&self) -> u64 {
        self.rest.last().map_or(self.first.end, |part| part.end)
    }
}

/// The indexes that a chain has left from some index on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Remaining {
    /// The number of indexes in all blocks.
    pub count: u64,
    /// The end of the block that contains the index or ends there.
    pub block_end: u64,
}

/// The unused end of the last block, which can be returned to the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnusedEnd {
    /// The first index.
    pub from: u64,
    /// One past the last.
    pub end: u64,
    /// The token that the last reservation wrote.
    pub token: Token,
}

impl Chain {
    /// Returns a chain with this block added and without the blocks that end at or below `next`.
    ///
    /// # Errors
    ///
    /// When the block begins below a number that this process reserved before.
    pub fn with(
        &self,
        block: &Block,
        progression: Progression,
        next: u64,
    ) -> Result<Self, WentBack> {
        let (first, end) = (progression.index_at(block.first), progression.index_at(block.end));
        let held = self.0.last().map_or(0, |link| link.end);
        if block.first < held {
            return Err(WentBack { first: block.first, held });
        }
        // Keep the last block even if it is used up: its end is the highest number so far.
        let used_up = self.0.iter().take_while(|link| link.indexes.end <= next).count();
        let kept = used_up.min(self.0.len().saturating_sub(1));
        let mut links = self.0[kept..].to_vec();
        match links.last_mut() {
            Some(last) if last.end == block.first => {
                last.indexes.end = end;
                (last.end, last.token) = (block.end, block.token);
            }
            _ => links.push(Link { indexes: first..end, end: block.end, token: block.token }),
        }
        Ok(Self(links))
    }

    /// Returns one past the last index; 0 without a block.
    pub fn end(&self) -> u64 {
        self.0.last().map_or(0, |link| link.indexes.end)
    }

    /// Returns the next `count` indexes from `next` on. The chain stays unchanged.
    ///
    /// # Errors
    ///
    /// The number of indexes that the chain lacks.
    pub fn take(&self, next: u64, count: u64) -> Result<ClaimedIndexes, u64> {
        let mut missing = count;
        let mut parts = self.ahead(next).map_while(|range| {
            let end = range.end.min(range.start + missing);
            missing -= end - range.start;
            (end > range.start).then_some(range.start..end)
        });
        let first = parts.next();
        let rest = parts.collect();
        match first {
            Some(first) if missing == 0 => Ok(ClaimedIndexes { first, rest }),
            _ => Err(missing),
        }
    }

    /// Returns how many indexes the chain has from `next` on.
    pub fn remaining(&self, next: u64) -> Remaining {
        let reached = self.0.iter().rfind(|link| link.indexes.start <= next);
        Remaining {
            count: self.ahead(next).map(|range| range.end - range.start).sum(),
            block_end: reached.map_or(next, |link| link.indexes.end.max(next)),
        }
    }

    /// Returns the indexes of the last block from `next` on, or `None` if it has none. The store
    /// accepts their return only if no other process has reserved since.
    pub fn unused_end(&self, next: u64) -> Option<UnusedEnd> {
        let last = self.0.last()?;
        let from = last.indexes.start.max(next);
        let unused = UnusedEnd { from, end: last.indexes.end, token: last.token };
        Some(unused).filter(|unused| unused.from < unused.end)
    }

    /// Returns the indexes from `next` on, block by block.
    fn ahead(&self, next: u64) -> impl Iterator<Item = Range<u64>> {
        self.0
            .iter()
            .filter(move |link| link.indexes.end > next)
            .map(move |link| link.indexes.start.max(next)..link.indexes.end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::segment::SegmentSpec;

    fn block(first: u64, end: u64) -> Block {
        Block { first, end, token: Token::from_bits(u128::from(end)) }
    }

    fn chain(blocks: &[(u64, u64)]) -> Chain {
        blocks.iter().fold(Chain::default(), |chain, (first, end)| {
            chain.with(&block(*first, *end), Progression::ALL, 0).expect("ascending")
        })
    }

    #[test]
    fn adjacent_blocks_are_merged() {
        let merged = chain(&[(1, 10), (10, 20), (30, 40)]);
        assert_eq!(merged.0.len(), 2);
        assert_eq!(merged.take(5, 10), Ok(ClaimedIndexes { first: 5..15, rest: vec![] }));
        let across = merged.take(15, 8).expect("enough");
        assert_eq!(
            across,
            ClaimedIndexes { first: 15..20, rest: std::iter::once(30..33).collect() }
        );
        assert_eq!(across.end(), 33);
        assert_eq!(merged.take(20, 1).expect("enough").first, 30..31);
        assert_eq!(merged.take(35, 6), Err(1));
        assert_eq!(merged.take(40, 3), Err(3));
        assert_eq!(Chain::default().take(0, 3), Err(3));
    }

    #[test]
    fn remaining_counts_every_block_and_ends_at_the_one_reached() {
        let chain = chain(&[(1, 10), (30, 40)]);
        assert_eq!(chain.remaining(5), Remaining { count: 15, block_end: 10 });
        assert_eq!(chain.remaining(10), Remaining { count: 10, block_end: 10 });
        assert_eq!(chain.remaining(30), Remaining { count: 10, block_end: 40 });
        assert_eq!(chain.remaining(0), Remaining { count: 19, block_end: 0 });
        assert_eq!(Chain::default().remaining(7), Remaining { count: 0, block_end: 7 });
    }

    #[test]
    fn only_the_end_of_the_last_block_can_be_given_back() {
        let chain = chain(&[(1, 10), (30, 40)]);
        let token = Token::from_bits(40);
        assert_eq!(chain.unused_end(5), Some(UnusedEnd { from: 30, end: 40, token }));
        assert_eq!(chain.unused_end(33), Some(UnusedEnd { from: 33, end: 40, token }));
        assert_eq!(chain.unused_end(40), None);
    }

    #[test]
    fn block_below_an_earlier_one_is_refused() {
        let held = chain(&[(1, 10)]);
        let all = Progression::ALL;
        assert_eq!(held.with(&block(9, 20), all, 0), Err(WentBack { first: 9, held: 10 }));
        let used_up = held.with(&block(30, 40), all, 10).expect("ahead");
        let used_up = used_up.with(&block(50, 60), all, 40).expect("ahead");
        assert_eq!(used_up.0.len(), 2);
        assert_eq!(used_up.with(&block(59, 70), all, 60), Err(WentBack { first: 59, held: 60 }));
    }

    /// A process that counts by ones reserved between two blocks that are adjacent by index.
    #[test]
    fn blocks_with_numbers_of_others_between_them_are_not_merged() {
        let tens = SegmentSpec { increment: 10, ..SegmentSpec::default() }.progression();
        let chain = Chain::default();
        let chain = chain.with(&block(5, 25), tens, 0).expect("the first");
        let chain = chain.with(&block(29, 49), tens, 2).expect("ahead");
        assert_eq!(chain.take(1, 4).expect("10, 20, 30, 40").end(), 5);
        let unused = chain.unused_end(2).expect("30 and 40");
        assert_eq!((tens.number(unused.from), unused.token), (30, Token::from_bits(49)));
        // A block without a number of this progression has nothing to return.
        let chain = chain.with(&block(51, 55), tens, 2).expect("ahead");
        assert_eq!(chain.unused_end(2), None);
    }
}
