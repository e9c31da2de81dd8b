//! Judges whether a node may acquire or renew leases by its wall clock.
//!
//! Only a clock that is *ahead* is refused: it would use up positions, for which every node would
//! then have to wait. The rollback policy handles a clock that is behind.

use std::time::Duration;

use super::EpochClocks;

/// The store's clock, read between two readings of the node's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StoreReading {
    /// The node's wall clock before the query was sent, Unix ms.
    pub sent_ms: i64,
    /// The store's clock when it answered, Unix ms.
    pub store_ms: i64,
    /// The node's wall clock when the answer had arrived, Unix ms.
    pub received_ms: i64,
}

impl StoreReading {
    /// Returns by how much the node's clock is certainly ahead of the store's, in ms. The result is
    /// negative if it is behind, and 0 if the duration of the query can explain the difference, so
    /// that a slow store never makes the node's clock look ahead.
    pub fn node_ahead_ms(&self) -> i64 {
        let least = self.sent_ms.saturating_sub(self.store_ms);
        let most = self.received_ms.saturating_sub(self.store_ms);
        if least > 0 { least } else { most.min(0) }
    }

    /// Returns both clocks for an epoch that begins now. If they differ by `most` or more, either
    /// may be wrong, and there is no later one.
    pub fn epoch_clocks(&self, most: Duration) -> EpochClocks {
        let agree = u128::from(self.node_ahead_ms().unsigned_abs()) < most.as_millis();
        let later_ms = agree.then(|| self.store_ms.max(self.received_ms));
        EpochClocks { store_ms: self.store_ms, later_ms }
    }
}

/// The input of [`judge_clock`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClockCheck {
    /// The store's clock; `None` if the store has no clock of its own.
    pub store: Option<StoreReading>,
    /// By how much the wall clock gained on the steady clock since the last renewal, in ms; `None`
    /// if no lease is held.
    pub ahead_since_renewal_ms: Option<i64>,
    /// By how much the node's clock may be ahead.
    pub max_skew: Duration,
}

/// Whether a lease may be acquired or renewed with the node's wall clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClockVerdict {
    /// The lease may be acquired or renewed.
    Trusted,
    /// The lease may be renewed, although the node's clock is ahead of the store's by this many ms.
    /// The node's clock ran evenly since the last renewal, so the store's clock is wrong.
    StoreBehind(i64),
    /// The lease may not be acquired or renewed: the node's clock is ahead by this many ms.
    Ahead(i64),
}

/// Judges the node's wall clock before an acquire or a renewal.
///
/// For an acquire, the store's clock alone decides. While a lease is held, the node's clock is
/// refused only if it also gained on the steady clock since the last renewal. So a wrong store
/// clock alone changes nothing. Without a clock of the store, only the gain counts.
pub fn judge_clock(check: &ClockCheck) -> ClockVerdict {
    let tolerated = i64::try_from(check.max_skew.as_millis()).unwrap_or(i64::MAX);
    let beyond = |ahead: i64| Some(ahead).filter(|ahead| *ahead > tolerated);
    let ahead_of_store = check.store.map(|reading| beyond(reading.node_ahead_ms()));
    let ahead_of_steady = check.ahead_since_renewal_ms.map(beyond);
    match (ahead_of_store, ahead_of_steady) {
        (Some(Some(ahead)), None | Some(Some(_))) | (None, Some(Some(ahead))) => {
            ClockVerdict::Ahead(ahead)
        }
        (Some(Some(ahead)), Some(None)) => ClockVerdict::StoreBehind(ahead),
        (Some(None), _) | (None, None | Some(None)) => ClockVerdict::Trusted,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(ahead_of_store: Option<i64>, ahead_since_renewal_ms: Option<i64>) -> ClockVerdict {
        let store = ahead_of_store.map(|ahead| StoreReading {
            sent_ms: 1_000_000 + ahead,
            store_ms: 1_000_000,
            received_ms: 1_000_005 + ahead,
        });
        judge_clock(&ClockCheck {
            store,
            ahead_since_renewal_ms,
            max_skew: Duration::from_secs(10),
        })
    }

    #[test]
    fn store_clock_decides_for_an_acquire() {
        assert_eq!(check(Some(10_000), None), ClockVerdict::Trusted);
        assert_eq!(check(Some(10_001), None), ClockVerdict::Ahead(10_001));
        assert_eq!(check(Some(-3_600_000), None), ClockVerdict::Trusted);
        assert_eq!(check(None, None), ClockVerdict::Trusted);
    }

    #[test]
    fn wrong_store_clock_alone_is_ignored_while_a_lease_is_held() {
        assert_eq!(check(Some(3_600_000), Some(0)), ClockVerdict::StoreBehind(3_600_000));
        assert_eq!(check(Some(3_600_000), Some(3_600_000)), ClockVerdict::Ahead(3_600_000));
        assert_eq!(check(Some(0), Some(3_600_000)), ClockVerdict::Trusted);
    }

    #[test]
    fn store_without_a_clock_is_not_consulted() {
        assert_eq!(check(None, Some(10_000)), ClockVerdict::Trusted);
        assert_eq!(check(None, Some(10_001)), ClockVerdict::Ahead(10_001));
    }

    #[test]
    fn a_slow_answer_is_not_a_skew() {
        let slow = StoreReading { sent_ms: 0, store_ms: 20_000, received_ms: 30_000 };
        assert_eq!(slow.node_ahead_ms(), 0);
        let frozen = StoreReading { sent_ms: 0, store_ms: 50, received_ms: 60_000 };
        assert_eq!(frozen.node_ahead_ms(), 0);
        let behind = StoreReading { sent_ms: 0, store_ms: 5_000, received_ms: 10 };
        assert_eq!(behind.node_ahead_ms(), -4_990);
        let stepped_back = StoreReading { sent_ms: 50, store_ms: 50, received_ms: 10 };
        assert_eq!(stepped_back.node_ahead_ms(), -40);
    }
}
