//! Decides when a namespace may move to another layout, and reads and writes the record of a move.
//!
//! Every ID that the old marks allow must be below every ID that the new layout will issue:
//! [`judge_relayout`] compares [`largest_id_allowed`] with the smallest ID that the new layout can
//! issue now. Tests: `relayout/tests.rs`.

use std::{fmt, str::FromStr};

use super::HighWaterMarks;
use crate::{id::Id, layout::Layout};

/// Returns an upper bound of the IDs that leases below these marks can issue; `None` if they can
/// issue none.
///
/// The bound is the last ID of the tick of the highest position below a mark. So a mark that no
/// lease has raised, at the first position of a tick, allows everything below that tick; that
/// includes what an earlier layout issued.
pub fn largest_id_allowed<'a>(
    layout: &Layout,
    marks: impl IntoIterator<Item = &'a HighWaterMarks>,
) -> Option<Id> {
    let last = marks.into_iter().flat_map(HighWaterMarks::iter).max()?.checked_sub(1)?;
    // A mark beyond the layout's last tick allows every ID.
    Some(layout.largest_id(layout.tick_of(last).min(layout.last_tick())))
}

/// Whether a namespace may move to another layout now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RelayoutVerdict {
    /// The namespace may move: from this tick on, every ID of the new layout is above what the old
    /// marks allow.
    Allowed {
        /// The new layout's present tick.
        tick: u64,
        /// Its smallest ID from now on.
        smallest_new: Id,
    },
    /// The namespace may not move yet: IDs that the new layout would issue now are not above what
    /// the old marks allow.
    TooSmall {
        /// The smallest ID that the new layout can issue now.
        smallest_new: Id,
        /// The instant, in Unix ms, from which they are above, if the marks do not rise; `None` if
        /// that is past the new layout's end.
        from_ms: Option<i64>,
    },
    /// The namespace may not move: the store's clock is before the new layout's epoch or past its
    /// end.
    OutOfRange,
}

/// Judges whether the smallest ID that the new layout can issue at `now_ms` (Unix ms) is above
/// everything that the old marks allow.
pub fn judge_relayout(new: &Layout, now_ms: i64, largest_old: Option<Id>) -> RelayoutVerdict {
    let Some(tick) = new.tick_in_range(now_ms) else { return RelayoutVerdict::OutOfRange };
    let smallest_new = new.smallest_id(tick);
    match largest_old {
        Some(largest_old) if smallest_new <= largest_old => {
            let first = new.decompose(largest_old).tick + 1;
            // IDs of a layout whose time wraps do not keep growing.
            let is_reached = !new.wraps() && first <= new.last_tick();
            let from_ms = is_reached.then(|| new.start_of_tick_ms(first));
            RelayoutVerdict::TooSmall { smallest_new, from_ms }
        }
        _ => RelayoutVerdict::Allowed { tick, smallest_new },
    }
}

/// The content of a layout record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Recorded {
    /// The namespace has the layout with this canonical text.
    Settled(String),
    /// The namespace is being moved to another layout, and no node may join.
    Moving(Relayout),
}

/// A move from one layout to another that has begun and is not finished.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Relayout {
    /// Its stage.
    pub stage: RelayoutStage,
    /// The canonical text of the old layout.
    pub from: String,
    /// The canonical text of the new layout.
    pub to: String,
}

/// The stage of a move.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RelayoutStage {
    /// Rows get fresh tokens, which fences their holders. The marks are still the old layout's.
    Fencing,
    /// The move is allowed: the marks become the first position of this tick of the new layout.
    Converting {
        /// The tick.
        tick: u64,
    },
}

/// The beginning of every record of a move.
const MOVING: &str = "relayout ";

/// A record that is neither a layout nor a move.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the layout record {0:?} is not what any version of `raindrop workers relayout` writes")]
pub struct InvalidRelayout(String);

impl InvalidRelayout {
    /// Returns the error that quotes this record.
    pub fn of(record: &str) -> Self {
        Self(record.to_owned())
    }
}

impl Recorded {
    /// Returns the canonical text of the layout that nodes use, or used until a move began.
    pub fn present(&self) -> &str {
        match self {
            Self::Settled(layout) => layout,
            Self::Moving(relayout) => &relayout.from,
        }
    }

    /// Reads the text of a record. Does not check the canonical text of a layout.
    ///
    /// # Errors
    ///
    /// When the text begins like a move but is not one.
    pub fn read(text: &str) -> Result<Self, InvalidRelayout> {
        if text.starts_with(MOVING) {
            text.parse().map(Self::Moving)
        } else {
            Ok(Self::Settled(text.to_owned()))
        }
    }
}

impl fmt::Display for Relayout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { stage, from, to } = self;
        match stage {
            RelayoutStage::Fencing => write!(f, "{MOVING}stage=fencing")?,
            RelayoutStage::Converting { tick } => {
                write!(f, "{MOVING}stage=converting tick={tick}")?;
            }
        }
        write!(f, " from=[{from}] to=[{to}]")
    }
}

impl FromStr for Relayout {
    type Err = InvalidRelayout;

    fn from_str(text: &str) -> Result<Self, InvalidRelayout> {
        let relayout = Self::parse(text).filter(|relayout| relayout.to_string() == text);
        relayout.ok_or_else(|| InvalidRelayout::of(text))
    }
}

impl Relayout {
    /// Parses a text that [`Display`](fmt::Display) wrote. Another one may give a value, too.
    fn parse(text: &str) -> Option<Self> {
        let (stage_text, layouts) = text.strip_prefix(MOVING)?.split_once(" from=[")?;
        let stage = match stage_text.strip_prefix("stage=converting tick=") {
            Some(tick) => RelayoutStage::Converting { tick: tick.parse().ok()? },
            None => RelayoutStage::Fencing,
        };
        let (from, to) = layouts.strip_suffix(']')?.split_once("] to=[")?;
        Some(Self { stage, from: from.to_owned(), to: to.to_owned() })
    }
}

#[cfg(test)]
mod tests;
