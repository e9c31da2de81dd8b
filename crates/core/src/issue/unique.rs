//! Tells generators and grants apart.

use std::sync::atomic::{AtomicU64, Ordering};

/// A number that no other generator or grant of this process has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Unique(u64);

impl Unique {
    pub(super) fn new() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        Self(NEXT.fetch_add(1, Ordering::Relaxed))
    }
}
