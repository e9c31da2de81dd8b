//! The times of a lease.

use std::time::Duration;

use raindrop_core::{instant::millis, lease::NodeTimes, violation::Violation};

use crate::state_file::LONGEST_WRITE;

/// The times of a lease. The defaults are those of the service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeaseTimes {
    /// How far ahead a renewed lease reaches. IDs are issued for as long without the store; 5 min.
    pub window: Duration,
    /// After this time by the store's clock the row of a crashed node expires; 90 s.
    pub ttl: Duration,
    /// The time from the beginning of a renewal to that of the next one; 30 s. With a state file at
    /// least [`Self::SHORTEST_RENEW_WITH_FILE`].
    pub renew: Duration,
    /// By how much the node's clock may be ahead of the store's; 10 s.
    pub max_clock_skew: Duration,
    /// If no holder has renewed for this long, the store may be a restored backup. Then a new
    /// lease, or one whose row another process may have taken, waits for this long before it
    /// begins. At least one and a half times `renew`; 0 disables the wait, and embedded stores
    /// never wait; 45 s.
    pub stale_wait: Duration,
}

impl Default for LeaseTimes {
    fn default() -> Self {
        Self {
            window: Duration::from_mins(5),
            ttl: Duration::from_secs(90),
            renew: Duration::from_secs(30),
            max_clock_skew: Duration::from_secs(10),
            stale_wait: Duration::from_secs(45),
        }
    }
}

impl LeaseTimes {
    /// The shortest permitted [`renew`](Self::renew) with a state file: a renewal may wait for two
    /// writes of the file, the one under way and its own, and may not delay the next renewal.
    pub const SHORTEST_RENEW_WITH_FILE: Duration = LONGEST_WRITE.saturating_mul(2);

    /// Returns why these times cannot be used with a state file; `None` if they can.
    pub fn check_with_state_file(&self) -> Option<Violation> {
        let shortest = Self::SHORTEST_RENEW_WITH_FILE;
        (self.renew < shortest).then(|| {
            let allowed = format!("at least {shortest:?} with store.state_file");
            Violation::new("lease.renew", format!("{:?}", self.renew), allowed)
        })
    }

    /// Returns how old a holder's last write may be to confirm that the store has lost nothing
    /// since. A backup that is restored in place must be older.
    pub(crate) fn longest_unwritten(&self) -> Duration {
        self.renew.saturating_mul(3) / 2
    }

    /// Returns these times as the record has them. A lease reaches beyond the store's clock by the
    /// window, plus the skew by which the node's clock may be ahead, plus the same skew for the
    /// clock of a server that takes over.
    pub(crate) fn of_node(&self) -> NodeTimes {
        let reach = self.window.saturating_add(self.max_clock_skew.saturating_mul(2));
        NodeTimes { reach_ms: millis(reach), renew_ms: millis(self.renew) }
    }
}
