//! The limit of a lease.

use crate::{
    layout::Layout,
    planted::{Bug, planted},
};

/// What a limit is computed from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LimitRequest {
    /// The limit until now; for a new lease, its start.
    pub old_limit: u64,
    /// Where the lease starts.
    pub start: u64,
    /// One past the last claimed position of any code.
    pub highest_next: u64,
    /// How many positions the largest claim needs that the limit refused, from the present tick or
    /// the cursor of its code on, whichever is higher; 0 if none.
    pub refused: u64,
    /// The earlier of the node's clock and the store's plus the allowed skew, in Unix ms.
    pub now_ms: i64,
    /// How far ahead the lease should reach.
    pub reach_ms: i64,
}

/// Returns the limit of a lease: where issuing will be when `reach` has passed, and a sixteenth of
/// what that tick has left, but never beyond that tick.
///
/// It is never computed from the mark alone, so that a process in a crash loop cannot push the
/// marks into the future. A slice of what is *left* never uses up a long tick.
pub fn limit_for(layout: &Layout, request: &LimitRequest) -> u64 {
    let tick = layout.tick_clamped(request.now_ms.saturating_add(request.reach_ms));
    let first = layout.first_position(tick);
    let end_of_tick = first + layout.positions_per_tick();
    let present = layout.first_position(layout.tick_clamped(request.now_ms));
    if planted(Bug::LimitWithoutCap) {
        return uncapped(layout, request, present);
    }
    let wanted =
        request.highest_next.max(request.start).max(present).saturating_add(request.refused);
    let base = first.max(wanted);
    let left = layout.positions_per_tick() - base % layout.positions_per_tick();
    let slice = left.div_ceil(16);
    request.old_limit.max(base.saturating_add(slice).min(end_of_tick))
}

/// The limit of [`Bug::LimitWithoutCap`].
fn uncapped(layout: &Layout, request: &LimitRequest, present: u64) -> u64 {
    let ticks = u64::try_from(request.reach_ms / layout.unit().millis()).unwrap_or(0);
    request.old_limit.max(present) + layout.first_position(ticks.max(1))
}

#[cfg(test)]
mod tests;
