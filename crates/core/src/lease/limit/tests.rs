use super::*;
use crate::layout::{LayoutSpec, TimeUnit};

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
    // The last position of a day can be leased, and nothing beyond it.
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
