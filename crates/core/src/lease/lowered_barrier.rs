//! Lowers a barrier that was set far ahead by a clock that was itself ahead.
//!
//! No node lowers a barrier. Nothing in a store proves that no lost write leased up to it; a mark
//! above the barrier does not prove it either. Only an operator can lower one, because only an
//! operator can know that the store lost no write which a process made while a clock was ahead.
//! [`History::lowered`] checks everything else, and writes nothing: its caller swaps the record.
//!
//! `since_ms` of the present epoch is not checked. After the clock was corrected, a restart of the
//! store begins another epoch, which keeps the barrier. `docs/safety/operator-commands.md` has the
//! argument. `tests/models/model/clock_ahead.rs` explores it; unit tests are at the end of this
//! file.

use super::{EpochClocks, History, HistoryVerdict, NodeTimes, Token, planted};
use crate::instant::format_unix_ms_or_year;

/// Why a barrier is not lowered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BarrierStays {
    /// Correct clocks may have set it.
    #[error(
        "it is at {}, which is not so far ahead that a wrong clock must have put it there: wait \
         until then",
        format_unix_ms_or_year(*.barrier_ms)
    )]
    InReach {
        /// The barrier, Unix ms.
        barrier_ms: i64,
    },
    /// The epoch has no barrier yet.
    #[error(
        "the present epoch has none yet, because the clocks of node and store differ: correct the \
         wrong clock"
    )]
    Pending,
    /// The epoch began on another server, so the next process that reads the record begins a new
    /// one.
    #[error(
        "the present epoch began on another server, so a node begins a new one: start a node or \
         wait for one that runs, and run the command again"
    )]
    OtherServer,
}

impl History {
    /// Returns whether the barrier is so far ahead of `now_ms`, the Unix ms of a correct clock,
    /// that a clock which was ahead must have set it. The threshold is twice the longest lease,
    /// since the clocks of node and store may differ by up to a window when an epoch begins.
    pub fn is_far_ahead(&self, now_ms: i64) -> bool {
        let farthest_ms = now_ms.saturating_add(self.reach.ms.saturating_mul(2));
        self.barrier_ms > farthest_ms.max(self.reached_ms)
    }

