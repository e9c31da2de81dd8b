//! The runtime of a keeper's task. Claims wait on it, whichever executor polls them.

use std::time::Duration;

use tokio::{
    runtime::Handle,
    time::{Instant, sleep_until},
};

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
