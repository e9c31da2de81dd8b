//! Randomness: tokens, and pauses that keep nodes out of step.

use std::{fmt, time::Duration};

use rand::{Rng, RngExt, rand_core::UnwrapErr, rngs::SysRng};

use raindrop_core::lease::Token;

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
}
