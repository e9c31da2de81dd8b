//! Computes the limit of a lease: how far ahead of the clock a process may issue.
//!
//! The limit is also the mark that the store keeps, and the next lease of the lane starts at the
//! mark. So [`limit_for`] bounds a mark by the clock, even if a process leases and crashes in a
//! loop. A lease takes only a slice of the rest of a tick, so that leases do not use up a long tick
//! such as a day.
//!
//! It only computes. A caller passes the mark that the store acknowledged as `old_limit`, and a
//! clock that it has judged ([`judge_clock`](super::judge_clock)); it issues up to the new limit
//! only once the store has acknowledged that. Tests: `limit/tests.rs`; the simulation
//! (`tests/models/simulation`) finds the planted bug `LimitWithoutCap`.

use super::planted;
use crate::layout::Layout;

/// The input of [`limit_for`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LimitRequest {
    /// The present limit; for a new lease, its start.
    pub old_limit: u64,
    /// Where the lease starts.
    pub start: u64,
    /// One past the last claimed position of any code.
    pub highest_next: u64,
    /// How many positions the largest refused claim needs; 0 if the limit refused none. Counted
    /// from the present tick or from the cursor of the claim's code, whichever is higher.
    pub refused: u64,
    /// The earlier of the node's clock and the store's plus the allowed skew, in Unix ms.
    pub now_ms: i64,
    /// How far ahead of `now_ms` the lease should reach, in ms.
    pub reach_ms: i64,
}

/// Returns the limit of a lease: the position that issuing will have reached after `reach_ms`, plus
/// a sixteenth of the rest of that tick, but nothing beyond that tick.
///
/// The limit is never computed from the mark alone, so that a process in a crash loop cannot push
/// the marks into the future. A sixteenth of the *rest* never uses up a long tick.
pub fn limit_for(layout: &Layout, request: &LimitRequest) -> u64 {
    let tick = layout.tick_clamped(request.now_ms.saturating_add(request.reach_ms));
    let first = layout.first_position(tick);
    let end_of_tick = first + layout.positions_per_tick();
    let present = layout.first_position(layout.tick_clamped(request.now_ms));
    let wanted =
        request.highest_next.max(request.start).max(present).saturating_add(request.refused);
    let base = first.max(wanted);
    let left = layout.positions_per_tick() - base % layout.positions_per_tick();
    let slice = left.div_ceil(16);
    let limit = request.old_limit.max(base.saturating_add(slice).min(end_of_tick));
    planted::limit(limit, layout, request)
}

#[cfg(test)]
mod tests;
