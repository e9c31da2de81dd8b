//! The step: how many numbers the next reservation takes.

use std::time::Duration;

/// Bounds of the step, and the time for which a block should last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StepRule {
    /// The smallest step, in numbers.
    pub min: u64,
    /// The largest step, in numbers.
    pub max: u64,
    /// The time for which a block should last.
    pub target: Duration,
}

/// The shortest interval over which a rate is computed.
const SHORTEST: Duration = Duration::from_secs(1);

impl StepRule {
    /// Returns the step that lasts for the target at the present rate. Since the last reservation,
    /// whose step was `last`, `used` numbers were issued in the time `elapsed`.
    ///
    /// From one reservation to the next, the step grows at most eightfold and shrinks at most by
    /// half.
    pub fn next(self, last: u64, used: u64, elapsed: Duration) -> u64 {
        let elapsed_ms = elapsed.max(SHORTEST).as_millis();
        let wanted = u128::from(used) * self.target.as_millis() / elapsed_ms;
        let wanted = u64::try_from(wanted).unwrap_or(u64::MAX);
        wanted.clamp(last / 2, last.saturating_mul(8)).clamp(self.min, self.max)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RULE: StepRule = StepRule { min: 1_000, max: 1_000_000, target: Duration::from_secs(60) };

    /// Returns the step and the refills per second in the steady state of a rate in numbers per
    /// second.
    fn settled(rate: u64) -> (u64, f64) {
        let mut step = RULE.min;
        let mut elapsed = Duration::from_secs(1);
        for _ in 0..20 {
            elapsed = Duration::from_secs_f64(step as f64 / rate as f64);
            step = RULE.next(step, step, elapsed);
        }
        (step, 1.0 / elapsed.as_secs_f64())
    }

    #[test]
    fn the_step_settles_where_a_block_lasts_for_the_target() {
        let (slow, slow_refills) = settled(1_000);
        let (fast, fast_refills) = settled(10_000);
        assert_eq!((slow, fast), (60_000, 600_000));
        assert!((slow_refills - fast_refills).abs() < 1e-6, "{slow_refills} {fast_refills}");
        assert_eq!(settled(1).0, RULE.min);
        assert_eq!(settled(1_000_000).0, RULE.max);
    }

    #[test]
    fn the_step_grows_up_to_eightfold_and_shrinks_by_at_most_half() {
        assert_eq!(RULE.next(1_000, 1_000, Duration::ZERO), 8_000);
        assert_eq!(RULE.next(1_000, 1, Duration::ZERO), 1_000, "one number is no burst");
        assert_eq!(RULE.next(8_000, 8_000, Duration::from_secs(3_600)), 4_000);
        assert_eq!(RULE.next(1_500, 0, Duration::from_secs(3_600)), 1_000);
        assert_eq!(RULE.next(u64::MAX, u64::MAX, Duration::ZERO), 1_000_000);
    }
}
