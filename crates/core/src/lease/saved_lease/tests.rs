use super::*;
use crate::{
    layout::{LayoutSpec, TimeUnit},
    lease::Token,
};

const NOW: i64 = 1_763_650_000_000;

fn layout(unit: TimeUnit) -> Layout {
    LayoutSpec::for_unit(unit).build().expect("valid")
}

fn at(layout: &Layout, ms: i64) -> u64 {
    layout.first_position(layout.tick_clamped(NOW + ms))
}

fn saved(layout: &Layout, local_ms: i64, limit_ms: i64) -> SavedLease {
    SavedLease {
        worker: 5,
        lane: 1,
        token: Token::from_bits(7),
        epoch: Epoch { token: Token::from_bits(8), ordinal: 3 },
        marks: HighWaterMarks::all_at(0, 2).with(1, at(layout, limit_ms)),
        local_mark: at(layout, local_ms),
    }
}

fn check(saved: &SavedLease, layout: &Layout) -> Result<(), ResumeRefusal> {
    saved.check(&ResumeRequest {
        layout,
        saved_layout: &layout.canonical(),
        min_worker: 1,
        max_worker: 5,
        now_ms: NOW,
        issued_ahead_ms: 2_000,
    })
}

#[test]
fn lease_with_range_left_is_resumed_at_its_local_mark() {
    let layout = layout(TimeUnit::Millisecond);
    for (local_ms, limit_ms) in [(-60_000, 1), (0, 300_000), (3_000, 300_000), (15_000, 300_000)] {
        let saved = saved(&layout, local_ms, limit_ms);
        assert_eq!(check(&saved, &layout), Ok(()), "{local_ms} {limit_ms}");
        assert_eq!(saved.start(&layout, NOW), saved.local_mark);
        let known_row: KnownRow<()> = saved.known_row();
        assert_eq!((known_row.token(), known_row.marks()), (saved.token, &saved.marks));
        assert!(!known_row.is_unresolved() && known_row.visible().is_none());
    }
}

#[test]
fn lease_without_range_is_refused() {
    let layout = layout(TimeUnit::Millisecond);
    for (local_ms, limit_ms) in [(1_000, 1_000), (-86_500_000, -86_400_000), (-10, 0)] {
        let refused = check(&saved(&layout, local_ms, limit_ms), &layout);
        assert_eq!(refused, Err(ResumeRefusal::UsedUp), "{local_ms} {limit_ms}");
    }
}

#[test]
fn clock_that_went_back_is_refused_where_another_lane_could_issue() {
    let layout = layout(TimeUnit::Millisecond);
    let refused = check(&saved(&layout, 15_001, 300_000), &layout);
    assert_eq!(refused, Err(ResumeRefusal::ClockBehind { behind_ms: 15_001 }));
    // A local mark within the present day does not show that the clock went back.
    let day = self::layout(TimeUnit::Day);
    let mut saved = saved(&day, 0, 0);
    saved.local_mark += 5_000;
    saved.marks = saved.marks.with(1, saved.local_mark + 100);
    assert_eq!(check(&saved, &day), Ok(()));
}

#[test]
fn values_that_do_not_fit_are_refused() {
    let layout = layout(TimeUnit::Millisecond);
    let good = saved(&layout, 0, 300_000);
    let inconsistent = [
        SavedLease { local_mark: good.limit() + 1, ..good.clone() },
        SavedLease { marks: HighWaterMarks::all_at(good.limit(), 4), ..good.clone() },
        SavedLease { marks: good.marks.with(1, layout.end_position() + 1), ..good.clone() },
    ];
    for saved in inconsistent {
        assert_eq!(check(&saved, &layout), Err(ResumeRefusal::Inconsistent), "{saved:?}");
    }
    let (worker, min, max) = (6, 1, 5);
    let refused = check(&SavedLease { worker, ..good.clone() }, &layout);
    assert_eq!(refused, Err(ResumeRefusal::OtherWorker { worker, min, max }));
    let refused = check(&good, &self::layout(TimeUnit::Second));
    assert!(matches!(refused, Err(ResumeRefusal::Inconsistent | ResumeRefusal::UsedUp)));
    let refused = good.check(&ResumeRequest {
        layout: &layout,
        saved_layout: "another",
        min_worker: 1,
        max_worker: 5,
        now_ms: NOW,
        issued_ahead_ms: 0,
    });
    assert!(matches!(refused, Err(ResumeRefusal::OtherLayout { .. })));
}

