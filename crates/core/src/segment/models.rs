//! Claims of one code under loom: against each other, against a block that is added, and against
//! the seal.

use std::{sync::Arc, task::Waker};

use loom::thread;

use super::{
    Block, Progression,
    cursor::{GiveBack, SegmentCursor},
};
use crate::{
    explore::{explore, must_fail},
    lease::Token,
    planted::Bug,
};

/// Blocks between which other processes reserved.
const BLOCKS: [(u64, u64); 2] = [(1, 4), (10, 13)];

fn cursor(blocks: &[(u64, u64)]) -> Arc<SegmentCursor> {
    let cursor = SegmentCursor::new(Progression::ALL, Waker::noop().clone());
    for (first, end) in blocks {
        cursor.add(&block(*first, *end), 0).expect("ascending");
    }
    Arc::new(cursor)
}

fn block(first: u64, end: u64) -> Block {
    Block { first, end, token: Token::from_bits(u128::from(end)) }
}

/// Claims as one handle does: single numbers from where it last saw the cursor.
fn claims(cursor: &SegmentCursor, counts: &[u64]) -> Vec<u64> {
    let mut seen = 0;
    let claim = |count: &u64| -> Vec<u64> {
        if *count == 1 {
            return cursor.claim_one(&mut seen).map(|id| id.get()).into_iter().collect();
        }
        let numbers = cursor.claim(*count).map(|numbers| numbers.map(|id| id.get()).collect());
        numbers.unwrap_or_default()
    };
    counts.iter().flat_map(claim).collect()
}

fn check(mut claims: Vec<Vec<u64>>) {
    for claimed in &claims {
        assert!(claimed.is_sorted(), "{claimed:?} does not increase");
    }
    let mut numbers: Vec<u64> = claims.drain(..).flatten().collect();
    numbers.sort_unstable();
    assert!(numbers.windows(2).all(|pair| pair[0] < pair[1]), "one came twice: {numbers:?}");
    let ours = |number: &u64| BLOCKS.iter().any(|(first, end)| (first..end).contains(&number));
    assert!(numbers.iter().all(ours), "one is not ours: {numbers:?}");
}

fn claims_across_blocks() {
    let cursor = cursor(&BLOCKS);
    // The quick limit now ends at the first block's end.
    let first = claims(&cursor, &[1]);
    let spawn = |counts: &'static [u64]| {
        let cursor = Arc::clone(&cursor);
        thread::spawn(move || claims(&cursor, counts))
    };
    let (one, other) = (spawn(&[2, 1]), spawn(&[1, 1]));
    check(vec![first, one.join().expect("no panic"), other.join().expect("no panic")]);
}

fn claims_and_a_block_that_is_added() {
    let cursor = cursor(&BLOCKS[..1]);
    let other = {
        let cursor = Arc::clone(&cursor);
        thread::spawn(move || claims(&cursor, &[2, 2]))
    };
    let (first, end) = BLOCKS[1];
    cursor.add(&block(first, end), 0).expect("ahead");
    let here = claims(&cursor, &[1]);
    assert_eq!(here.len(), 1, "there is enough for all");
    check(vec![here, other.join().expect("no panic")]);
}

/// A thread that sees that the cursor has reached a block also sees the block.
fn a_claim_behind_others_in_a_block_that_is_added() {
    let cursor = cursor(&BLOCKS[..1]);
    let other = {
        let cursor = Arc::clone(&cursor);
        thread::spawn(move || claims(&cursor, &[1]))
    };
    let (first, end) = BLOCKS[1];
    cursor.add(&block(first, end), 0).expect("ahead");
    let here = claims(&cursor, &[2, 2]);
    let others = other.join().expect("no panic");
    assert_eq!((here.len(), others.len()), (4, 1), "there is enough for all");
    check(vec![here, others]);
}

/// Each thread makes its claims, of these sizes, while the cursor is sealed.
fn claims_and_the_seal(threads: &[&'static [u64]]) {
    let cursor = cursor(&BLOCKS[..1]);
    let spawn = |counts: &&'static [u64]| {
        let (cursor, counts) = (Arc::clone(&cursor), *counts);
        thread::spawn(move || claims(&cursor, counts))
    };
    let threads: Vec<_> = threads.iter().map(spawn).collect();
    let (give_back, lost) = cursor.seal();
    assert_eq!(lost, 0);
    let from = give_back.map_or(u64::MAX, |GiveBack { from, .. }| from);
    for thread in threads {
        let claimed = thread.join().expect("no panic");
        assert!(claimed.iter().all(|number| *number < from), "{claimed:?} from {from} given back");
    }
}

fn two_claims_and_the_seal() {
    claims_and_the_seal(&[&[1], &[2]]);
}

/// The handle's second claim starts from where its first one left the cursor.
fn a_handle_and_the_seal() {
    claims_and_the_seal(&[&[1, 1]]);
}

#[test]
fn every_number_is_handed_out_once() {
    explore(None, "claims across blocks", claims_across_blocks);
    explore(None, "claims and a block", claims_and_a_block_that_is_added);
    explore(None, "a claim behind others", a_claim_behind_others_in_a_block_that_is_added);
}

#[test]
fn nothing_that_is_given_back_is_handed_out() {
    explore(None, "two claims and the seal of a segment", two_claims_and_the_seal);
    explore(None, "a handle and the seal of a segment", a_handle_and_the_seal);
}

#[test]
fn a_quick_limit_ahead_of_the_cursor_is_found() {
    must_fail(None, Bug::QuickLimitAhead, "not ours", claims_across_blocks);
}

#[test]
fn giving_back_unsealed_is_found() {
    must_fail(None, Bug::GivenBackUnsealed, "given back", two_claims_and_the_seal);
    must_fail(None, Bug::GivenBackUnsealed, "given back", a_handle_and_the_seal);
}
