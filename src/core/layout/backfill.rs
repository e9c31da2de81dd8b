//! IDs for a past time: yitter's 'insert an ID for a historic instant'.
//!
//! Sequence numbers below the smallest one are never issued, so those of one worker and lane are
//! as many IDs of each tick as the layout reserves, to be handed out later.

use super::{Fields, Layout};
use crate::core::id::Id;

/// The worker of IDs for a past time; the lane is 0, too. Nothing is leased for them: the sequence
/// numbers alone keep them apart from all others.
const WORKER: u64 = 0;

impl Layout {
    /// How many IDs each tick has for later: the sequence numbers below
    /// [`Self::min_sequence`]; none where the time wraps.
    pub const fn backfill_per_tick(&self) -> u64 {
        if self.wraps { 0 } else { self.min_sequence }
    }

    /// The ID of a past tick with this number, below [`Self::backfill_per_tick`]; `None` where
    /// the layout has no such ID.
    pub fn backfilled(&self, tick: u64, number: u64) -> Option<Id> {
        if number >= self.backfill_per_tick() || tick > self.last_tick() {
            return None;
        }
        let fields = Fields {
            tick,
            data_center: self.data_center,
            worker: WORKER,
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
    use crate::core::preset::Preset;

    #[test]
    fn the_reserved_sequence_numbers_of_a_tick_are_its_ids_for_later() {
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
