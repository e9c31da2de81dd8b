//! Bounds the memory of responses that their clients have not taken yet.
//!
//! A response reserves what it holds in memory before anything is claimed for it, and keeps that
//! until its last byte is handed to the kernel. Clients that ask and never read thus cost at most
//! `http.max_unsent`, however many they are.

use std::sync::Arc;

use prometheus::IntGauge;
use tokio::{
    sync::{Notify, OwnedSemaphorePermit, Semaphore, futures::Notified},
    time::Instant,
};

/// Responses up to this size in bytes reserve nothing: a connection has at most one of them, and
/// its read buffer is larger.
const FREE: usize = 4 * 1024;

/// The part of the budget, as its divisor, that clients leave to scrapes and `/cluster`.
const OPERATORS_PART: u32 = 16;

/// What is counted, in bytes: the semaphore's permits are 32 bits wide.
const UNIT: u64 = 1024;

/// The memory that unsent responses may use.
#[derive(Debug)]
pub(super) struct UnsentBudget {
    free: Arc<Semaphore>,
    units: u32,
    in_use: IntGauge,
    scarce: Notify,
}

/// A part of the budget, until it is dropped.
#[derive(Debug)]
pub(super) struct Reservation {
    _permit: OwnedSemaphorePermit,
    in_use: IntGauge,
    /// In bytes.
    pub(super) size: u64,
    pub(super) since: Instant,
}

/// The budget has no room for a response.
#[derive(Debug)]
pub(super) struct BudgetExhausted {
    /// The whole budget, in bytes.
    pub(super) budget: u64,
}

impl UnsentBudget {
    /// A budget of this many bytes; `in_use` shows how many are reserved.
    pub(super) fn new(bytes: u64, in_use: IntGauge) -> Self {
        let most = u32::try_from(Semaphore::MAX_PERMITS).unwrap_or(u32::MAX);
        let units = u32::try_from(bytes / UNIT).unwrap_or(u32::MAX).min(most);
        let free = Arc::new(Semaphore::new(units as usize));
        Self { free, units, in_use, scarce: Notify::new() }
    }

    /// Reserves memory for a response of this many bytes; none for a small one. The last part of
    /// the budget is for operators.
    pub(super) fn reserve(
        &self,
        bytes: usize,
        is_for_clients: bool,
    ) -> Result<Option<Arc<Reservation>>, BudgetExhausted> {
        if bytes <= FREE {
            return Ok(None);
        }
        let exhausted = BudgetExhausted { budget: self.size() };
        let units = u32::try_from((bytes as u64).div_ceil(UNIT)).unwrap_or(u32::MAX);
        let kept = if is_for_clients { self.units / OPERATORS_PART } else { 0 };
        let has_room = self.free.available_permits() >= units.saturating_add(kept) as usize;
        let permit = has_room.then(|| Arc::clone(&self.free).try_acquire_many_owned(units).ok());
        if self.missing() > 0 {
            self.scarce.notify_one();
        }
        let permit = permit.flatten().ok_or(exhausted)?;
        let size = u64::from(units) * UNIT;
        self.in_use.add(i64::try_from(size).unwrap_or(i64::MAX));
        let in_use = self.in_use.clone();
        Ok(Some(Arc::new(Reservation { _permit: permit, in_use, size, since: Instant::now() })))
    }

    /// Resolves when less than a quarter of the budget is free.
    pub(super) fn scarce(&self) -> Notified<'_> {
        self.scarce.notified()
    }

    /// The whole budget in bytes.
    pub(super) fn size(&self) -> u64 {
        u64::from(self.units) * UNIT
    }

    /// How many bytes more must be freed until a quarter of the budget is free.
    pub(super) fn missing(&self) -> u64 {
        let free = self.free.available_permits() as u64;
        (u64::from(self.units) / 4).saturating_sub(free) * UNIT
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        self.in_use.sub(i64::try_from(self.size).unwrap_or(i64::MAX));
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::time::timeout;

    use super::*;

    fn budget(bytes: u64) -> UnsentBudget {
        UnsentBudget::new(bytes, IntGauge::new("in_use", "Bytes.").expect("a valid name"))
    }

    #[test]
    fn large_responses_share_the_budget() {
        let budget = budget(64 * 1024);
        assert!(budget.reserve(FREE, true).expect("small").is_none());
        let first = budget.reserve(40_001, true).expect("room").expect("large");
        assert_eq!((first.size, budget.in_use.get(), budget.missing()), (40_960, 40_960, 0));
        let second = budget.reserve(18_000, true).expect("room");
        assert_eq!(budget.missing(), 16 * 1024 - (64 * 1024 - 40_960 - 18_432));
        let refused = budget.reserve(5_000, true).expect_err("full");
        assert_eq!(refused.budget, 64 * 1024);
        drop(budget.reserve(5_000, false).expect("room for operators"));
        drop(first);
        assert!(budget.reserve(5_000, true).expect("room again").is_some());
        drop(second);
        assert!(budget.reserve(60 * 1024 + 1, true).is_err());
        assert_eq!((budget.in_use.get(), budget.missing()), (0, 0));
    }

    #[tokio::test(start_paused = true)]
    async fn scarcity_is_announced_when_a_quarter_is_left() {
        let budget = budget(64 * 1024);
        let _first = budget.reserve(48 * 1024, true).expect("room");
        let waiting = timeout(Duration::from_secs(60), budget.scarce());
        let (waited, _second) = tokio::join!(waiting, async { budget.reserve(5_000, true) });
        waited.expect("announced");
        assert_eq!(budget.missing(), 5 * 1024);
    }
}
