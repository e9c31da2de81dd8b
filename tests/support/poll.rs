//! Waiting for something without sleeping longer than needed.

use std::time::Duration;

use tokio::time::{Instant, sleep};

/// Asks until the answer is `Some`.
///
/// # Panics
///
/// When it is not within `limit`; `what` says what was waited for.
pub(crate) async fn until<T>(
    limit: Duration,
    what: &str,
    mut ask: impl AsyncFnMut() -> Option<T>,
) -> T {
    let deadline = Instant::now() + limit;
    loop {
        if let Some(answer) = ask().await {
            return answer;
        }
        assert!(Instant::now() < deadline, "{what}: not within {limit:?}");
        sleep(Duration::from_millis(5)).await;
    }
}
