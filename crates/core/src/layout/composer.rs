//! Composing IDs: from positions, on the path of every ID, and for a past time.
//!
//! No lease issues sequence numbers below the layout's smallest one. Those of one worker and lane
//! are set aside as IDs of each tick that can be handed out later: yitter's 'insert an ID for a
//! historic instant'.

use super::{FieldOutOfRange, Fields, Layout, check};
use crate::id::Id;

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

    /// Returns how many ticks follow that of a position before the timestamp wraps, if it does.
    pub const fn ticks_before_wrap(&self, position: u64) -> u64 {
        let tick = position / self.positions_per_tick;
        self.timestamp_mask - (tick & self.timestamp_mask)
    }

    /// The difference between IDs at the same place of neighbouring ticks.
    pub const fn stride(&self) -> u64 {
        1 << self.tick_shift
    }

    /// The difference between neighbouring IDs of one tick.
    pub const fn step(&self) -> u64 {
        1 << self.sequence_shift
    }
}

/// The worker of IDs for a past time; their lane is 0, too. No lease is needed: the sequence numbers
/// alone keep them apart from all others.
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

    /// The number of IDs for a past time in each tick: [`Self::min_sequence`], or 0 where the time
    /// wraps.
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
