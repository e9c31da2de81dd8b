//! The latest reading of a wall clock.

use crate::core::sync::{Arc, AtomicI64, Ordering};

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

    /// Updates the reading.
    pub fn set(&self, now_ms: i64) {
        self.0.store(now_ms, Ordering::Relaxed);
    }

    #[cfg(test)]
    pub(super) fn holders(&self) -> usize {
        Arc::strong_count(&self.0)
    }
}
