//! The latest reading of a wall clock.

use crate::core::sync::{Arc, AtomicI64, Ordering};

/// The latest reading of a wall clock, in Unix milliseconds, which somebody else renews; clones
/// show the same. It may be older than now by as much as that somebody is late.
#[derive(Clone, Debug)]
pub struct Recent(Arc<AtomicI64>);

impl Recent {
    /// A reading, until it is renewed.
    pub fn new(now_ms: i64) -> Self {
        Self(Arc::new(AtomicI64::new(now_ms)))
    }

    /// The reading.
    #[inline]
    pub fn ms(&self) -> i64 {
        // Nothing else is learned from it.
        self.0.load(Ordering::Relaxed)
    }

    /// Renews the reading.
    pub fn set(&self, now_ms: i64) {
        self.0.store(now_ms, Ordering::Relaxed);
    }

    #[cfg(test)]
    pub(super) fn holders(&self) -> usize {
        Arc::strong_count(&self.0)
    }
}
