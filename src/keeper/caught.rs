//! A step whose panic does not end its task.

use std::{
    any::Any,
    future::poll_fn,
    panic::{AssertUnwindSafe, catch_unwind},
    pin::pin,
    task::Poll,
};

/// Runs a future; an error is the text of its panic. What it changed may be half done: the caller
/// must begin anew.
pub(super) async fn caught<T>(step: impl Future<Output = T>) -> Result<T, String> {
    let mut step = pin!(step);
    poll_fn(|context| match catch_unwind(AssertUnwindSafe(|| step.as_mut().poll(context))) {
        Ok(poll) => poll.map(Ok),
        Err(panic) => Poll::Ready(Err(text_of(&*panic))),
    })
    .await
}

/// What a panic said.
fn text_of(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().cloned();
    let text = text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()));
    text.unwrap_or_else(|| "a panic without a message".to_owned())
}
