//! Panics as values, so that a task can continue after one.

use std::{
    any::Any,
    future::poll_fn,
    panic::{AssertUnwindSafe, catch_unwind},
    pin::pin,
    task::Poll,
};

/// Runs a future to its end. The text of a panic becomes the error.
///
/// State that the future shares with other code must tolerate a panic: that code ignores that a
/// lock is poisoned.
pub async fn catch_panic<T>(work: impl Future<Output = T>) -> Result<T, String> {
    let mut work = pin!(work);
    poll_fn(|context| match catch_unwind(AssertUnwindSafe(|| work.as_mut().poll(context))) {
        Ok(result) => result.map(Ok),
        Err(panic) => Poll::Ready(Err(panic_text(&*panic))),
    })
    .await
}

/// Returns the message of a panic.
pub(crate) fn panic_text(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().copied();
    let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    text.unwrap_or("unknown").to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn panic_becomes_an_error() {
        assert_eq!(catch_panic(async { 7 }).await, Ok(7));
        let (fixed, number) = ("fixed", 3);
        for (work, text) in [(fixed.to_owned(), "fixed"), (format!("number {number}"), "number 3")]
        {
            let panicked = catch_panic(async { panic!("{work}") }).await;
            assert_eq!(panicked, Err::<(), _>(text.to_owned()));
        }
        assert_eq!(catch_panic(async { panic!("literal") }).await, Err::<(), _>("literal".into()));
        let other = catch_panic(async { std::panic::panic_any(5) }).await;
        assert_eq!(other, Err::<(), _>("unknown".into()));
    }
}
