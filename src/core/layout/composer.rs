//! Composing positions, on the path of every ID.

use super::{FieldOutOfRange, Fields, Layout, check};
use crate::core::id::Id;

/// Composes positions of one worker and lane into IDs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Composer {
    constant: u64,
    /// Every bit, except where the timestamp wraps.
    timestamp_mask: u64,
    positions_per_tick: u64,
    tick_shift: u32,
    sequence_shift: u32,
}

impl Composer {
    /// Composes the ID at a position, which must lie before [`Layout::end_position`].
    pub const fn compose(&self, position: u64) -> Id {
        let tick = (position / self.positions_per_tick) & self.timestamp_mask;
        let offset = position % self.positions_per_tick;
        // The constant holds min_sequence; adding the offset cannot carry out of the field,
        // since min_sequence + offset <= max_sequence.
        Id::from_composed(
            (tick << self.tick_shift) + self.constant + (offset << self.sequence_shift),
        )
    }

    /// Returns how many positions its tick has from this one on, itself included.
    pub const fn left_in_tick(&self, position: u64) -> u64 {
        self.positions_per_tick - position % self.positions_per_tick
    }

    /// The difference between neighbouring IDs of one tick.
    pub const fn step(&self) -> u64 {
        1 << self.sequence_shift
    }
}

impl Layout {
    /// Prepares to compose positions of one worker and lane.
    ///
    /// # Errors
    ///
    /// When the worker or lane does not fit, or when the worker is 0 where the time wraps.
    pub fn composer(&self, worker: u64, lane: u64) -> Result<Composer, FieldOutOfRange> {
        check("worker_id", worker, self.smallest_worker(), self.largest_worker())?;
        let constant = self.compose(&Fields {
            tick: 0,
            data_center: self.data_center,
            worker,
            lane,
            sequence: self.min_sequence,
            reserved: self.reserved,
        })?;
        let widths = self.widths;
        Ok(Composer {
            constant: constant.get(),
            timestamp_mask: if self.wraps { self.timestamp_mask() } else { u64::MAX },
            positions_per_tick: self.positions_per_tick(),
            tick_shift: widths.below_timestamp(),
            sequence_shift: widths.reserved,
        })
    }
}
