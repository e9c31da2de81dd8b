//! Breaks the rules of strict codes and of codes on demand, for checkers.
//!
//! Each function returns what the rule says, so production code can be read as if it were not
//! there. Only in a build for checkers, and only if its [`Bug`] is planted, it breaks the rule.

use raindrop_core::planted::{Bug, planted};

/// Returns how many numbers to reserve for claims of this many.
pub(super) fn to_reserve(claimed: u64) -> u64 {
    if planted(Bug::StrictServesFromBlock) { claimed + 3 } else { claimed }
}

/// Returns how many numbers of a reservation of `by` the process keeps, of which it issues `issued`.
pub(super) fn to_keep(issued: u64, by: u64) -> u64 {
    if planted(Bug::StrictServesFromBlock) { by } else { issued }
}

/// Returns whether claims are served from numbers in hand, although a strict code has none.
pub(super) fn serves_from_hand(claimed: u64, left: u64) -> bool {
    planted(Bug::StrictServesFromBlock) && claimed <= left
}

/// Returns whether claims with keys are answered before the store has their texts.
pub(super) fn answers_before_keys() -> bool {
    planted(Bug::KeyAfterAnswer)
}

/// Returns whether a missing row is created at the code's start, where a new code skips this many
/// numbers.
pub(super) fn creates_at_start(skipped: u64) -> bool {
    skipped == 0 || planted(Bug::CreatedBelowGap)
}