#[test]
fn write_that_lowers_the_mark_of_its_lane_ends_a_lease() {
    let layout = layout(TimeUnit::Millisecond);
    let saved = saved(&layout, 0, 300_000);
    let limit = saved.limit();
    assert!(saved.is_ended_by(5, &saved.marks.with(1, limit - 1)));
    assert!(!saved.is_ended_by(5, &saved.marks.with(1, limit)));
    assert!(!saved.is_ended_by(5, &saved.marks.with(1, limit + 1).with(0, 0)));
    assert!(!saved.is_ended_by(4, &saved.marks.with(1, 0)), "another row");
    assert!(saved.is_ended_by(5, &HighWaterMarks::all_at(limit + 1, 1)), "the lane is gone");
}

fn request(layout: &Layout, old_limit: u64, highest_next: u64) -> LimitRequest {
    let start = at(layout, -60_000);
    let highest_next = highest_next.max(start);
    LimitRequest { old_limit, start, highest_next, refused: 0, now_ms: NOW, reach_ms: 0 }
}

#[test]
fn local_mark_stays_two_to_three_seconds_ahead_and_below_the_limit() {
    let layout = layout(TimeUnit::Millisecond);
    let limit = at(&layout, 300_000);
    let next = |old_ms| next_local_mark(&layout, &request(&layout, at(&layout, old_ms), 0), limit);
    assert_eq!(next(-60_000), Some(at(&layout, 3_000) + 256));
    assert_eq!(next(2_000), Some(at(&layout, 3_000) + 256));
    assert_eq!(next(2_001), None);
    let slow = LimitRequest { reach_ms: 4_000, ..request(&layout, at(&layout, 5_000), 0) };
    assert_eq!(next_local_mark(&layout, &slow, limit), Some(at(&layout, 7_000) + 256));
    let near = at(&layout, 2_500);
    let old = request(&layout, at(&layout, 1_000), 0);
    assert_eq!(next_local_mark(&layout, &old, near), Some(near));
    assert_eq!(next_local_mark(&layout, &LimitRequest { old_limit: near, ..old }, near), None);
}

#[test]
fn local_mark_follows_what_is_issued_ahead_of_the_clock() {
    let layout = layout(TimeUnit::Millisecond);
    let limit = at(&layout, 300_000);
    let ahead = request(&layout, at(&layout, 3_000), at(&layout, 5_000));
    assert_eq!(next_local_mark(&layout, &ahead, limit), Some(at(&layout, 8_000) + 256));
    // A process that resumed a lease above the clock and has issued nothing does not raise the
    // local mark.
    let start = at(&layout, 2_900);
    let idle = LimitRequest { start, highest_next: start, ..request(&layout, start, 0) };
    assert_eq!(next_local_mark(&layout, &idle, limit), None);
}

#[test]
fn local_mark_of_a_long_tick_takes_a_slice_of_what_is_left_of_the_lease() {
    let layout = layout(TimeUnit::Day);
    let first = at(&layout, 0);
    let limit = first + 16_000;
    let next = next_local_mark(&layout, &request(&layout, 0, 0), limit).expect("raised");
    assert_eq!(next, first + 1_000);
    let issued = request(&layout, next, first + 8_000);
    assert_eq!(next_local_mark(&layout, &issued, limit), Some(first + 8_500));
    let refused = LimitRequest { refused: 9_600, ..request(&layout, next, 0) };
    assert_eq!(next_local_mark(&layout, &refused, limit), Some(first + 10_000));
    // The lease has no room for this claim, so the keeper must renew it.
    let refused = LimitRequest { refused: 20_000, ..request(&layout, next, 0) };
    assert_eq!(next_local_mark(&layout, &refused, limit), Some(limit));
}
