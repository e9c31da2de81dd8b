//! Which row and lane to take.

use super::{Marks, Row};
use crate::core::layout::Layout;

/// How many of the longest-unused rows the first try chooses from; each conflict doubles it.
const CHOICE: usize = 32;

/// A row and lane to take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Choice {
    /// Index of the row among those that were given.
    pub index: usize,
    /// The lane, whose mark becomes the lease's start.
    pub lane: usize,
}

/// Returns the first lane, from the layout's initial one on, whose mark comes due by `due_ms` (Unix
/// ms): the tick of the mark is not after the tick of that instant. Leaves out the lane `except`.
///
/// A lane that is due now can issue at once; one that is due later, once callers have waited.
pub fn usable_lane(
    layout: &Layout,
    marks: &Marks,
    due_ms: i64,
    except: Option<usize>,
) -> Option<usize> {
    let due = layout.tick_in_range(due_ms)?;
    let initial = layout.rollback_initial() as usize;
    (0..marks.lanes())
        .map(|offset| (initial + offset) % marks.lanes())
        .filter(|lane| Some(*lane) != except)
        .find(|lane| layout.tick_of(marks[*lane]) <= due)
}

/// Chooses among free rows, which must come longest unused first.
///
/// Rows with a mark that is past come before rows with a mark that comes due within `max_wait_ms`.
/// Among equals the choice is random (`random` is any number): over the 32 longest unused, doubled
/// with each conflict, so that nodes that start together rarely meet on a row; over all that were
/// never written, so that two stores used by mistake rarely give out the same worker id.
pub fn choose_row(
    layout: &Layout,
    free: &[Row],
    now_ms: i64,
    max_wait_ms: i64,
    conflicts: u32,
    random: u64,
) -> Option<Choice> {
    let due_by = |due_ms: i64| {
        free.iter()
            .enumerate()
            .filter_map(|(index, row)| {
                usable_lane(layout, &row.marks, due_ms, None).map(|lane| Choice { index, lane })
            })
            .enumerate()
            .take_while(|(number, choice)| {
                *number < CHOICE << conflicts.min(16) || free[choice.index].was_never_written()
            })
            .map(|(_, choice)| choice)
            .collect::<Vec<_>>()
    };
    let mut candidates = due_by(now_ms);
    if candidates.is_empty() {
        candidates = due_by(now_ms.saturating_add(max_wait_ms));
    }
    let count = u64::try_from(candidates.len()).ok().filter(|count| *count > 0)?;
    usize::try_from(random % count).ok().map(|chosen| candidates[chosen])
}

/// Returns when the first lane of these rows comes due, in Unix ms; `None` without rows.
pub fn first_due(layout: &Layout, rows: &[Row]) -> Option<i64> {
    let marks = rows.iter().flat_map(|row| row.marks.iter());
    marks.min().map(|mark| layout.start_of_tick_ms(layout.tick_of(mark)))
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;
    use crate::core::{
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
        let marks = |a: u64, b: u64| format!("{a},{b}").parse::<Marks>().expect("marks");
        let lane = |marks: &Marks, except| usable_lane(&layout, marks, NOW, except);
        assert_eq!(lane(&marks(now + 4095, now), None), Some(0));
        assert_eq!(lane(&marks(now + 4096, now), None), Some(1));
        assert_eq!(lane(&marks(now + 4096, now + 4096), None), None);
        assert_eq!(lane(&marks(0, 0), Some(0)), Some(1));
        assert_eq!(usable_lane(&layout, &marks(now + 4096, now + 4096), NOW + 1, None), Some(0));
    }

    #[test]
    fn fresh_rows_use_the_initial_lane() {
        let layout =
            LayoutSpec { rollback_initial: 1, ..LayoutSpec::for_unit(TimeUnit::Millisecond) }
                .build()
                .expect("valid");
        let marks = Marks::all_at(0, 2);
        assert_eq!(usable_lane(&layout, &marks, NOW, None), Some(1));
        assert_eq!(usable_lane(&layout, &marks, NOW, Some(1)), Some(0));
    }

    #[test]
    fn rows_with_a_past_mark_come_first_and_the_others_within_the_wait() {
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
    fn rows_that_were_never_written_are_all_equal() {
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
}
