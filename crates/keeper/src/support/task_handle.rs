//! Handles to background tasks: the owner stops the task, or waits for its failure.

use std::{future::pending, time::Duration};

use tokio::{sync::oneshot, task::JoinHandle, time::Instant};

use super::panics::panic_text;

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
}
