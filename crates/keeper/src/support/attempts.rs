//! Pauses between attempts, after failures.

use std::time::Duration;

use super::random::Random;

pub(crate) const SHORTEST_PAUSE: Duration = Duration::from_millis(100);
/// The longest pause while the store fails or no row is free.
pub(crate) const LONGEST_PAUSE: Duration = Duration::from_secs(5);

/// Attempts that failed in succession. Each pause is twice as long as the one before, with jitter.
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
    /// Returns attempts between which no pause is longer than this.
    pub(crate) const fn pausing(longest: Duration) -> Self {
        Self { failed: 0, longest }
    }

    /// Counts a failed attempt, and returns how long to pause.
    pub(crate) fn failed(&mut self, random: &mut Random) -> Duration {
        let doubled = SHORTEST_PAUSE * 2_u32.pow(self.failed.min(6));
        self.failed += 1;
        random.jittered(doubled.min(self.longest))
    }

    /// Returns whether the last attempt failed.
    pub(crate) const fn has_failed(&self) -> bool {
        self.failed > 0
    }

    /// Starts from the shortest pause again, because an attempt succeeded.
    pub(crate) const fn succeeded(&mut self) {
        self.failed = 0;
    }
}
