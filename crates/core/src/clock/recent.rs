//! The latest reading of a wall clock.

use crate::sync::{Arc, AtomicI64, Ordering};

/// The latest reading of a wall clock in Unix milliseconds, which clones share. It lags by the
/// delay of the thread that updates it.
#[derive(Clone, Debug)]
pub struct Recent(Arc<AtomicI64>);

impl Recent {
    /// Makes a first reading.
    pub fn new(now_ms: i64) -> Self {
        Self(Arc::new(AtomicI64::new(now_ms)))
    }

    /// Returns the reading.
    #[inline]
    pub fn ms(&self) -> i64 {
        // Nothing else is ordered by it.
        self.0.load(Ordering::Relaxed)
    }

    /// Reads the clock and updates the reading. If others updated it meanwhile, the clock is read
    /// again, so that no reading is replaced by an earlier one.
    pub fn renew(&self, mut read_clock: impl FnMut() -> i64) -> i64 {
        loop {
            let known = self.ms();
            let now_ms = read_clock();
            // Every thread loads it, so it is written only when it changes.
            if now_ms == known {
                return now_ms;
            }
            let ordering = Ordering::Relaxed;
            match self.0.compare_exchange(known, now_ms, ordering, ordering) {
                Err(present) if present != now_ms => {}
                _ => return now_ms,
            }
        }
    }

    /// Replaces the reading, even by an earlier one; threads use [`Self::renew`].
    pub fn set(&self, now_ms: i64) {
        self.0.store(now_ms, Ordering::Relaxed);
    }

    #[cfg(test)]
    pub(super) fn holders(&self) -> usize {
        Arc::strong_count(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reading_that_others_updated_meanwhile_is_taken_again() {
        let recent = Recent::new(5);
        let mut readings = [7, 9].into_iter();
        let now_ms = recent.renew(|| {
            let reading = readings.next().expect("two readings");
            // This thread sleeps after the first one.
            recent.set(8);
            reading
        });
        assert_eq!((now_ms, recent.ms()), (9, 9));
        assert_eq!(recent.renew(|| 3), 3);
    }
}
