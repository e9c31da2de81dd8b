//! The longest lease times of the nodes of a namespace, and how they fall again.
//!
//! A barrier must be beyond every lease that a lost write can have granted, so the record of a
//! namespace has the longest time of any node. A node with longer times records them before it
//! leases. The longest time falls once no node uses it:
//!
//! 1. A node with a shorter time records its own as the *shorter time*, with the instant when the
//!    longest was last used.
//! 2. While a shorter time is recorded, the nodes that use the longest renew that instant every
//!    hour.
//! 3. The shorter time replaces the longest when a day, and the longest time itself, have passed
//!    since the instant.
//!
//! A fleet of equal nodes records no shorter time and writes nothing. This module uses only the
//! store's clock. The keeper (`history/mod.rs`) needs more, because a backup shows an old
//! instant: the keeper must also have read the same times for two hours. `docs/safety/windows.md`
//! has the argument, and `tests/models/model/long_window.rs` explores it.

use std::{fmt, str::FromStr};

use super::{History, NodeTimes, planted};

/// How often a node that uses the longest time confirms that, while a shorter time is recorded.
const CONFIRMED_EVERY_MS: i64 = 3_600_000;
/// The longest time falls when this time, and the longest time itself, have passed since its last
/// use.
const UNUSED_MS: i64 = 24 * 3_600_000;

/// The longest value of a lease time among the nodes of a namespace.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct LongestTime {
    /// The value, in ms.
    pub ms: i64,
    /// The value that replaces it once no node uses it; `None` if no node with a shorter time has
    /// leased since the longest was recorded.
    pub shorter: Option<ShorterTime>,
}

/// The second longest value of a lease time among the nodes of a namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ShorterTime {
    /// The value, in ms.
    pub ms: i64,
    /// When a node last confirmed that it uses the longest value, by the store's clock, Unix ms.
    pub used_ms: i64,
}

impl ShorterTime {
    /// Returns whether the last confirmation is old, or was made while a clock was ahead.
    const fn is_due(&self, store_ms: i64) -> bool {
        store_ms.saturating_sub(self.used_ms).saturating_abs() >= CONFIRMED_EVERY_MS
    }
}

impl LongestTime {
    /// Returns a longest time without a shorter one.
    pub const fn of(ms: i64) -> Self {
        Self { ms, shorter: None }
    }

    /// Returns the longer of this and a node's own time.
    #[must_use]
    pub const fn at_least(self, own_ms: i64) -> Self {
        if own_ms > self.ms { Self::of(own_ms) } else { self }
    }

    /// Returns what the record must have before a node leases by its own time, at `store_ms`, the
    /// store's clock in Unix ms.
    #[must_use]
    fn used(self, own_ms: i64, store_ms: i64) -> Self {
        let shorter = match self.shorter {
            _ if own_ms > self.ms => None,
            None if own_ms == self.ms => None,
            None => Some(ShorterTime { ms: own_ms, used_ms: store_ms }),
            Some(it) if own_ms == self.ms => {
                let is_confirmed = planted::is_confirmed(it.is_due(store_ms));
                Some(ShorterTime {
                    used_ms: if is_confirmed { store_ms } else { it.used_ms },
                    ..it
                })
            }
            // A confirmation that is ahead of the store's clock would count until the clock
            // reaches it.
            Some(it) => {
                let is_ahead = it.used_ms > store_ms.saturating_add(CONFIRMED_EVERY_MS);
                let used_ms = if is_ahead { store_ms } else { it.used_ms };
                Some(ShorterTime { ms: it.ms.max(own_ms), used_ms })
            }
        };
        Self { ms: self.ms.max(own_ms), shorter }
    }
}

impl History {
    /// Returns the longest times of any node.
    pub const fn longest(&self) -> NodeTimes {
        NodeTimes { reach_ms: self.reach.ms, renew_ms: self.renew.ms }
    }

    /// Returns the history that the record must have before a node leases by its own times, at
    /// `store_ms`, the store's clock in Unix ms.
    #[must_use]
    pub fn used_by(&self, own: NodeTimes, store_ms: i64) -> Self {
        Self {
            reach: self.reach.used(own.reach_ms, store_ms),
            renew: self.renew.used(own.renew_ms, store_ms),
            ..self.clone()
        }
    }

    /// Returns the history without a longest time whose last use is more than a day, and that time
    /// itself, before `store_ms`, the store's clock in Unix ms. `reached_ms` keeps the instant that
    /// leases by it can reach, because the store's clock may be ahead at present.
    #[must_use]
    pub fn without_unused_times(&self, store_ms: i64) -> Self {
        let fall = |longest: LongestTime| {
            let shorter = longest.shorter?;
            // A fail-over may have lost a later confirmation.
            let used_ms = shorter.used_ms.max(self.since_ms);
            let fallen = used_ms.saturating_add(UNUSED_MS).saturating_add(longest.ms);
            (store_ms >= fallen).then_some((LongestTime::of(shorter.ms), used_ms))
        };
        let (reach, used_ms) =
            fall(self.reach).map_or((self.reach, None), |(it, at)| (it, Some(at)));
        let renew = fall(self.renew).map_or(self.renew, |(it, _)| it);
        let reaches_ms = planted::used_ms(used_ms).map_or(0, |used_ms| {
            used_ms.saturating_add(CONFIRMED_EVERY_MS).saturating_add(self.reach.ms)
        });
        Self { reach, renew, reached_ms: self.reached_ms.max(reaches_ms), ..self.clone() }
    }
}

impl fmt::Display for ShorterTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}@{}", self.ms, self.used_ms)
    }
}

impl FromStr for ShorterTime {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let (ms, used_ms) = text.split_once('@').ok_or(())?;
        let [ms, used_ms] = [ms, used_ms].map(|number| number.parse().map_err(|_| ()));
        Ok(Self { ms: ms?, used_ms: used_ms? })
    }
}

#[cfg(test)]
mod tests;
