//! Which IDs a span of time has.

use super::Layout;
use crate::core::{
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

/// A span that has no bounds.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BoundsError {
    /// It ends before it starts.
    #[error("from {} is after to {}", format_unix_ms(*.from_ms), format_unix_ms(*.to_ms))]
    Reversed {
        /// Where it starts, in Unix milliseconds.
        from_ms: i64,
        /// Where it ends, in Unix milliseconds.
        to_ms: i64,
    },
    /// One end is an instant that no ID of the layout can have.
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
    /// The layout's IDs do not follow time.
    #[error("the time of this layout wraps: an ID can be of many instants")]
    Wraps,
}

impl Layout {
    /// The IDs of the ticks from the one that contains `from_ms` up to, and without, the one that
    /// contains `to_ms`, whatever data centre, worker, lane or reserved value they have.
    ///
    /// An ID knows its instant only to the tick, so both ends are floored to the tick: spans that
    /// meet share no ID and miss none. With coarse units a span inside one tick is empty; give
    /// ends that are tick starts there. `borrow_ahead` and waiting callers may give an ID a tick
    /// slightly after the instant at which it was asked for.
    ///
    /// # Errors
    ///
    /// When the span is reversed, an end is before the epoch or past the timestamp's end, or the
    /// layout's time wraps.
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
