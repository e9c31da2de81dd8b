//! The API server's clock, from the `Date` of its responses.
//!
//! `Date` has whole seconds, and a response travels for a while. So each response gives an earliest
//! and a latest difference between the server's clock and a monotonic one, and further responses
//! narrow these bounds. A response that contradicts the bounds replaces them: a clock was set, or
//! another API server responded.
//!
//! Callers must choose the bound that is safe: a row has expired only by
//! [`DateClock::earliest_ms`], and writes carry [`DateClock::latest_ms`]. So the uncertainty only
//! delays a take-over. Before the first response, both are errors. Tests: below.

use std::sync::Mutex;

use raindrop_core::instant::millis;
use tokio::time::Instant;

use crate::{Result, StoreError, lock};

/// The resolution of `Date`: whole seconds.
const RESOLUTION_MS: i64 = 1_000;

/// Bounds of the API server's clock. Every response narrows or replaces them.
#[derive(Debug)]
pub(super) struct DateClock {
    /// The origin of the monotonic times.
    origin: Instant,
    bounds: Mutex<Option<Bounds>>,
}

/// The bounds of the difference in ms: the server's time minus the monotonic time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Bounds {
    earliest: i64,
    latest: i64,
    /// The largest time that [`DateClock::latest_ms`] has returned.
    returned: i64,
}

impl DateClock {
    pub(super) fn new() -> Self {
        Self { origin: Instant::now(), bounds: Mutex::default() }
    }

    /// Narrows the bounds by a response's `Date`, in Unix ms.
    pub(super) fn observe(&self, date_ms: i64, sent: Instant, received: Instant) {
        let mut bounds = lock(&self.bounds);
        let fresh = Bounds {
            earliest: date_ms - self.millis(received) - 1,
            latest: date_ms + RESOLUTION_MS - self.millis(sent),
            returned: i64::MIN,
        };
        let narrowed = bounds.map(|known| Bounds {
            earliest: known.earliest.max(fresh.earliest),
            latest: known.latest.min(fresh.latest),
            returned: known.returned,
        });
        *bounds = narrowed.filter(|both| both.earliest <= both.latest).or(Some(fresh));
    }

    /// Returns the earliest time that the server's clock can show now, in Unix ms; an error before
    /// its first response.
    pub(super) fn earliest_ms(&self) -> Result<i64> {
        let now = self.millis(Instant::now());
        lock(&self.bounds).map(|bounds| bounds.earliest + now).ok_or_else(no_date)
    }

    /// Returns the latest time that the server's clock can show now, in Unix ms; an error before
    /// its first response. It never goes back, unless the server's clock does.
    pub(super) fn latest_ms(&self) -> Result<i64> {
        let now = self.millis(Instant::now());
        let mut bounds = lock(&self.bounds);
        let bounds = bounds.as_mut().ok_or_else(no_date)?;
        bounds.returned = bounds.returned.max(bounds.latest + now);
        Ok(bounds.returned)
    }

    fn millis(&self, instant: Instant) -> i64 {
        millis(instant.saturating_duration_since(self.origin))
    }
}

fn no_date() -> StoreError {
    StoreError::unavailable("the API server has told no date yet")
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::time::advance;

    use super::*;

    /// The earliest and the latest time, after a response.
    fn bounds(clock: &DateClock) -> (Option<i64>, Option<i64>) {
        (clock.earliest_ms().ok(), clock.latest_ms().ok())
    }

    /// Advances the time by this many ms, and then observes a response that took 2 ms.
    async fn answer(clock: &DateClock, after_ms: u64, date_ms: i64) {
        advance(Duration::from_millis(after_ms)).await;
        let sent = Instant::now();
        advance(Duration::from_millis(2)).await;
        clock.observe(date_ms, sent, Instant::now());
    }

    #[tokio::test(start_paused = true)]
    async fn bounds_narrow_with_every_answer() {
        let clock = DateClock::new();
        assert_eq!(bounds(&clock), (None, None));
        // The server's clock begins at 10 700 ms.
        answer(&clock, 0, 10_000).await;
        assert_eq!(bounds(&clock), (Some(9_999), Some(11_002)));
        // Just before and just after a second begins.
        answer(&clock, 290, 10_000).await;
        answer(&clock, 10, 11_000).await;
        assert_eq!(bounds(&clock), (Some(10_999), Some(11_014)));
        advance(Duration::from_millis(5)).await;
        assert_eq!(bounds(&clock), (Some(11_004), Some(11_019)));
    }

    #[tokio::test(start_paused = true)]
    async fn narrower_bounds_do_not_turn_the_clock_back() {
        let clock = DateClock::new();
        answer(&clock, 0, 10_000).await;
        assert_eq!(bounds(&clock).1, Some(11_002));
        answer(&clock, 500, 10_000).await;
        // Half a second passed, and the latest time fell by as much.
        assert_eq!(bounds(&clock).1, Some(11_002));
    }

    #[tokio::test(start_paused = true)]
    async fn clock_that_steps_is_followed() {
        let clock = DateClock::new();
        answer(&clock, 0, 10_000).await;
        assert_eq!(bounds(&clock).1, Some(11_002));
        answer(&clock, 0, 5_000).await;
        assert_eq!(bounds(&clock), (Some(4_999), Some(6_002)));
        answer(&clock, 0, 90_000).await;
        assert_eq!(bounds(&clock), (Some(89_999), Some(91_002)));
    }
}
