//! Calls of the store, with deadlines and timings, and the clocks that are read with them.

use std::time::Duration;

use raindrop_core::{clock::Clock, instant::millis, lease::StoreReading};
use raindrop_store::{Store, StoreError, Survey};
use tokio::time::{Instant, timeout};
use tracing::{Instrument as _, field::Empty};

use super::observer::{Observer, SPANS, StoreOperation};

/// How many times as long as another call it may take to create tables and thousands of rows.
const PREPARING: u32 = 6;

/// Awaits a call of the store, and reports its duration. Fails with [`StoreError::TimedOut`] if an
/// engine exceeds its own time-outs.
pub(crate) async fn store_call<T>(
    store: &dyn Store,
    observer: &dyn Observer,
    operation: StoreOperation,
    call: impl Future<Output = Result<T, StoreError>>,
) -> Result<T, StoreError> {
    let after = match operation {
        StoreOperation::Prepare => store.longest_call() * PREPARING,
        StoreOperation::Read | StoreOperation::Swap | StoreOperation::Reserve => {
            store.longest_call()
        }
    };
    let began = Instant::now();
    let span = tracing::debug_span!(
        target: SPANS,
        "store",
        otel.name = format_args!("store {}", operation.name()),
        otel.kind = "client",
        otel.status_code = Empty,
    );
    let answer = timeout(after, call).instrument(span.clone()).await;
    let answer = answer.unwrap_or(Err(StoreError::TimedOut { after }));
    if answer.is_err() {
        span.record("otel.status_code", "ERROR");
    }
    observer.store_operation(operation, began.elapsed());
    answer
}

/// The node's clocks at one instant.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ClockReading {
    pub(crate) wall_ms: i64,
    pub(crate) steady: Duration,
}

impl ClockReading {
    pub(crate) fn now(clock: &dyn Clock) -> Self {
        Self { wall_ms: clock.now_ms(), steady: clock.steady() }
    }

    /// Returns how much time has passed since this reading, in ms, even if the wall clock was set
    /// meanwhile.
    pub(crate) fn elapsed_ms(&self, clock: &dyn Clock) -> i64 {
        millis(clock.steady().saturating_sub(self.steady))
    }

    /// Returns what the wall clock would show at another time of the steady clock if it ran evenly.
    pub(crate) fn evenly(&self, steady: Duration) -> Self {
        let elapsed_ms = millis(steady).saturating_sub(millis(self.steady));
        Self { wall_ms: self.wall_ms.saturating_add(elapsed_ms), steady }
    }
}

/// Awaits a survey, and returns it with the clocks before and after.
pub(crate) async fn timed(
    clock: &dyn Clock,
    survey: impl Future<Output = Result<Survey, StoreError>>,
) -> Result<(Survey, ClockReading, StoreReading), StoreError> {
    let sent = ClockReading::now(clock);
    let survey = survey.await?;
    let received = ClockReading::now(clock);
    // Computed from the later wall-clock reading: if the clock stepped during the call, the earlier
    // one is worthless.
    let sent_ms = received.evenly(sent.steady).wall_ms;
    let (store_ms, received_ms) = (survey.now_ms, received.wall_ms);
    Ok((survey, received, StoreReading { sent_ms, store_ms, received_ms }))
}
