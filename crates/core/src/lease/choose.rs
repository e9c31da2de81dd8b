//! Chooses which free row and lane to take.
//!
//! Safety does not depend on the choice: the swap decides who gets a row, and the lease starts at
//! the mark that the swap read. The choice only avoids waiting, for a mark that lies ahead, and
//! conflicts.
//!
//! The caller passes only rows that it may lease, longest unused first, with their marks as they
//! count in the present epoch ([`History::marks`](super::History::marks)). Tests:
//! `choose/tests.rs`.

use super::{HighWaterMarks, Row};
use crate::layout::Layout;

/// Number of longest-unused rows from which the first try chooses; each conflict doubles it.
const CHOICE: usize = 32;

/// A row and lane to take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Choice {
    /// The index of the row in the given list.
    pub index: usize,
    /// The lane; its mark becomes the lease's start.
    pub lane: usize,
}

/// Returns the first lane, counted from the layout's initial one, whose mark comes due by `due_ms`
/// (Unix ms): the mark's tick is not after the tick of that instant. Never returns the lane
/// `except`.
///
/// A lane that is due now can issue at once. Claims on a lane that is due later wait until then.
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

/// Chooses among free rows, which must be sorted longest unused first.
///
/// A row with a past mark is preferred to one whose mark comes due within `max_wait_ms`. Among
/// equals the choice is random (`random` is any number): among the 32 longest-unused rows, doubled
/// with each conflict, so that nodes that start together rarely choose the same row. Rows that were
/// never written all count as equals, so that two stores used by mistake rarely give out the same
/// worker id.
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
