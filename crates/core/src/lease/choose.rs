//! Which row and lane to take.

use super::{HighWaterMarks, Row};
use crate::layout::Layout;

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
    marks: &HighWaterMarks,
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
mod tests;
