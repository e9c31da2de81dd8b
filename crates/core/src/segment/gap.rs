//! How many numbers a code skips after a fail-over.
//!
//! A store that failed over may have lost the last reservations of a code, so the next number in
//! its row may be below numbers that were issued. The first reservation in a new
//! [epoch](crate::lease::History) therefore skips a gap, which must be larger than everything that
//! the lost reservations covered. The operator can set the gap of a code (`failover_gap`), and that
//! of all codes without one of their own (`segment.failover_gap`). By default it is a hundred of the
//! largest reservations that the settings allow.

use super::{SegmentSpec, planted};
use crate::lease::{History, Token};

/// How many of the largest possible reservations the default gap covers.
const RESERVATIONS: u64 = 100;

/// The row of a code in the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CodeRow {
    /// The first number of the next reservation.
    pub next: u64,
    /// How many numbers the last reservation covered; 0 before the first.
    pub step: u64,
    /// The epoch of the last reservation; [`Token::UNUSED`] before the first.
    pub epoch: Token,
}

impl CodeRow {
    /// Returns the row to assume for a code that has none. Its creation may be among the lost
    /// writes.
    pub const fn missing(first: u64) -> Self {
        Self { next: first, step: 0, epoch: Token::UNUSED }
    }
}

/// How many numbers of one code a single fail-over can have lost: configured, or by default.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GapRule {
    /// The configured gap of codes that have none of their own, counted in numbers of the code.
    pub configured: Option<u64>,
    /// The largest claim, in numbers.
    pub largest_claim: u64,
}

impl GapRule {
    /// Returns how many numbers the next reservation skips: one gap for each epoch that began since
    /// the row was written.
    pub fn skipped(&self, spec: &SegmentSpec, row: &CodeRow, history: &History) -> u64 {
        planted::skipped(self.gap(spec, row).saturating_mul(history.missed(row.epoch)))
    }

    /// Returns the gap of one fail-over, counted in all numbers, with those between the code's own.
    fn gap(&self, spec: &SegmentSpec, row: &CodeRow) -> u64 {
        let largest = spec.max_step.max(spec.min_step).max(self.largest_claim);
        let default = || largest.saturating_mul(spec.increment).max(row.step);
        match spec.failover_gap.or(self.configured) {
            Some(numbers) => numbers.saturating_mul(spec.increment),
            None => default().saturating_mul(RESERVATIONS),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lease::{EpochClocks, NodeTimes};

    const FIRST: Token = Token::from_bits(1);
    const SECOND: Token = Token::from_bits(2);
    const THIRD: Token = Token::from_bits(3);
    const STRANGE: Token = Token::from_bits(9);

    fn row(step: u64, epoch: Token) -> CodeRow {
        CodeRow { next: 1, step, epoch }
    }

    fn spec() -> SegmentSpec {
        SegmentSpec { min_step: 10, max_step: 1_000, increment: 3, ..SegmentSpec::default() }
    }

    #[test]
    fn default_gap_covers_a_hundred_of_the_largest_reservations() {
        let rule = GapRule { configured: None, largest_claim: 50 };
        assert_eq!(rule.gap(&spec(), &row(30, FIRST)), 300_000);
        assert_eq!(rule.gap(&spec(), &row(9_000, FIRST)), 900_000, "larger than allowed now");
        let claims = GapRule { largest_claim: 2_000, ..rule };
        assert_eq!(claims.gap(&spec(), &row(30, FIRST)), 600_000);
        let largest = SegmentSpec {
            max_step: SegmentSpec::LARGEST,
            increment: SegmentSpec::LARGEST,
            ..spec()
        };
        assert_eq!(rule.gap(&largest, &row(0, FIRST)), u64::MAX);
    }

    #[test]
    fn configured_gap_counts_numbers_of_the_code() {
        let rule = GapRule { configured: Some(7), largest_claim: 50 };
        assert_eq!(rule.gap(&spec(), &row(9_000, FIRST)), 21);
    }

    #[test]
    fn gap_of_the_code_takes_the_place_of_the_configured_one() {
        let rule = GapRule { configured: Some(7), largest_claim: 50 };
        let default = GapRule { configured: None, ..rule };
        for (gap, all_numbers) in [(0, 0), (2, 6), (100, 300)] {
            let spec = SegmentSpec { failover_gap: Some(gap), ..spec() };
            assert_eq!(rule.gap(&spec, &row(9_000, FIRST)), all_numbers);
            assert_eq!(default.gap(&spec, &row(9_000, FIRST)), all_numbers);
        }
    }

    #[test]
    fn each_epoch_that_began_since_the_row_was_written_skips_a_gap() {
        let rule = GapRule { configured: Some(7), largest_claim: 50 };
        let first = History::first("a", FIRST, NodeTimes::default());
        let second = first.next("b", SECOND, EpochClocks::of_store(1), NodeTimes::default());
        let third = second.next("c", THIRD, EpochClocks::of_store(2), NodeTimes::default());
        let skipped = |history, epoch| rule.skipped(&spec(), &row(9_000, epoch), history);
        assert_eq!(skipped(&first, FIRST), 0);
        assert_eq!(skipped(&first, Token::UNUSED), 0);
        assert_eq!(skipped(&third, THIRD), 0);
        assert_eq!(skipped(&third, SECOND), 21);
        assert_eq!(skipped(&third, FIRST), 42);
        assert_eq!(skipped(&third, Token::UNUSED), 42);
        assert_eq!(skipped(&third, STRANGE), 8 * 21);
    }
}
