//! Tells systemd, or another manager of its protocol, that the service is ready, that it stops, and
//! regularly that no task is stuck.
//!
//! A stuck task occupies a thread of the runtime, in a loop or in a call that blocks: other tasks
//! wait behind it, and nothing in the process can end it. The signs of life then end, and the
//! manager restarts the process. A task that waits for an answer is not stuck: a restart does not
//! help when the store does not answer. Tests: below, and tests/faults/service_manager.rs.

use std::{convert::Infallible, time::Duration};
#[cfg(unix)]
use std::{io, path::PathBuf};

#[cfg(unix)]
use tokio::net::UnixDatagram;
use tokio::{
    runtime::{Handle, RuntimeMetrics},
    time::{MissedTickBehavior, interval},
};

#[cfg(unix)]
use super::telemetry::log_safely;

/// The service manager that started this process.
#[derive(Clone, Debug)]
pub struct ServiceManager {
    #[cfg(unix)]
    socket: PathBuf,
    /// After this time without a sign of life, the manager restarts the process.
    watchdog: Option<Duration>,
}

impl ServiceManager {
    /// Returns the manager that the environment names, if there is one: `NOTIFY_SOCKET`, and
    /// `WATCHDOG_USEC` if it wants signs of life.
    #[cfg(unix)]
    pub fn of_environment() -> Option<Self> {
        let socket = std::env::var_os("NOTIFY_SOCKET")?.into();
        // 0 stands for none.
        let watchdog = sd_notify::watchdog_enabled().filter(|limit| !limit.is_zero());
        Some(Self { socket, watchdog })
    }

    /// Returns `None`: other systems have no such manager.
    #[cfg(not(unix))]
    pub const fn of_environment() -> Option<Self> {
        None
    }

    /// Tells the manager that the service is ready, as soon as the manager reads.
    pub(crate) async fn ready(&self) {
        self.tell("READY=1\n").await;
    }

    /// Tells the manager that the service stops, unless it reads too slowly: the stop does not wait
    /// for it.
    pub(crate) fn stopping(&self) {
        self.tell_at_once("STOPPING=1\n");
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
                self.tell("WATCHDOG=1\n").await;
            }
        }
    }

    /// Sends a message, and waits while the queue of the manager's socket is full. The waiting task
    /// blocks no thread, as `sd_notify::notify` would.
    #[cfg(unix)]
    async fn tell(&self, message: &str) {
        warn_if_failed(self.send(message).await, message);
    }

    /// Sends a message, unless the queue of the manager's socket is full. tokio's socket could not:
    /// it knows only after a turn of its reactor that there is room.
    #[cfg(unix)]
    fn tell_at_once(&self, message: &str) {
        let sent = self.connect().and_then(|socket| socket.send(message.as_bytes()));
        warn_if_failed(sent, message);
    }

    #[cfg(unix)]
    async fn send(&self, message: &str) -> io::Result<usize> {
        UnixDatagram::from_std(self.connect()?)?.send(message.as_bytes()).await
    }

    /// Returns a socket whose calls never block a thread.
    #[cfg(unix)]
    fn connect(&self) -> io::Result<std::os::unix::net::UnixDatagram> {
        let socket = std::os::unix::net::UnixDatagram::unbound()?;
        socket.set_nonblocking(true)?;
        socket.connect(&self.socket)?;
        Ok(socket)
    }

    #[cfg(not(unix))]
    fn tell_at_once(&self, _: &str) {}

    #[cfg(not(unix))]
    async fn tell(&self, _: &str) {}
}

#[cfg(unix)]
fn warn_if_failed(sent: io::Result<usize>, message: &str) {
    if let Err(error) = sent {
        let state = message.trim_end();
        log_safely(|| tracing::warn!(%error, state, "the service manager cannot be told"));
    }
}

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

    use tokio::{runtime::Builder, time::timeout};

    use super::*;

    #[cfg(unix)]
    #[tokio::test(flavor = "multi_thread", worker_threads = 1)]
    async fn manager_that_reads_nothing_blocks_no_thread() {
        const PATIENCE: Duration = Duration::from_secs(300);
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().join("notify");
        let socket = std::os::unix::net::UnixDatagram::bind(&path).expect("a free path");
        socket.set_read_timeout(Some(PATIENCE)).expect("set");
        let manager = ServiceManager { socket: path.clone(), watchdog: None };
        let mut message = [0; 64];
        manager.stopping();
        let length = socket.recv(&mut message).expect("a message");
        assert_eq!(&message[..length], b"STOPPING=1\n");
        let sender = std::os::unix::net::UnixDatagram::unbound().expect("a socket");
        sender.set_nonblocking(true).expect("set");
        while sender.send_to(b"full", &path).is_ok() {}

        let other = manager.clone();
        let stopping = tokio::spawn(async move { other.stopping() });
        timeout(PATIENCE, stopping).await.expect("the stop waits").expect("no panic");
        let ready = tokio::spawn(async move { manager.ready().await });
        let other_task = tokio::spawn(async {});
        timeout(PATIENCE, other_task).await.expect("the thread is blocked").expect("no panic");
        assert!(!ready.is_finished());

        let mut next = || {
            let length = socket.recv(&mut message).expect("a message");
            String::from_utf8_lossy(&message[..length]).into_owned()
        };
        assert_eq!(next(), "full");
        timeout(PATIENCE, ready).await.expect("never told").expect("no panic");
        assert_eq!(
            std::iter::repeat_with(next).find(|it| it != "full").as_deref(),
            Some("READY=1\n")
        );
    }

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
