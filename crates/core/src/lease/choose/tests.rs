use std::collections::HashSet;

use super::*;
use crate::{
    layout::{LayoutSpec, TimeUnit},
    lease::Token,
};

const NOW: i64 = 1_763_650_000_000;

fn layout() -> Layout {
    LayoutSpec::for_unit(TimeUnit::Millisecond).build().expect("valid")
}

fn row(worker: u64, marks: &str) -> Row {
    Row {
        worker,
        token: Token::UNUSED,
        holder: String::new(),
        lane: 0,
        marks: marks.parse().expect("marks"),
        free: true,
        epoch: Token::UNUSED,
        heartbeat_ms: 1,
        expires_ms: 0,
    }
}

fn position(layout: &Layout, ms: i64) -> u64 {
    layout.first_position(layout.tick_clamped(ms))
}

#[test]
fn a_lane_whose_mark_is_past_is_usable_even_inside_the_present_tick() {
    let layout = layout();
    let now = position(&layout, NOW);
    let marks = |a: u64, b: u64| format!("{a},{b}").parse::<HighWaterMarks>().expect("marks");
    let lane = |marks: &HighWaterMarks, except| usable_lane(&layout, marks, NOW, except);
    assert_eq!(lane(&marks(now + 4095, now), None), Some(0));
    assert_eq!(lane(&marks(now + 4096, now), None), Some(1));
    assert_eq!(lane(&marks(now + 4096, now + 4096), None), None);
    assert_eq!(lane(&marks(0, 0), Some(0)), Some(1));
    assert_eq!(usable_lane(&layout, &marks(now + 4096, now + 4096), NOW + 1, None), Some(0));
}

#[test]
fn fresh_rows_use_the_initial_lane() {
    let layout = LayoutSpec { rollback_initial: 1, ..LayoutSpec::for_unit(TimeUnit::Millisecond) }
        .build()
        .expect("valid");
    let marks = HighWaterMarks::all_at(0, 2);
    assert_eq!(usable_lane(&layout, &marks, NOW, None), Some(1));
    assert_eq!(usable_lane(&layout, &marks, NOW, Some(1)), Some(0));
}

#[test]
fn rows_with_a_past_mark_come_before_those_within_the_wait() {
    let layout = layout();
    let soon = position(&layout, NOW + 900);
    let late = position(&layout, NOW + 1_001);
    let rows =
        [row(1, &format!("{late},{late}")), row(2, &format!("{late},{soon}")), row(3, "0,0")];
    for random in 0..10 {
        let choice = choose_row(&layout, &rows, NOW, 1_000, 0, random);
        assert_eq!(choice, Some(Choice { index: 2, lane: 0 }));
        let choice = choose_row(&layout, &rows[..2], NOW, 1_000, 0, random);
        assert_eq!(choice, Some(Choice { index: 1, lane: 1 }));
        assert_eq!(choose_row(&layout, &rows[..1], NOW, 1_000, 0, random), None);
    }
    assert_eq!(choose_row(&layout, &[], NOW, 1_000, 0, 0), None);
    assert_eq!(first_due(&layout, &rows[..2]), Some(NOW + 900));
    assert_eq!(first_due(&layout, &[]), None);
}

#[test]
fn the_choice_doubles_with_each_conflict() {
    let layout = layout();
    let rows: Vec<Row> = (0..511).map(|worker| row(worker, "0,0")).collect();
    for (conflicts, expected) in [(0, 32), (1, 64), (2, 128), (40, 511)] {
        let chosen: HashSet<usize> = (0..2_000)
            .filter_map(|random| choose_row(&layout, &rows, NOW, 0, conflicts, random))
            .map(|choice| choice.index)
            .collect();
        assert_eq!(chosen.len(), expected);
        assert!(chosen.iter().all(|index| *index < expected));
    }
}

#[test]
fn any_never_written_row_can_be_chosen() {
    let layout = layout();
    let fresh = |worker| Row { heartbeat_ms: 0, ..row(worker, "0,0") };
    let mut rows: Vec<Row> = (0..300).map(fresh).collect();
    rows.extend((300..400).map(|worker| row(worker, "0,0")));
    let chosen: HashSet<usize> = (0..2_000)
        .filter_map(|random| choose_row(&layout, &rows, NOW, 0, 0, random))
        .map(|choice| choice.index)
        .collect();
    assert_eq!(chosen, (0..300).collect());
}
