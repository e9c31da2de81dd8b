//! Randomness: tokens, and pauses after failures, which keep nodes out of step.

use std::{fmt, time::Duration};

use rand::{Rng, RngExt, rand_core::UnwrapErr, rngs::SysRng};

use raindrop_core::lease::Token;

pub(crate) const SHORTEST_PAUSE: Duration = Duration::from_millis(100);
/// The longest pause while the store fails or no row is free.
pub(crate) const LONGEST_PAUSE: Duration = Duration::from_secs(5);

/// A source of randomness: the operating system, or a seed in tests.
pub(crate) struct Random(pub(crate) Box<dyn Rng + Send + Sync>);

impl fmt::Debug for Random {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Random").finish_non_exhaustive()
    }
}

pub(crate) fn system_random() -> Box<dyn Rng + Send + Sync> {
    Box::new(UnwrapErr(SysRng))
}

/// Draws a fresh token from the operating system.
pub(crate) fn fresh_token() -> Token {
    Random(system_random()).fresh_token()
}

impl Random {
    pub(crate) fn fresh_token(&mut self) -> Token {
        Token::from_bits(self.0.random())
    }

    /// Returns a random part of a duration, at least half of it, so that nodes do not act in step.
    pub(crate) fn jittered(&mut self, duration: Duration) -> Duration {
        duration.mul_f64(self.0.random_range(0.5..=1.0))
    }

    /// Returns a duration up to a tenth shorter, for what must not come later. Nodes that act in
    /// step, because they started together, are out of step after a few such pauses.
    pub(crate) fn slightly_shortened(&mut self, duration: Duration) -> Duration {
        duration.mul_f64(self.0.random_range(0.9..=1.0))
    }
}

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
