//! A store that may be a restored one.

use std::time::Duration;

use raindrop_store::UnreleasedRow;

use crate::support::status::UnavailableReason;

/// A store in which no holder has renewed for longer than a living one takes. If it is a restored
/// store, its holders have until `until` to write their rows.
#[derive(Clone)]
pub(crate) struct StaleStore {
    /// The last written of the rows that were not released.
    pub(crate) newest: UnreleasedRow,
    /// The end of the wait, by the steady clock.
    pub(crate) until: Duration,
    /// The end of the wait, in Unix ms.
    pub(crate) due_ms: i64,
}

impl StaleStore {
    /// Returns how much of the wait is left.
    pub(crate) const fn left(&self, steady: Duration) -> Duration {
        self.until.saturating_sub(steady)
    }

    pub(crate) fn reason(&self) -> UnavailableReason {
        let UnreleasedRow { reserved_key, worker, heartbeat_ms } = self.newest.clone();
        let (renewed_ms, due_ms) = (heartbeat_ms, self.due_ms);
        UnavailableReason::StaleStore { worker, reserved_key, renewed_ms, due_ms }
    }
}
