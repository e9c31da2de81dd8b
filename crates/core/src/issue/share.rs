//! The share of new codes that each client may have.

use std::{collections::HashMap, fmt};

/// A client, and how many new codes it may have in a tick.
#[derive(Clone, Copy)]
pub(crate) struct Share<'a> {
    /// Identifies the client; called only for a new code.
    pub(crate) client: &'a (dyn Fn() -> u64 + Sync),
    pub(crate) max: usize,
}

/// How many new codes each client has had in the present tick.
#[derive(Debug, Default)]
pub(crate) struct NewCodes {
    /// The first position of the tick.
    tick: u64,
    by_client: HashMap<u64, usize>,
}

impl NewCodes {
    /// Counts a new code of a client; returns `false` if the client has had `max` already.
    pub(crate) fn count(&mut self, client: u64, max: usize, tick: u64) -> bool {
        if tick > self.tick {
            *self = Self { tick, by_client: HashMap::new() };
        }
        let count = self.by_client.entry(client).or_default();
        let has_left = *count < max;
        *count += usize::from(has_left);
        has_left
    }
}

impl fmt::Debug for Share<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Share").field("max", &self.max).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_client_has_its_share_in_each_tick() {
        let mut codes = NewCodes::default();
        let counted = [(1, 5), (1, 5), (1, 5), (2, 5), (1, 4), (1, 6), (1, 5), (1, 6), (2, 6)]
            .map(|(client, tick)| codes.count(client, 2, tick));
        // A thread that read the clock in an earlier tick counts in the present one.
        assert_eq!(counted, [true, true, false, true, false, true, true, false, true]);
    }
}
