//! A store that may be one that was restored.

use std::time::Duration;

use raindrop_store::UnreleasedRow;

use crate::ground::status::UnavailableReason;

/// A store in which no holder renewed for longer than live ones do. If it was restored, those have
/// until then to write their rows.
#[derive(Clone)]
pub(crate) struct StaleStore {
    /// The last written of the rows that were not released.
    pub(crate) newest: UnreleasedRow,
    /// Until when leases wait, on the steady clock.
    pub(crate) until: Duration,
    /// The same, Unix ms.
    pub(crate) due_ms: i64,
}

impl StaleStore {
    /// Returns for how long is waited from now on.
    pub(crate) const fn left(&self, steady: Duration) -> Duration {
        self.until.saturating_sub(steady)
    }

    pub(crate) fn reason(&self) -> UnavailableReason {
        let UnreleasedRow { reserved_key, worker, heartbeat_ms } = self.newest.clone();
        let (renewed_ms, due_ms) = (heartbeat_ms, self.due_ms);
        UnavailableReason::StaleStore { worker, reserved_key, renewed_ms, due_ms }
    }
}
