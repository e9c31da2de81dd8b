//! The latest reading of a wall clock.

use crate::sync::{Arc, AtomicI64, Ordering};

/// The latest reading of a wall clock, shared by all clones. It lags behind the clock by the delay
/// of the thread that updates it.
#[derive(Clone, Debug)]
pub struct Recent(Arc<AtomicI64>);

impl Recent {
    /// Makes a shared reading of `now_ms`, in Unix milliseconds.
    pub fn new(now_ms: i64) -> Self {
        Self(Arc::new(AtomicI64::new(now_ms)))
    }

    /// Returns the reading in Unix milliseconds.
    #[inline]
    pub fn ms(&self) -> i64 {
        // No other memory access depends on the order of this load.
        self.0.load(Ordering::Relaxed)
    }

    /// Reads the clock, updates the reading and returns it. If another thread updated it meanwhile,
    /// reads the clock again, so that an earlier reading never replaces a later one.
    pub fn renew(&self, mut read_clock: impl FnMut() -> i64) -> i64 {
        loop {
            let known = self.ms();
            let now_ms = read_clock();
            // Write only a change: a write would evict the cache line of every thread that loads
            // it.
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

    /// Replaces the reading, even by an earlier one. For tests; threads use [`Self::renew`].
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
