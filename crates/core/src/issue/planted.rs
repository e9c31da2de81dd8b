//! Breaks the rules of issuing, for checkers.
//!
//! Each function returns what the rule says, so production code can be read as if it were not
//! there. Only in a build for checkers, and only if its [`Bug`] is planted, it breaks the rule.

use super::table::Table;
use crate::planted::{Bug, planted};

/// Returns the limit that a claim must not pass.
#[inline(always)]
pub(super) fn limit(limit: u64) -> u64 {
    if planted(Bug::LimitIgnored) { u64::MAX } else { limit }
}

/// Returns the end of the window of positions that a handle may issue.
#[inline(always)]
pub(super) fn window_end(end: u64) -> u64 {
    if planted(Bug::OverrunIssued) { u64::MAX } else { end }
}

/// Returns the first position of a new cursor. `clock` is the first one of the present tick.
pub(super) fn first_position(first: u64, clock: u64) -> u64 {
    if planted(Bug::CursorAtClock) { clock } else { first }
}

/// Returns the floor that an eviction of a cursor at `next` leaves.
pub(super) fn floor(next: u64) -> u64 {
    if planted(Bug::EvictionWithoutFloor) { 0 } else { next }
}

/// Seals a table of cursors.
pub(super) fn seal(table: &Table) -> u64 {
    if planted(Bug::LoweredUnsealed) { table.highest_next() } else { table.seal() }
}

/// Returns the position below which the mark of a lease with this start is never lowered.
pub(super) fn lowest_mark(start: u64) -> u64 {
    if planted(Bug::LoweredBelowStart) { 0 } else { start }
}

/// Returns the mark at which the next lease may start, after the grant was sealed there.
pub(super) fn mark(sealed_at: u64) -> u64 {
    if planted(Bug::LoweredToLastClaimed) { sealed_at.saturating_sub(1) } else { sealed_at }
}
