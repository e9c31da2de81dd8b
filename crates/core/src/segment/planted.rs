//! Breaks the rules of segment mode, for checkers.
//!
//! Each function returns what the rule says, or does nothing, so production code can be read as if
//! it were not there. Only in a build for checkers, and only if its [`Bug`] is planted, it breaks
//! the rule.

use super::Chain;
use crate::{
    planted::{Bug, planted},
    sync::{AtomicU64, Ordering},
};

/// Runs before the cursor moves to `end`. The limit of the fast path must rise after that.
pub(super) fn before_cursor_moves(quick: &AtomicU64, chain: &Chain, end: u64) {
    if planted(Bug::QuickLimitAhead) {
        quick.fetch_max(chain.remaining(end).block_end, Ordering::AcqRel);
    }
}

/// Runs after a cursor was closed at `next`.
pub(super) fn after_closing(cursor: &AtomicU64, next: u64) {
    if planted(Bug::GivenBackUnsealed) {
        cursor.store(next, Ordering::Release);
    }
}

/// Returns the first number of a block that may be returned, where the cursor stands at `next`.
pub(super) fn first_unused(next: u64) -> u64 {
    if planted(Bug::GivenBackWhole) { 0 } else { next }
}

/// Returns how many numbers of a strict code's reservation of `by` are left over once its first
/// `issued` have been issued.
pub(super) fn left_over(by: u64, issued: u64) -> u64 {
    if planted(Bug::StrictUndoneWhole) && issued < by { by } else { by.saturating_sub(issued) }
}

/// Returns how many numbers the next reservation skips.
pub(super) fn skipped(numbers: u64) -> u64 {
    if planted(Bug::GapNotSkipped) { 0 } else { numbers }
}
