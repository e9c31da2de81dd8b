//! Pauses between attempts at what failed.

use std::time::Duration;

use super::random::Random;

pub(crate) const SHORTEST_PAUSE: Duration = Duration::from_millis(100);
/// The longest pause while the store fails or no row is free.
pub(crate) const LONGEST_PAUSE: Duration = Duration::from_secs(5);

/// Attempts that failed in a row. Each pause is twice as long as the one before, and jittered.
#[derive(Debug)]
pub(crate) struct Attempts {
    failed: u32,
    longest: Duration,
}

impl Default for Attempts {
    fn default() -> Self {
        Self::pausing(LONGEST_PAUSE)
    }
}

impl Attempts {
    /// Attempts between which no pause is longer than this.
    pub(crate) const fn pausing(longest: Duration) -> Self {
        Self { failed: 0, longest }
    }

    /// Counts one that failed, and returns how long to pause.
    pub(crate) fn failed(&mut self, random: &mut Random) -> Duration {
        let doubled = SHORTEST_PAUSE * 2_u32.pow(self.failed.min(6));
        self.failed += 1;
        random.jittered(doubled.min(self.longest))
    }

    /// Whether the last one failed.
    pub(crate) const fn has_failed(&self) -> bool {
        self.failed > 0
    }

    /// Begins anew: one succeeded.
    pub(crate) const fn succeeded(&mut self) {
        self.failed = 0;
    }
}
