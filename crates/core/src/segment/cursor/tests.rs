use std::{sync::atomic::AtomicUsize, task::Wake};

use super::*;

fn block(first: u64, end: u64) -> Block {
    Block { first, end, token: Token::from_bits(u128::from(end)) }
}

fn cursor(blocks: &[(u64, u64)]) -> SegmentCursor {
    let cursor = SegmentCursor::new(Progression::ALL, Waker::noop().clone());
    for (first, end) in blocks {
        cursor.add(&block(*first, *end), 2).expect("ascending");
    }
    cursor
}

fn claim(cursor: &SegmentCursor, count: u64) -> Result<Vec<u64>, Denied> {
    cursor.claim(count).map(|numbers| numbers.map(|id| id.get()).collect())
}

#[test]
fn claims_cross_blocks_and_always_increase() {
    let cursor = cursor(&[(1, 5), (10, 13), (20, 30)]);
    assert_eq!(claim(&cursor, 2), Ok(vec![1, 2]));
    assert_eq!(claim(&cursor, 1), Ok(vec![3]));
    assert_eq!(claim(&cursor, 6), Ok(vec![4, 10, 11, 12, 20, 21]));
    assert_eq!((claim(&cursor, 1), cursor.left()), (Ok(vec![22]), 7));
    assert_eq!(claim(&cursor, 8), Err(Denied::Short { missing: 1 }));
    assert_eq!((cursor.take_missing(), cursor.take_missing()), (1, 0));
    assert_eq!(claim(&cursor, 7), Ok((23..30).collect()));
    assert_eq!(claim(&cursor, 1), Err(Denied::Short { missing: 1 }));
    cursor.add(&block(30, 31), 2).expect("ahead");
    assert_eq!(claim(&cursor, 1), Ok(vec![30]));
}

#[test]
fn claim_of_what_it_can_get_leaves_numbers_for_others() {
    let cursor = cursor(&[(1, 11), (20, 25)]);
    let up_to = |most| cursor.claim_up_to(most).map(|numbers| numbers.len());
    assert_eq!(up_to(4), Ok(4));
    // All but the two at which the next block is reserved, over blocks; then half of what is left.
    assert_eq!(up_to(1000), Ok(9));
    assert_eq!((up_to(1000), up_to(1000)), (Ok(1), Ok(1)));
    assert_eq!(up_to(1000), Err(Denied::Short { missing: 1 }));
}

#[derive(Debug, Default)]
struct WakeCounter(AtomicUsize);

impl Wake for WakeCounter {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

#[test]
fn another_block_is_asked_for_when_few_numbers_are_left() {
    for (count, expected) in [(6, 0), (7, 1), (8, 1)] {
        let wake_ups = Arc::new(WakeCounter::default());
        let cursor = SegmentCursor::new(Progression::ALL, Waker::from(Arc::clone(&wake_ups)));
        cursor.add(&block(1, 10), 2).expect("the first");
        assert_eq!(claim(&cursor, count), Ok((1..=count).collect()));
        assert_eq!(wake_ups.0.load(Ordering::SeqCst), expected, "{count}");
    }
}

#[test]
fn another_block_is_due_when_few_are_left_or_a_claim_was_refused() {
    let few = cursor(&[(1, 10)]);
    assert!(!few.needs_more());
    assert_eq!(claim(&few, 7).map(|numbers| numbers.len()), Ok(7));
    assert!(!few.needs_more(), "two are left");
    assert_eq!(claim(&few, 1), Ok(vec![8]));
    assert!(few.needs_more());
    let refused = cursor(&[(1, 10)]);
    assert_eq!(claim(&refused, 20), Err(Denied::Short { missing: 11 }));
    assert!(refused.needs_more());
}

#[test]
fn counts_and_last_of_next_span_blocks() {
    let cursor = cursor(&[(1, 5), (10, 13)]);
    assert_eq!(cursor.last_of_next(1), Some(1));
    assert_eq!(cursor.last_of_next(5), Some(10));
    assert_eq!(cursor.last_of_next(8), None);
    assert_eq!((cursor.handed_out(), cursor.left()), (0, 7));
    assert_eq!(claim(&cursor, 3), Ok(vec![1, 2, 3]));
    assert_eq!((cursor.handed_out(), cursor.last_of_next(2)), (3, Some(10)));
    cursor.seal();
    assert_eq!((cursor.handed_out(), cursor.last_of_next(1)), (3, None));
}

#[test]
fn claims_below_the_quick_limit_take_the_quick_path() {
    let (cursor, mut seen) = (cursor(&[(1, 10)]), 0);
    assert_eq!(cursor.take_quickly(0, 1), None);
    let mut claim = || cursor.claim_one(&mut seen).map(Id::get);
    assert_eq!((claim(), claim()), (Some(1), Some(2)));
    assert_eq!(seen, 3);
    // With two numbers left, the claim wakes the task that reserves blocks.
    assert_eq!(cursor.take_quickly(seen, 6), None);
    assert_eq!(cursor.take_quickly(seen, 5), Some(3));
}

#[test]
fn block_below_an_earlier_one_adds_nothing() {
    let cursor = cursor(&[(1, 5)]);
    assert_eq!(claim(&cursor, 4), Ok(vec![1, 2, 3, 4]));
    cursor.add(&block(4, 9), 2).expect_err("4 was issued");
    assert_eq!(claim(&cursor, 1), Err(Denied::Short { missing: 1 }));
}

#[test]
fn sealing_returns_what_can_be_given_back_and_what_is_lost() {
    let cursor = cursor(&[(1, 5), (10, 13)]);
    assert_eq!(claim(&cursor, 1), Ok(vec![1]));
    let token = Token::from_bits(13);
    assert_eq!(cursor.seal(), (Some(GiveBack { from: 10, count: 3, token }), 3));
    assert_eq!((claim(&cursor, 1), cursor.left()), (Err(Denied::Sealed), 0));
    assert_eq!(cursor.seal(), (None, 0));
    cursor.add(&block(20, 30), 2).expect("late");
    assert_eq!(claim(&cursor, 1), Err(Denied::Sealed));
}

#[test]
fn every_second_number_is_handed_out() {
    let spec = super::super::SegmentSpec { increment: 2, remainder: 1, ..Default::default() };
    let cursor = SegmentCursor::new(spec.progression(), Waker::noop().clone());
    cursor.add(&block(1, 9), 0).expect("the first");
    assert_eq!(claim(&cursor, 3), Ok(vec![1, 3, 5]));
    cursor.add(&block(9, 13), 0).expect("the next");
    assert_eq!(claim(&cursor, 2), Ok(vec![7, 9]));
    let token = Token::from_bits(13);
    assert_eq!(cursor.seal(), (Some(GiveBack { from: 11, count: 1, token }), 0));
}
