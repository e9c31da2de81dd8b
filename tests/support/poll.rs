//! Waits for something without sleeping longer than needed, and measures on a busy machine.

use std::time::Duration;

use tokio::time::{Instant, sleep};

/// Asks until the answer is `Some`.
///
/// # Panics
///
/// If that takes longer than `limit`; `what` names the awaited event.
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

/// Returns the result of the first of five attempts that takes less than `limit`: on a busy
/// machine, one attempt alone shows little.
///
/// # Panics
///
/// When every attempt takes longer.
pub(crate) async fn within<T>(
    limit: Duration,
    what: &str,
    mut attempt: impl AsyncFnMut() -> T,
) -> T {
    let mut took = Vec::new();
    for _ in 0..5 {
        let begin = Instant::now();
        let result = attempt().await;
        took.push(begin.elapsed());
        if took.last() < Some(&limit) {
            return result;
        }
    }
    panic!("{what}: {took:?}, not within {limit:?}")
}
