//! The cursor of one code under one grant.
//!
//! A cursor is one atomic integer: the next position, or [`CLOSED`]. A thread that moves it from
//! `a` to `b` owns the positions `a..b`, so two claims never share a position, whatever their
//! threads do in between. The cursor knows neither the limit of the lease nor the clock. Its
//! callers must check both: before a claim by [`Rules::plan`](super::rules::Rules::plan), and after
//! [`Cursor::advance`] for every position that it returned. `models` explores claims, eviction and
//! sealing.

use crate::sync::{AtomicU64, Ordering};

/// A cursor at or above this value is closed. Every position is below it. A closed cursor overflows
/// only after 2^63 further additions, which take centuries.
const CLOSED: u64 = 1 << 63;

/// The next position to issue for one code under one grant. It only rises, even when it is closed.
#[derive(Debug)]
pub(crate) struct Cursor(AtomicU64);

/// The cursor is closed: it was evicted, or its grant was sealed.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Closed;

impl Cursor {
    pub(crate) fn new(next: u64) -> Self {
        Self(AtomicU64::new(next))
    }

    /// Returns the next position, or `None` if the cursor is closed.
    pub(crate) fn next(&self) -> Option<u64> {
        Some(self.0.load(Ordering::Acquire)).filter(|next| *next < CLOSED)
    }

    /// Moves the cursor up by `count` without a check, and returns where it stood.
    ///
    /// The positions from there on belong to the caller, which may issue those that are leased and
    /// in the present tick. Others are never issued. An addition is cheaper than a claim, but moves
    /// the cursor past the end of the tick or lease: a caller that received such a position must
    /// claim before it advances again.
    #[inline]
    pub(crate) fn advance(&self, count: u64) -> u64 {
        self.0.fetch_add(count, Ordering::AcqRel)
    }

    /// Moves the cursor in one atomic step from its position to the end that `plan` returns for
    /// that position. `plan` is called again if another thread moved the cursor meanwhile.
    ///
    /// # Errors
    ///
    /// [`Closed`], or within `Ok` the refusal of `plan`.
    pub(crate) fn claim<P, E>(
        &self,
        plan: impl FnMut(u64) -> Result<(P, u64), E>,
    ) -> Result<Result<P, E>, Closed> {
        self.claim_from(self.0.load(Ordering::Acquire), plan)
    }

    /// Claims as [`Self::claim`] does, but tries `next` first, where the caller saw the cursor
    /// before. If `plan` refuses that position, the cursor may have moved since.
    #[inline]
    fn claim_from<P, E>(
        &self,
        mut next: u64,
        mut plan: impl FnMut(u64) -> Result<(P, u64), E>,
    ) -> Result<Result<P, E>, Closed> {
        loop {
            if next >= CLOSED {
                return Err(Closed);
            }
            let (planned, end) = match plan(next) {
                Ok(planned) => planned,
                Err(refused) => return Ok(Err(refused)),
            };
            debug_assert!(end > next, "a claim moves the cursor up");
            match self.0.compare_exchange_weak(next, end, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => return Ok(Ok(planned)),
                Err(moved) => next = moved,
            }
        }
    }

    /// Claims the next `count` positions if they lie in `first..end`, and returns the first. `seen`
    /// is where the caller last saw the cursor. If the cursor has moved since, it may return `None`
    /// although a claim would succeed.
    #[inline]
    pub(crate) fn take_within(
        &self,
        seen: &mut u64,
        count: u64,
        first: u64,
        end: u64,
    ) -> Option<u64> {
        let left = |next| end.checked_sub(next).filter(|_| next >= first);
        let lies_within = |next| left(next).is_some_and(|left| left >= count);
        let plan = |next| lies_within(next).then_some((next, next + count)).ok_or(());
        let position = self.claim_from(*seen, plan).ok()?.ok()?;
        *seen = position + count;
        Some(position)
    }

