//! Supervises background tasks, so that none ends unnoticed.
//!
//! There are two kinds. Essential tasks (the listeners) cannot be restarted: their end is fatal,
//! and the service stops in order with an error. Tasks that can begin again are restarted a second
//! after a panic.
//!
//! Not supervised here: keepers watch their own tasks
//! ([`Keepers::failed`](super::keepers::Keepers::failed)), and the task of a connection, whose
//! panic ends only that connection. Tests: below, and tests/http/supervision.rs.

use std::time::Duration;

use prometheus::IntCounterVec;
use tokio::{sync::watch, task::JoinHandle, time::sleep};

use super::ServeError;
use crate::{keeper::catch_panic, process::telemetry::log_safely, server::metrics::Task};

/// The pause between a panic and the restart, so that repeated panics do not fill the log.
const RESTART_AFTER: Duration = Duration::from_secs(1);

/// Starts tasks and reports their failures; cheap to clone.
#[derive(Clone, Debug)]
pub(super) struct Supervisor {
    /// The failures of each task.
    failures: IntCounterVec,
    /// The first failure that the service cannot survive.
    fatal: watch::Sender<Option<(Task, String)>>,
    /// Set to true when essential tasks should end; from then on, their end is no failure.
    pub(super) stopping: watch::Sender<bool>,
}

/// A task, which ends when this is dropped.
#[derive(Debug)]
pub(super) struct Supervised(JoinHandle<()>);

impl Supervisor {
    pub(super) fn new(failures: IntCounterVec) -> Self {
        Self { failures, fatal: watch::Sender::new(None), stopping: watch::Sender::new(false) }
    }

    /// Starts a task without which the service cannot run, and which cannot be restarted. Its end
    /// is fatal unless the service is [stopping](Self::stopping).
    pub(super) fn essential(
        &self,
        task: Task,
        work: impl Future<Output = ()> + Send + 'static,
    ) -> Supervised {
        let supervisor = self.clone();
        Supervised(tokio::spawn(async move {
            let reason = match catch_panic(work).await {
                Ok(()) if *supervisor.stopping.borrow() => return,
                Ok(()) => "it ended by itself".to_owned(),
                Err(panic) => format!("it panicked: {panic}"),
            };
            supervisor.report_fatal(task, reason);
        }))
    }

    /// Starts a task that can be started again from its beginning, and does so after each panic.
    /// Its regular end is no failure.
    pub(super) fn restarted<F>(
        &self,
        task: Task,
        start: impl Fn() -> F + Send + Sync + 'static,
    ) -> Supervised
    where
        F: Future<Output = ()> + Send,
    {
        let supervisor = self.clone();
        Supervised(tokio::spawn(async move {
            while let Err(panic) = catch_panic(async { start().await }).await {
                supervisor.report(task, &format!("it panicked, and is restarted: {panic}"));
                sleep(RESTART_AFTER).await;
            }
        }))
    }

    /// Counts and logs the failure of a task without which the service cannot run.
    pub(super) fn report_fatal(&self, task: Task, reason: String) {
        self.report(task, &reason);
        self.fatal.send_if_modified(|first| {
            let is_first = first.is_none();
            first.get_or_insert((task, reason));
            is_first
        });
    }

    fn report(&self, task: Task, reason: &str) {
        self.failures.with_label_values(&[task.name()]).inc();
        log_safely(|| tracing::error!(task = task.name(), reason, "background task failed"));
    }

    /// Resolves at the first fatal failure.
    pub(super) async fn failed(&self) -> ServeError {
        let mut fatal = self.fatal.subscribe();
        let first = fatal.wait_for(Option::is_some).await.map(|first| first.clone());
        match first {
            Ok(Some((task, reason))) => ServeError::Task { task: task.name(), reason },
            // `self` has a sender, and the wait ends only with a value.
            Ok(None) | Err(_) => std::future::pending().await,
        }
    }
}

impl Supervised {
    /// Waits at most `limit` for the task to end, and then aborts it. Returns whether it ended in
    /// time.
    pub(super) async fn end_within(mut self, limit: Duration) -> bool {
        let has_ended = tokio::time::timeout(limit, &mut self.0).await.is_ok();
        if !has_ended {
            self.0.abort();
            let _ = (&mut self.0).await;
        }
        has_ended
    }
}

impl Drop for Supervised {
    fn drop(&mut self) {
        self.0.abort();
    }
}

#[cfg(test)]
mod tests {
    use std::{
        future::{pending, ready},
        sync::{
            Arc,
            atomic::{AtomicU32, Ordering},
        },
    };

