//! What is random: tokens, and pauses that keep nodes out of step.

use std::{
    sync::{Mutex, PoisonError},
    time::Duration,
};

use rand::{Rng, RngExt, rand_core::UnwrapErr, rngs::SysRng};

use crate::core::lease::Token;

/// Where randomness comes from: the operating system, or a seed in tests.
pub(super) type Random = Box<dyn Rng + Send + Sync>;

pub(super) const SHORTEST_PAUSE: Duration = Duration::from_millis(100);
/// The longest pause while the store fails or has nothing to give.
pub(super) const LONGEST_PAUSE: Duration = Duration::from_secs(5);

pub(super) fn of_the_system() -> Random {
    Box::new(UnwrapErr(SysRng))
}

pub(super) fn fresh_token(random: &mut Random) -> Token {
    Token::from_bits(random.random())
}

/// The same for many that share one source.
pub(super) fn fresh_token_of(random: &Mutex<Random>) -> Token {
    fresh_token(&mut random.lock().unwrap_or_else(PoisonError::into_inner))
}

/// A random part of the duration, at least half of it, so that nodes do not move in step.
pub(super) fn jittered(random: &mut Random, duration: Duration) -> Duration {
    duration.mul_f64(random.random_range(0.5..=1.0))
}

/// How long to wait after so many failures of the store, and one more.
pub(super) fn pause_after(failures: u32, random: &mut Random) -> Duration {
    let doubled = SHORTEST_PAUSE * 2_u32.pow(failures.min(6));
    jittered(random, doubled.min(LONGEST_PAUSE))
}
