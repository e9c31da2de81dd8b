//! Randomness: tokens, and pauses that keep nodes out of step.

use std::time::Duration;

use rand::{Rng, RngExt, rand_core::UnwrapErr, rngs::SysRng};

use crate::core::lease::Token;

/// A source of randomness: the operating system, or a seed in tests.
pub(super) type Random = Box<dyn Rng + Send + Sync>;

pub(super) const SHORTEST_PAUSE: Duration = Duration::from_millis(100);
/// The longest pause while the store fails or no row is free.
pub(super) const LONGEST_PAUSE: Duration = Duration::from_secs(5);

pub(super) fn system_random() -> Random {
    Box::new(UnwrapErr(SysRng))
}

pub(super) fn fresh_token(random: &mut Random) -> Token {
    Token::from_bits(random.random())
}

/// Returns a random part of a duration, at least half of it, so that nodes do not move in step.
pub(super) fn jittered(random: &mut Random, duration: Duration) -> Duration {
    duration.mul_f64(random.random_range(0.5..=1.0))
}

/// Returns the back-off after `failures` consecutive errors and one more.
pub(super) fn pause_after(failures: u32, random: &mut Random) -> Duration {
    let doubled = SHORTEST_PAUSE * 2_u32.pow(failures.min(6));
    jittered(random, doubled.min(LONGEST_PAUSE))
}
