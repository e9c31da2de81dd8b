//! Composes IDs: of positions, for every ID that is issued, and of past ticks, for backfill.
//!
//! No lease issues sequence numbers below the layout's `min_sequence`. Those numbers, with one
//! worker and one lane, are free for IDs of past ticks. yitter calls this "inserting an ID for a
//! historic instant".

use super::{FieldOutOfRange, Fields, Layout, check};
use crate::id::Id;

/// Composes positions of one worker and lane into IDs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Composer {
    constant: u64,
    /// The bits of a timestamp that wraps; all bits if it does not wrap.
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

    /// Returns how many positions the tick of `position` has from there on, including it.
    pub const fn left_in_tick(&self, position: u64) -> u64 {
        self.positions_per_tick - position % self.positions_per_tick
    }

    /// Returns how many ticks follow the tick of `position` before the timestamp wraps. If it never
    /// wraps, the result is larger than any claim.
    pub const fn ticks_before_wrap(&self, position: u64) -> u64 {
        let tick = position / self.positions_per_tick;
        self.timestamp_mask - (tick & self.timestamp_mask)
    }

    /// Returns the difference between IDs at the same place of neighbouring ticks.
    pub const fn stride(&self) -> u64 {
        1 << self.tick_shift
    }

    /// Returns the difference between neighbouring IDs of one tick.
    pub const fn step(&self) -> u64 {
        1 << self.sequence_shift
    }
}

/// The worker and the lane of every ID for a past time. They need no lease, because the sequence
/// number alone keeps these IDs apart from all others.
const BACKFILL_WORKER: u64 = 0;

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
        Ok(Composer {
            constant: constant.get(),
            timestamp_mask: if self.wraps { self.timestamp_mask() } else { u64::MAX },
            positions_per_tick: self.positions_per_tick(),
            tick_shift: self.widths.below_timestamp(),
            sequence_shift: self.sequence_shift(),
        })
    }

    /// Returns the number of IDs for a past time in each tick: [`Self::min_sequence`], or 0 where
    /// the time wraps.
    pub const fn backfill_per_tick(&self) -> u64 {
        if self.wraps { 0 } else { self.min_sequence }
    }

    /// Returns the ID of a past tick with this number, below [`Self::backfill_per_tick`]; `None` if
    /// the layout has no such ID.
    pub fn backfilled(&self, tick: u64, number: u64) -> Option<Id> {
        if number >= self.backfill_per_tick() || tick > self.last_tick() {
            return None;
        }
        let fields = Fields {
            tick,
            data_center: self.data_center,
            worker: BACKFILL_WORKER,
            lane: 0,
            sequence: number,
            reserved: self.reserved,
        };
        self.join(&fields).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::preset::Preset;

    #[test]
    fn backfilled_ids_use_the_sequence_numbers_below_the_smallest() {
        let layout = Preset::Yitter.layout();
        assert_eq!(layout.backfill_per_tick(), 5);
        let fields: Vec<Fields> = (0..5)
            .map(|number| {
                layout.decompose(layout.backfilled(31_507_201_094, number).expect("reserved"))
            })
            .collect();
        for (number, fields) in (0..).zip(fields) {
            assert_eq!((fields.tick, fields.sequence), (31_507_201_094, number));
            assert_eq!((fields.worker, fields.lane), (0, 0));
        }
        assert_eq!(layout.backfilled(31_507_201_094, 5), None);
        assert_eq!(layout.backfilled(layout.last_tick() + 1, 0), None);
        assert_eq!(Preset::Raindrop.layout().backfilled(1, 0), None);
    }
}
