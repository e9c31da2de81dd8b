//! A background task: how it is told to stop, and how it tells that it cannot go on.

use std::time::Duration;

use tokio::{sync::oneshot, task::JoinHandle, time::Instant};

/// Later instants may not exist.
const LONGEST_DEADLINE: Duration = Duration::from_hours(24 * 365);

/// A task that ends with `R`, or tells `E` once when it gave up for good.
#[derive(Debug)]
pub(super) struct Running<E, R> {
    stop: oneshot::Sender<Instant>,
    failed: oneshot::Receiver<E>,
    task: JoinHandle<R>,
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
        Self { stop, failed, task: tokio::spawn(task(stopped, fail)) }
    }

    /// Resolves when the task gave up for good; until then, and after that was told once, never.
    pub(super) async fn failed(&mut self) -> E {
        if !self.failed.is_terminated()
            && let Ok(error) = (&mut self.failed).await
        {
            return error;
        }
        std::future::pending().await
    }

    /// Stops the task; nothing is returned when it is gone already.
    pub(super) async fn stop(self, deadline: Duration) -> Option<R> {
        let deadline = Instant::now() + deadline.min(LONGEST_DEADLINE);
        self.stop.send(deadline).ok()?;
        self.task.await.ok()
    }
}
