//! The times of a lease.

use std::time::Duration;

use raindrop_core::{instant::millis, lease::NodeTimes};

/// The times of a lease; the defaults are the service's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeaseTimes {
    /// How far ahead a renewed lease reaches: how long IDs are issued without the store; 5 min.
    pub window: Duration,
    /// After which time the row of a crashed node expires, by the store's clock; 90 s.
    pub ttl: Duration,
    /// How often the lease is renewed; 30 s.
    pub renew: Duration,
    /// How far the node's clock may be ahead of the store's; 10 s.
    pub max_clock_skew: Duration,
    /// If no holder has renewed for this long, a new lease, or one whose row may have been taken, waits
    /// for as long before it begins: the store may be a restored backup. At least one and a half times
    /// `renew`; 0 disables it, and embedded stores do without; 45 s.
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
    /// Returns how old a holder's last write may be to confirm that the store lost nothing since: a
    /// backup that is put back in place must be older.
    pub(crate) fn longest_unwritten(&self) -> Duration {
        self.renew.saturating_mul(3) / 2
    }

    /// Returns what the record keeps of these times. Beyond the store's clock a lease reaches the
    /// window, the skew by which the node's clock may be ahead, and as much for the clock of a server
    /// that takes over.
    pub(crate) fn of_node(&self) -> NodeTimes {
        let reach = self.window.saturating_add(self.max_clock_skew.saturating_mul(2));
        NodeTimes { reach_ms: millis(reach), renew_ms: millis(self.renew) }
    }
}