    use prometheus::{Registry, TextEncoder};
    use tokio::time::timeout;

    use super::*;
    use crate::{keeper::KeeperTask, server::metrics::task_failures};

    struct World {
        supervisor: Supervisor,
        registry: Registry,
    }

    impl World {
        fn new() -> Self {
            let registry = Registry::new();
            Self { supervisor: Supervisor::new(task_failures(&registry)), registry }
        }

        /// The error with which the service ends, if it does.
        async fn fatal(&self) -> Option<String> {
            let failed = timeout(Duration::from_hours(1), self.supervisor.failed()).await;
            failed.ok().map(|error| error.to_string())
        }

        fn failures(&self, task: Task) -> u32 {
            let text = TextEncoder::new().encode_to_string(&self.registry.gather()).expect("text");
            let name = format!("raindrop_task_failures_total{{task=\"{}\"}} ", task.name());
            let value = text.lines().find_map(|line| line.strip_prefix(&name)).expect("exported");
            value.parse().expect("a number")
        }
    }

    #[tokio::test(start_paused = true)]
    async fn every_task_is_exported_at_zero_under_its_own_name() {
        let world = World::new();
        for task in Task::ALL {
            assert_eq!(world.failures(task), 0, "{task:?}");
        }
        assert_eq!(Task::from(KeeperTask::Refill).name(), "segment_refill");
    }

    #[tokio::test(start_paused = true)]
    async fn a_panic_of_an_essential_task_is_fatal_and_counted() {
        for task in Task::ALL {
            let world = World::new();
            let panics = async { panic!("planted by a test") };
            let _ended = world.supervisor.essential(task, panics);
            let expected = format!(
                "the background task {} failed: it panicked: planted by a test",
                task.name()
            );
            assert_eq!(world.fatal().await, Some(expected));
            assert_eq!(world.failures(task), 1);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn an_essential_task_may_end_only_after_the_stop() {
        let world = World::new();
        let _ended = world.supervisor.essential(Task::AdminListener, ready(()));
        let expected = "the background task admin_listener failed: it ended by itself";
        assert_eq!(world.fatal().await.as_deref(), Some(expected));

        let world = World::new();
        let mut stopping = world.supervisor.stopping.subscribe();
        let until_stopped = async move { drop(stopping.wait_for(|stopping| *stopping).await) };
        let supervised = world.supervisor.essential(Task::PublicListener, until_stopped);
        world.supervisor.stopping.send_replace(true);
        assert!(supervised.end_within(Duration::from_hours(1)).await);
        assert_eq!((world.fatal().await, world.failures(Task::PublicListener)), (None, 0));
    }

    #[tokio::test(start_paused = true)]
    async fn a_restarted_task_begins_again_after_each_panic_and_then_may_end() {
        let world = World::new();
        let starts = Arc::new(AtomicU32::new(0));
        let counted = Arc::clone(&starts);
        let supervised = world.supervisor.restarted(Task::Announcement, move || {
            let start = counted.fetch_add(1, Ordering::SeqCst);
            // A panic before the future exists, and one within it.
            assert!(start != 0, "planted by a test");
            async move { assert!(start != 1, "planted by a test") }
        });
        assert!(supervised.end_within(Duration::from_hours(1)).await);
        assert_eq!(starts.load(Ordering::SeqCst), 3);
        assert_eq!((world.fatal().await, world.failures(Task::Announcement)), (None, 2));
    }

    #[tokio::test(start_paused = true)]
    async fn first_fatal_failure_is_reported() {
        let world = World::new();
        world.supervisor.report_fatal(Task::LeaseKeeper, "one".into());
        world.supervisor.report_fatal(Task::StopSignal, "two".into());
        let expected = "the background task lease_keeper failed: one";
        assert_eq!(world.fatal().await.as_deref(), Some(expected));
        assert_eq!(world.failures(Task::StopSignal), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn a_dropped_or_overdue_task_ends_and_that_is_no_failure() {
        let world = World::new();
        let shared = Arc::new(());
        for is_dropped in [true, false] {
            let held = Arc::clone(&shared);
            let supervised = world.supervisor.essential(Task::PublicListener, async move {
                let _held = held;
                pending::<()>().await;
            });
            if is_dropped {
                drop(supervised);
            } else {
                assert!(!supervised.end_within(Duration::from_secs(1)).await);
            }
        }
        assert_eq!((world.fatal().await, world.failures(Task::PublicListener)), (None, 0));
        assert_eq!(Arc::strong_count(&shared), 1);
    }
}
