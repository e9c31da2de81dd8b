//! The limit of a lease.

use super::Marks;
use crate::core::{
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

/// Returns the marks of rows that are added to a namespace that may have issued before: beyond
/// every lease that a vanished row could have held. All times are in milliseconds.
pub fn marks_beyond(layout: &Layout, store_now_ms: i64, window_ms: i64, skew_ms: i64) -> Marks {
    let reach = store_now_ms.saturating_add(window_ms).saturating_add(skew_ms);
    let tick = layout.tick_clamped(reach) + 1;
    Marks::all_at(layout.first_position(tick), layout.lanes())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::layout::{LayoutSpec, TimeUnit};

    const NOW: i64 = 1_763_650_000_000;

    fn layout(unit: TimeUnit) -> Layout {
        LayoutSpec::for_unit(unit).build().expect("valid")
    }

    fn fresh(start: u64, reach_ms: i64) -> LimitRequest {
        let (old_limit, highest_next) = (start, start);
        LimitRequest { old_limit, start, highest_next, refused: 0, now_ms: NOW, reach_ms }
    }

    #[test]
    fn a_lease_in_milliseconds_reaches_a_sixteenth_of_a_tick_beyond_the_reach() {
        let layout = layout(TimeUnit::Millisecond);
        let first = layout.first_position(layout.tick_clamped(NOW + 10_000));
        assert_eq!(limit_for(&layout, &fresh(0, 10_000)), first + 256);
    }

    #[test]
    fn a_renewal_never_lowers_the_limit() {
        let layout = layout(TimeUnit::Millisecond);
        let old = limit_for(&layout, &fresh(0, 300_000));
        let request = LimitRequest { old_limit: old, now_ms: NOW - 3_600_000, ..fresh(0, 300_000) };
        assert_eq!(limit_for(&layout, &request), old);
    }

    #[test]
    fn a_refused_claim_is_covered_up_to_the_end_of_the_tick() {
        let layout = layout(TimeUnit::Hour);
        let first = layout.first_position(layout.tick_clamped(NOW));
        let per_tick = layout.positions_per_tick();
        let request = LimitRequest { highest_next: first + 100, refused: 5, ..fresh(0, 10_000) };
        assert_eq!(limit_for(&layout, &request), first + 105 + (per_tick - 105).div_ceil(16));
        // An idle code starts at the present tick, far above the lease's start.
        let request = LimitRequest { refused: per_tick / 2, ..fresh(0, 10_000) };
        assert!(limit_for(&layout, &request) > first + per_tick / 2);
        let request = LimitRequest { refused: per_tick, ..fresh(0, 10_000) };
        assert_eq!(limit_for(&layout, &request), first + per_tick);
    }

    #[test]
    fn crashes_never_move_marks_more_than_a_window_ahead() {
        let layout = layout(TimeUnit::Millisecond);
        let mut mark = 0;
        for crash in 0..40 {
            let now_ms = NOW + crash * 20_000;
            mark = limit_for(&layout, &LimitRequest { now_ms, ..fresh(mark, 300_000) });
            assert!(layout.tick_of(mark) <= layout.tick_clamped(now_ms + 300_000));
        }
    }

    #[test]
    fn twenty_restarts_leave_most_of_a_day_to_be_issued() {
        let layout = layout(TimeUnit::Day);
        let end = layout.first_position(layout.tick_clamped(NOW) + 1);
        let mut mark = 0;
        for _ in 0..20 {
            mark = limit_for(&layout, &fresh(mark, 10_000));
        }
        assert!(end - mark > layout.positions_per_tick() / 4);
        // Even the last position of a day can be leased, and nothing beyond it.
        assert_eq!(limit_for(&layout, &fresh(end - 1, 10_000)), end);
        assert_eq!(limit_for(&layout, &fresh(end, 10_000)), end);
    }

    #[test]
    fn the_end_of_the_timestamp_bounds_every_limit() {
        let layout = layout(TimeUnit::Millisecond);
        let request = LimitRequest { now_ms: i64::MAX, ..fresh(0, 300_000) };
        assert!(limit_for(&layout, &request) <= layout.end_position());
        let request = LimitRequest { now_ms: i64::MIN, ..fresh(0, 300_000) };
        assert!(limit_for(&layout, &request) <= layout.positions_per_tick());
    }

    #[test]
    fn added_rows_begin_beyond_every_possible_lease() {
        let layout = layout(TimeUnit::Millisecond);
        let marks = marks_beyond(&layout, NOW, 300_000, 10_000);
        assert_eq!(marks[0], layout.first_position(layout.tick_clamped(NOW + 310_000) + 1));
        assert_eq!(marks[0], marks[1]);
    }
}
