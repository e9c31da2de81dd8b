//! The high-water marks of a row: one position for each lane.
//!
//! Every position below a mark may have been issued, so the next lease of the lane starts at the
//! mark or above. The store has a mark *before* any position below it is issued.
//!
//! These functions compute marks, and never decide whether a mark may fall. Only the process that
//! raised a mark lowers it, for a sealed grant, with [`HeldLanes`](super::HeldLanes);
//! `docs/safety/argument.md` has the rule. The caller must know the layout of the marks: those of
//! another layout are in other units. Tests are at the end of this file.

use std::{fmt, iter, ops::Index, str::FromStr};

/// The high-water mark of each lane: every position below it may have been issued, so the next
/// lease of the lane starts there or above.
///
/// Stores keep marks as text, decimal numbers joined by commas, because the scripts of some engines
/// compute in doubles and would round large positions.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct HighWaterMarks(Box<[u64]>);

/// A text that is not a list of marks.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("marks are 1, 2, 4 or 8 decimal numbers below 2^63, joined by commas")]
pub struct InvalidHighWaterMarks;

impl HighWaterMarks {
    /// Creates marks that are the same on every lane.
    pub fn all_at(position: u64, lanes: usize) -> Self {
        Self(vec![position; lanes].into())
    }

    /// Returns the number of lanes.
    pub const fn lanes(&self) -> usize {
        self.0.len()
    }

    /// Returns these marks with the mark of one lane replaced.
    #[must_use]
    pub fn with(&self, lane: usize, mark: u64) -> Self {
        let mut marks = self.clone();
        marks.0[lane] = mark;
        marks
    }

    /// Returns these marks, with each one below `floor` raised to it.
    #[must_use]
    pub fn at_least(&self, floor: u64) -> Self {
        Self(self.iter().map(|mark| mark.max(floor)).collect())
    }

    /// Returns the higher of both marks for each lane.
    #[must_use]
    pub fn raised_to(&self, other: &Self) -> Self {
        let others = other.iter().chain(iter::repeat(0));
        Self(self.iter().zip(others).map(|(mark, other)| mark.max(other)).collect())
    }

    /// Returns the mark of each lane, in order.
    pub fn iter(&self) -> impl Iterator<Item = u64> + '_ {
        self.0.iter().copied()
    }
}

impl Index<usize> for HighWaterMarks {
    type Output = u64;

    fn index(&self, lane: usize) -> &u64 {
        &self.0[lane]
    }
}

impl fmt::Display for HighWaterMarks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.iter().map(u64::to_string).collect::<Vec<_>>().join(","))
    }
}

impl FromStr for HighWaterMarks {
    type Err = InvalidHighWaterMarks;

    fn from_str(text: &str) -> Result<Self, InvalidHighWaterMarks> {
        let mark = |text: &str| {
            let digits_only = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
            let mark = text.parse().ok().filter(|mark| *mark <= i64::MAX as u64);
            mark.filter(|_| digits_only).ok_or(InvalidHighWaterMarks)
        };
        let marks: Box<[u64]> = text.split(',').map(mark).collect::<Result<_, _>>()?;
        if matches!(marks.len(), 1 | 2 | 4 | 8) {
            Ok(Self(marks))
        } else {
            Err(InvalidHighWaterMarks)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_are_written_and_read_exactly() {
        for text in ["0", "1,2", "4611686018427387904,4611686018427387903", "1,2,3,4,5,6,7,8"] {
            assert_eq!(text.parse::<HighWaterMarks>().expect("marks").to_string(), text);
        }
        for text in ["", ",", "1,", "1,2,3", "-1", "+1", "1, 2", "9223372036854775808", "1e9"] {
            assert_eq!(text.parse::<HighWaterMarks>(), Err(InvalidHighWaterMarks), "{text:?}");
        }
    }
}