    /// Closes the cursor for good, and returns where it stood, or `None` if it was closed before.
    pub(crate) fn close(&self) -> Option<u64> {
        Some(self.0.swap(CLOSED, Ordering::AcqRel)).filter(|next| *next < CLOSED)
    }

    /// Closes the cursor if it stands below `below`. Calls `before_closing` with its position
    /// first, and again if another thread moves the cursor in between. Returns whether this call
    /// closed it.
    pub(crate) fn close_below(&self, below: u64, before_closing: impl Fn(u64)) -> bool {
        let mut next = self.0.load(Ordering::Acquire);
        // A closed cursor is above every position, which ends the loop.
        while next < below {
            before_closing(next);
            match self.0.compare_exchange_weak(next, CLOSED, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => return true,
                Err(moved) => next = moved,
            }
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn take(cursor: &Cursor, count: u64) -> Result<Result<u64, ()>, Closed> {
        cursor.claim(|next| Ok((next, next + count)))
    }

    #[test]
    fn claims_never_overlap() {
        let cursor = Cursor::new(10);
        assert_eq!(take(&cursor, 5), Ok(Ok(10)));
        assert_eq!(take(&cursor, 1), Ok(Ok(15)));
        assert_eq!(cursor.claim(|_| Err::<((), u64), _>("no")), Ok(Err("no")));
        assert_eq!(cursor.next(), Some(16));
    }

    #[test]
    fn take_within_stays_in_its_range() {
        let (cursor, mut seen) = (Cursor::new(10), 10);
        let mut take = |count, first, end| cursor.take_within(&mut seen, count, first, end);
        assert_eq!(take(1, 11, 20), None);
        assert_eq!(take(1, 10, 14), Some(10));
        assert_eq!(take(4, 10, 14), None);
        assert_eq!(take(3, 10, 14), Some(11));
        assert_eq!(take(1, 10, 14), None);
        cursor.close();
        assert_eq!(take(1, 0, u64::MAX), None);
    }

    #[test]
    fn take_within_is_safe_from_any_last_seen_position() {
        for mut seen in [0, 9, 10, 11, 12, 13, 19, 20, CLOSED] {
            let cursor = Cursor::new(12);
            let taken = cursor.take_within(&mut seen, 2, 10, 20);
            assert!(matches!(taken, None | Some(12)), "{taken:?}");
            assert_eq!(cursor.next(), Some(if taken.is_some() { 14 } else { 12 }));
        }
    }

    #[test]
    fn cursor_that_others_moved_is_read_again() {
        let (cursor, mut seen) = (Cursor::new(10), 10);
        assert_eq!(take(&cursor, 5), Ok(Ok(10)));
        assert_eq!(cursor.take_within(&mut seen, 1, 10, 20), Some(15));
        assert_eq!(cursor.take_within(&mut seen, 1, 10, 20), Some(16));
        assert_eq!(seen, 17);
    }

    #[test]
    fn advancing_passes_the_end_and_keeps_a_closed_cursor_closed() {
        let cursor = Cursor::new(10);
        assert_eq!((cursor.advance(4), cursor.advance(1)), (10, 14));
        assert_eq!(cursor.next(), Some(15));
        assert_eq!(cursor.close(), Some(15));
        assert!(cursor.advance(64) >= CLOSED);
        assert_eq!((cursor.next(), cursor.close()), (None, None));
        assert_eq!(take(&cursor, 1), Err(Closed));
        assert!(!cursor.close_below(CLOSED, |_| panic!("it is closed")));
    }

    #[test]
    fn a_closed_cursor_stays_closed() {
        let cursor = Cursor::new(10);
        assert!(!cursor.close_below(10, |_| panic!("it is not below")));
        assert!(cursor.close_below(11, |next| assert_eq!(next, 10)));
        assert_eq!(take(&cursor, 1), Err(Closed));
        assert_eq!((cursor.next(), cursor.close()), (None, None));
        assert!(!cursor.close_below(CLOSED, |_| panic!("it is closed")));
    }
}
