//! The range of IDs that belongs to a span of time, for queries by time.

use super::Layout;
use crate::{
    id::Id,
    instant::{format_unix_ms, format_unix_ms_short},
};

/// The IDs of a span of time: `id >= from AND id < until`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// The smallest ID of the tick that contains the span's start.
    pub from: Id,
    /// The smallest ID of the tick that contains the span's end.
    pub until: Id,
}

/// Why a span of time has no bounds.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BoundsError {
    /// The span ends before it starts.
    #[error("from {} is after to {}", format_unix_ms(*.from_ms), format_unix_ms(*.to_ms))]
    Reversed {
        /// Where it starts, in Unix milliseconds.
        from_ms: i64,
        /// Where it ends, in Unix milliseconds.
        to_ms: i64,
    },
    /// The timestamp cannot hold the start or the end of the span.
    #[error(
        "{end} {} must be {} to {}, the instants of this layout",
        format_unix_ms(*.instant_ms), format_unix_ms_short(*.first_ms), format_unix_ms(*.last_ms)
    )]
    OutOfRange {
        /// `from` or `to`.
        end: &'static str,
        /// The instant, in Unix milliseconds.
        instant_ms: i64,
        /// The first possible instant.
        first_ms: i64,
        /// The last possible instant.
        last_ms: i64,
    },
    /// The layout's time wraps.
    #[error("the time of this layout wraps: an ID can be of many instants")]
    Wraps,
}

impl Layout {
    /// Returns the IDs from the tick of `from_ms` up to, but not including, the tick of `to_ms`,
    /// for every data centre, worker, lane and reserved value. Both ends are Unix milliseconds.
    ///
    /// The time of an ID is its tick, so both ends are floored to the tick: adjacent spans share no
    /// ID and miss none. With coarse units, give ends that are starts of ticks: a span inside one
    /// tick is empty. An ID may have a tick slightly after its request, because callers may borrow
    /// ahead or wait.
    ///
    /// # Errors
    ///
    /// When the span ends before it starts, when the timestamp cannot hold its start or end, or
    /// when the layout's time wraps.
    pub fn bounds(&self, from_ms: i64, to_ms: i64) -> Result<Bounds, BoundsError> {
        if self.wraps {
            return Err(BoundsError::Wraps);
        }
        if from_ms > to_ms {
            return Err(BoundsError::Reversed { from_ms, to_ms });
        }
        let smallest = |end, instant_ms| {
            let tick = self.tick_in_range(instant_ms).ok_or_else(|| BoundsError::OutOfRange {
                end,
                instant_ms,
                first_ms: self.epoch_ms(),
                last_ms: self.valid_until_ms() - 1,
            })?;
            Ok(self.smallest_id(tick))
        };
        Ok(Bounds { from: smallest("from", from_ms)?, until: smallest("to", to_ms)? })
    }
}
