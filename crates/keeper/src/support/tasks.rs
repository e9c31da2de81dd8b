//! Background tasks: their handles, the runtime they run on, and panics in them as errors.
//!
//! The owner stops a task by its handle, or waits for its failure. Claims wait on the runtime of
//! the keeper's task, whichever executor polls them.

use std::{
    any::Any,
    future::{pending, poll_fn},
    panic::{AssertUnwindSafe, catch_unwind},
    pin::pin,
    task::Poll,
    time::Duration,
};

use tokio::{
    runtime::Handle,
    sync::oneshot,
    task::JoinHandle,
    time::{Instant, sleep_until},
};

/// The longest deadline, since a later instant may not be representable.
const LONGEST_DEADLINE: Duration = Duration::from_hours(24 * 365);

/// A task that returns `R` when it is stopped, and sends `E` if it fails permanently.
#[derive(Debug)]
pub(crate) struct TaskHandle<E, R> {
    stop: oneshot::Sender<Instant>,
    failed: oneshot::Receiver<E>,
    task: JoinHandle<R>,
    has_failed: bool,
}

impl<E, R: Send + 'static> TaskHandle<E, R> {
    /// Starts the task. It receives its deadline by the first channel and sends its failure by the
    /// second.
    pub(crate) fn start<F>(
        task: impl FnOnce(oneshot::Receiver<Instant>, oneshot::Sender<E>) -> F,
    ) -> Self
    where
        F: Future<Output = R> + Send + 'static,
    {
        let (stop, stopped) = oneshot::channel();
        let (fail, failed) = oneshot::channel();
        Self { stop, failed, task: tokio::spawn(task(stopped, fail)), has_failed: false }
    }

    /// Resolves once: with the failure that the task sent or, if the task ended without one, which
    /// is a defect, with how it ended. Pending otherwise.
    pub(crate) async fn failed(&mut self) -> Result<E, String> {
        if self.has_failed {
            return pending().await;
        }
        // An earlier, dropped call may have seen that the sender is gone.
        let sent = if self.failed.is_terminated() { None } else { (&mut self.failed).await.ok() };
        let failure = match sent {
            Some(error) => Ok(error),
            None => Err(match (&mut self.task).await {
                Ok(_) => "it ended by itself".to_owned(),
                Err(error) => match error.try_into_panic() {
                    Ok(panic) => format!("it panicked: {}", panic_text(&*panic)),
                    Err(error) => error.to_string(),
                },
            }),
        };
        self.has_failed = true;
        failure
    }

    /// Stops the task and returns its result; `None` if the task had ended before.
    pub(crate) async fn stop(self, deadline: Duration) -> Option<R> {
        let deadline = Instant::now() + deadline.min(LONGEST_DEADLINE);
        self.stop.send(deadline).ok()?;
        self.task.await.ok()
    }
}

/// The runtime that runs a keeper's task; none if the keeper was created outside one.
#[derive(Clone, Debug)]
pub(crate) struct KeeperRuntime(Option<Handle>);

/// No runtime can run a timer: the keeper's was shut down, and no tokio runtime polls the claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NoRuntime;

impl KeeperRuntime {
    /// Returns the present runtime.
    pub(crate) fn present() -> Self {
        Self(Handle::try_current().ok())
    }

    /// Sleeps for this long.
    pub(crate) async fn sleep(&self, duration: Duration) -> Result<(), NoRuntime> {
        self.sleep_until(Instant::now() + duration).await
    }

    /// Awaits a future until the deadline. Returns `None` if the future is not ready by then, or if
    /// no runtime can run the timer.
    pub(crate) async fn timeout_at<T>(
        &self,
        deadline: Instant,
        future: impl Future<Output = T>,
    ) -> Option<T> {
        tokio::select! {
            biased;
            ready = future => Some(ready),
            _ = self.sleep_until(deadline) => None,
        }
    }

    async fn sleep_until(&self, deadline: Instant) -> Result<(), NoRuntime> {
        // The timer is created in the runtime that polls it.
        self.run(async move { sleep_until(deadline).await }).await
    }

    /// Awaits a future that needs timers or sockets: here, if a tokio runtime polls this future,
    /// and otherwise in a task on the keeper's runtime.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        future: impl Future<Output = T> + Send + 'static,
    ) -> Result<T, NoRuntime> {
        if Handle::try_current().is_ok() {
            return Ok(future.await);
        }
        let Some(runtime) = &self.0 else { return Err(NoRuntime) };
        runtime.spawn(future).await.map_err(|_| NoRuntime)
    }
}

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
fn panic_text(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().copied();
    let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    text.unwrap_or("unknown").to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    type Task = TaskHandle<&'static str, u8>;

    /// Returns how the task failed; `None` if it did not within an hour.
    async fn failure(task: &mut Task) -> Option<Result<&'static str, String>> {
        tokio::time::timeout(Duration::from_hours(1), task.failed()).await.ok()
    }

    #[tokio::test(start_paused = true)]
    async fn panic_is_reported_once() {
        let mut task = Task::start(|_, _| async { panic!("planted by a test") });
        let panicked = Err("it panicked: planted by a test".to_owned());
        assert_eq!(failure(&mut task).await, Some(panicked));
        assert_eq!(failure(&mut task).await, None);
        assert_eq!(task.stop(Duration::ZERO).await, None);
    }

    #[tokio::test(start_paused = true)]
    async fn unexpected_end_is_reported() {
        let mut task = Task::start(|_, _| async { 7 });
        assert_eq!(failure(&mut task).await, Some(Err("it ended by itself".to_owned())));
    }

    #[tokio::test(start_paused = true)]
    async fn call_dropped_after_the_sender_is_gone_loses_nothing() {
        let (end, ended) = oneshot::channel::<()>();
        let mut task = Task::start(|_, failed| async {
            drop(failed);
            ended.await.expect("the test says when");
            panic!("planted by a test")
        });
        assert_eq!(failure(&mut task).await, None);
        end.send(()).expect("it runs");
        let panicked = Err("it panicked: planted by a test".to_owned());
        assert_eq!(failure(&mut task).await, Some(panicked));
    }

    #[tokio::test(start_paused = true)]
    async fn failure_is_reported_once_and_the_task_can_still_be_stopped() {
        let mut task = Task::start(|stop, failed| async {
            failed.send("gave up").expect("the handle listens");
            stop.await.expect("a deadline");
            7
        });
        assert_eq!(failure(&mut task).await, Some(Ok("gave up")));
        assert_eq!(failure(&mut task).await, None);
        assert_eq!(task.stop(Duration::ZERO).await, Some(7));
    }

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
