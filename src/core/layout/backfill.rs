//! IDs for a past time: yitter's 'insert an ID for a historic instant'.
//!
//! No lease issues sequence numbers below the layout's smallest one. Those of one worker and lane
//! are set aside as IDs of each tick that can be handed out later.

use super::{Fields, Layout};
use crate::core::id::Id;

/// The worker of IDs for a past time; their lane is 0, too. No lease is needed: the sequence numbers
/// alone keep them apart from all others.
const WORKER: u64 = 0;

impl Layout {
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
