//! What systemd, or another manager of its protocol, is told about this process: that the service
//! is ready, that it stops, and again and again that no task is stuck.
//!
//! A task is stuck if it keeps a thread of the runtime to itself, in a loop or a call that blocks:
//! other tasks wait behind it, and nothing in the process can end it. The manager then hears
//! nothing more, and starts the process anew. A task that waits for an answer is not stuck: a
//! store that is away is no reason to restart. Tests: below, and tests/faults/service_manager.rs.

use std::{convert::Infallible, time::Duration};

use tokio::{
    runtime::{Handle, RuntimeMetrics},
    time::{MissedTickBehavior, interval},
};

#[cfg(unix)]
use super::telemetry::log_safely;

/// The service manager that started this process.
#[derive(Clone, Debug)]
pub struct ServiceManager {
    /// After this time without a sign of life, the manager restarts the process.
    watchdog: Option<Duration>,
}

impl ServiceManager {
    /// Returns the manager that the environment names, if there is one: `NOTIFY_SOCKET`, and
    /// `WATCHDOG_USEC` if it wants signs of life.
    #[cfg(unix)]
    pub fn of_environment() -> Option<Self> {
        std::env::var_os("NOTIFY_SOCKET")?;
        // 0 stands for none.
        let watchdog = sd_notify::watchdog_enabled().filter(|limit| !limit.is_zero());
        Some(Self { watchdog })
    }

    /// Returns `None`: other systems have no such manager.
    #[cfg(not(unix))]
    pub const fn of_environment() -> Option<Self> {
        None
    }

    /// Tells that the service is ready.
    pub(crate) fn ready(&self) {
        tell("READY=1");
    }

    /// Tells that the service stops.
    pub(crate) fn stopping(&self) {
        tell("STOPPING=1");
    }

    /// Gives signs of life as long as no task is stuck. Never resolves.
    pub(crate) async fn feed_watchdog(&self) -> Infallible {
        let Some(limit) = self.watchdog else { return std::future::pending().await };
        let mut workers = Workers::new(Handle::current().metrics());
        let mut interval = interval(limit / 4);
        interval.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            interval.tick().await;
            if workers.all_progressed() {
                tell("WATCHDOG=1");
            }
        }
    }
}

#[cfg(unix)]
fn tell(state: &str) {
    if let Err(error) = sd_notify::notify(&[sd_notify::NotifyState::Custom(state)]) {
        log_safely(|| tracing::warn!(%error, state, "the service manager cannot be told"));
    }
}

#[cfg(not(unix))]
const fn tell(_: &str) {}

/// The threads that run the tasks.
#[derive(Debug)]
struct Workers {
    metrics: RuntimeMetrics,
    last: Vec<Progress>,
}

/// What changes whenever a worker has run some tasks, or waited for one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Progress {
    /// Odd while the worker waits for a task.
    parks_and_unparks: u64,
    busy: Duration,
}

impl Workers {
    fn new(metrics: RuntimeMetrics) -> Self {
        Self { metrics, last: Vec::new() }
    }

    /// Returns whether every worker has waited for a task or finished some since the last call.
    fn all_progressed(&mut self) -> bool {
        let of = |worker| Progress {
            parks_and_unparks: self.metrics.worker_park_unpark_count(worker),
            busy: self.metrics.worker_total_busy_duration(worker),
        };
        let now: Vec<Progress> = (0..self.metrics.num_workers()).map(of).collect();
        let is_stuck = |(now, last): (&Progress, &Progress)| {
            now.parks_and_unparks.is_multiple_of(2) && now == last
        };
        let is_any_stuck = now.iter().zip(&self.last).any(is_stuck);
        self.last = now;
        !is_any_stuck
    }
}

#[cfg(test)]
mod tests {
    use std::{sync::mpsc, thread};

    use tokio::runtime::Builder;

    use super::*;

    #[test]
    fn a_task_that_blocks_its_thread_is_seen_as_long_as_it_does() {
        let runtime = Builder::new_multi_thread().worker_threads(2).build().expect("a runtime");
        let mut workers = Workers::new(runtime.metrics());
        // Both threads begin, and wait for a task.
        workers.all_progressed();
        while !workers.all_progressed() {
            thread::yield_now();
        }

        let (entered, has_entered) = mpsc::channel();
        let (resume, resumed) = mpsc::channel::<()>();
        let stuck = runtime.spawn(async move {
            entered.send(()).expect("the test listens");
            resumed.recv().expect("the test resumes it");
        });
        has_entered.recv().expect("it runs");
        workers.all_progressed();
        for _ in 0..3 {
            assert!(!workers.all_progressed());
        }
        resume.send(()).expect("it waits");
        runtime.block_on(stuck).expect("no panic");
        while !workers.all_progressed() {
            thread::yield_now();
        }
    }
}
