//! A background task: how it is told to stop, and how it tells that it cannot go on.

use std::{future::pending, time::Duration};

use tokio::{sync::oneshot, task::JoinHandle, time::Instant};

use super::panics::panic_text;

/// Later instants may not exist.
const LONGEST_DEADLINE: Duration = Duration::from_hours(24 * 365);

/// A task that ends with `R`, or tells `E` once when it gave up for good.
#[derive(Debug)]
pub(super) struct Running<E, R> {
    stop: oneshot::Sender<Instant>,
    failed: oneshot::Receiver<E>,
    task: JoinHandle<R>,
    has_failed: bool,
}

impl<E, R: Send + 'static> Running<E, R> {
    /// Starts the task that these ends of the channels make.
    pub(super) fn start<F>(
        task: impl FnOnce(oneshot::Receiver<Instant>, oneshot::Sender<E>) -> F,
    ) -> Self
    where
        F: Future<Output = R> + Send + 'static,
    {
        let (stop, stopped) = oneshot::channel();
        let (fail, failed) = oneshot::channel();
        Self { stop, failed, task: tokio::spawn(task(stopped, fail)), has_failed: false }
    }

    /// Resolves once: when the task gave up for good, or with how it ended when it did that
    /// without a word, which is a defect. Pending otherwise.
    pub(super) async fn failed(&mut self) -> Result<E, String> {
        if self.has_failed {
            return pending().await;
        }
        // An earlier call that was dropped may have seen already that no word comes.
        let told = if self.failed.is_terminated() { None } else { (&mut self.failed).await.ok() };
        let failure = match told {
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

    /// Stops the task; nothing is returned when it is gone already.
    pub(super) async fn stop(self, deadline: Duration) -> Option<R> {
        let deadline = Instant::now() + deadline.min(LONGEST_DEADLINE);
        self.stop.send(deadline).ok()?;
        self.task.await.ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    type Task = Running<&'static str, u8>;

    /// Resolves `None` where nothing fails, however long it is waited for.
    async fn failure(task: &mut Task) -> Option<Result<&'static str, String>> {
        tokio::time::timeout(Duration::from_hours(1), task.failed()).await.ok()
    }

    #[tokio::test(start_paused = true)]
    async fn a_panic_without_a_word_is_a_failure_once() {
        let mut task = Task::start(|_, _| async { panic!("planted by a test") });
        let panicked = Err("it panicked: planted by a test".to_owned());
        assert_eq!(failure(&mut task).await, Some(panicked));
        assert_eq!(failure(&mut task).await, None);
        assert_eq!(task.stop(Duration::ZERO).await, None);
    }

    #[tokio::test(start_paused = true)]
    async fn an_end_without_a_word_is_a_failure() {
        let mut task = Task::start(|_, _| async { 7 });
        assert_eq!(failure(&mut task).await, Some(Err("it ended by itself".to_owned())));
    }

    #[tokio::test(start_paused = true)]
    async fn a_call_that_was_dropped_between_the_lost_word_and_the_end_loses_nothing() {
        let (end, ended) = oneshot::channel::<()>();
        let mut task = Task::start(|_, word| async {
            drop(word);
            ended.await.expect("the test says when");
            panic!("planted by a test")
        });
        assert_eq!(failure(&mut task).await, None);
        end.send(()).expect("it runs");
        let panicked = Err("it panicked: planted by a test".to_owned());
        assert_eq!(failure(&mut task).await, Some(panicked));
    }

    #[tokio::test(start_paused = true)]
    async fn a_task_that_gave_up_says_so_once_and_still_stops() {
        let mut task = Task::start(|stop, word| async {
            word.send("gave up").expect("somebody listens");
            stop.await.expect("a deadline");
            7
        });
        assert_eq!(failure(&mut task).await, Some(Ok("gave up")));
        assert_eq!(failure(&mut task).await, None);
        assert_eq!(task.stop(Duration::ZERO).await, Some(7));
    }
}
