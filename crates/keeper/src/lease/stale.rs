//! A store that may be one that was restored.

use std::time::Duration;

use crate::ground::status::UnavailableReason;

/// A store in which no holder renewed for longer than live ones do. If it was restored, those have
/// until then to write their rows.
#[derive(Clone, Copy)]
pub(crate) struct StaleStore {
    /// When one of the rows that were not released was last written.
    pub(crate) renewed_ms: i64,
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

    pub(crate) const fn reason(&self) -> UnavailableReason {
        UnavailableReason::StaleStore { renewed_ms: self.renewed_ms, due_ms: self.due_ms }
    }
}