    /// Returns the history with a new epoch, in which no lease continues in place, and with a
    /// barrier ahead of `now_ms` by the longest lease. `now_ms` is the Unix ms of a correct clock.
    /// See [`Self::raised`].
    ///
    /// # Errors
    ///
    /// When correct clocks may have set the barrier, when the epoch has none, or when the next
    /// process that reads the record begins an epoch.
    pub fn lowered(
        &self,
        server: Option<&str>,
        fresh: [Token; 2],
        now_ms: i64,
        own: NodeTimes,
    ) -> Result<Self, BarrierStays> {
        let raised = self.raised(&self.identity, fresh, EpochClocks::of_store(now_ms), own);
        if self.lacks_barrier() {
            return Err(BarrierStays::Pending);
        }
        if self.judge(server, None) == HistoryVerdict::OtherServer {
            return Err(BarrierStays::OtherServer);
        }
        let reach_ms = planted::reach_ms(raised.reach.ms);
        let lowest_ms = now_ms.saturating_add(reach_ms).max(self.reached_ms);
        if !self.is_far_ahead(now_ms) || self.barrier_ms <= lowest_ms {
            return Err(BarrierStays::InReach { barrier_ms: self.barrier_ms });
        }
        Ok(Self { barrier_ms: lowest_ms, ..raised })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lease::{BarrierState, LastWrite};

    const NOW: i64 = 1_763_650_000_000;
    const AHEAD: i64 = 8 * 3_600_000;
    const OWN: NodeTimes = NodeTimes { reach_ms: 320_000, renew_ms: 30_000 };

    fn token(bits: u128) -> Token {
        Token::from_bits(bits)
    }

    /// Returns a history whose present epoch began at this instant.
    fn begun(at_ms: i64) -> History {
        let first = History::first("a", token(1), OWN);
        first.next("a", token(2), EpochClocks::of_store(at_ms), OWN)
    }

    fn lower(history: &History) -> Result<History, BarrierStays> {
        history.lowered(Some("a"), [token(8), token(9)], NOW, OWN)
    }

    #[test]
    fn barrier_of_an_epoch_that_began_ahead_is_lowered() {
        let far = begun(NOW + AHEAD);
        assert!(far.is_far_ahead(NOW));
        let lowered = lower(&far).expect("it is far ahead");
        assert_eq!((lowered.barrier_ms, lowered.since_ms), (NOW + OWN.reach_ms, NOW));
        assert_eq!((lowered.epoch(), lowered.missed(token(2))), (token(9), 2));
        assert!(!lowered.is_far_ahead(NOW));
        // No lease continues in place.
        let held = LastWrite { token: token(3), epoch: token(2), store_ms: NOW, ttl_ms: 90_000 };
        assert!(!lowered.is_unbroken(&held, true, 10_000));
    }

    /// A restart of the store begins an epoch by the corrected clock, which keeps the barrier.
    #[test]
    fn barrier_is_lowered_in_a_later_epoch_too() {
        let later = begun(NOW + AHEAD).next("a", token(3), EpochClocks::of_store(NOW), OWN);
        assert_eq!(later.barrier_ms, NOW + AHEAD + OWN.reach_ms);
        assert!(later.is_far_ahead(NOW));
        assert_eq!(lower(&later).expect("far ahead").barrier_ms, NOW + OWN.reach_ms);
    }

    /// Leases by a clock that was ahead of the store's are registered as an instant.
    #[test]
    fn barrier_is_not_lowered_below_what_was_reached() {
        let reached_ms = NOW + 900_000;
        let reached = History { reached_ms, ..begun(NOW + AHEAD) };
        assert_eq!(lower(&reached).expect("far ahead").barrier_ms, reached_ms);
        let barrier_ms = reached.barrier_ms;
        let reached = History { reached_ms: barrier_ms, ..reached };
        assert_eq!(lower(&reached), Err(BarrierStays::InReach { barrier_ms }));
    }

    /// A lease with the command's own window counts like a registered one.
    #[test]
    fn barrier_is_lowered_to_the_longest_lease() {
        let longer = NodeTimes { reach_ms: 3_600_000, ..OWN };
        let lowered = begun(NOW + AHEAD).lowered(Some("a"), [token(8), token(9)], NOW, longer);
        assert_eq!(lowered.expect("far ahead").barrier_ms, NOW + longer.reach_ms);
        let longest = NodeTimes { reach_ms: 2 * AHEAD, ..OWN };
        let stays = begun(NOW + AHEAD).lowered(Some("a"), [token(8), token(9)], NOW, longest);
        let barrier_ms = NOW + AHEAD + OWN.reach_ms;
        assert_eq!(stays, Err(BarrierStays::InReach { barrier_ms }));
    }

    #[test]
    fn barrier_stays_where_right_clocks_may_have_put_it() {
        for began_ms in [NOW - 1_000, NOW + OWN.reach_ms] {
            let history = begun(began_ms);
            let barrier_ms = history.barrier_ms;
            assert!(!history.is_far_ahead(NOW));
            assert_eq!(lower(&history), Err(BarrierStays::InReach { barrier_ms }));
        }
        assert!(lower(&begun(NOW + OWN.reach_ms + 1)).is_ok());
        let first = History::first("a", token(1), OWN);
        assert_eq!(lower(&first), Err(BarrierStays::InReach { barrier_ms: 0 }));
    }

    #[test]
    fn barrier_stays_while_another_epoch_is_due() {
        let pending = History { barrier_state: BarrierState::Pending, ..begun(NOW + AHEAD) };
        assert_eq!(lower(&pending), Err(BarrierStays::Pending));
        let elsewhere = begun(NOW + AHEAD).lowered(Some("b"), [token(8), token(9)], NOW, OWN);
        assert_eq!(elsewhere, Err(BarrierStays::OtherServer));
        // Identities are not compared, or none is recorded yet.
        assert!(begun(NOW + AHEAD).lowered(None, [token(8), token(9)], NOW, OWN).is_ok());
        let unknown = History { identity: String::new(), ..begun(NOW + AHEAD) };
        assert!(lower(&unknown).is_ok());
    }
}
