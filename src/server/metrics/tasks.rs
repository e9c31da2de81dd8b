//! Counts failures of background tasks.

use prometheus::{IntCounterVec, Registry};

use super::counters;
use crate::server::task::Task;

/// Failures by task; cheap to clone.
#[derive(Clone, Debug)]
pub(in crate::server) struct TaskFailures(IntCounterVec);

impl TaskFailures {
    pub(in crate::server) fn new(registry: &Registry) -> Self {
        let failures = counters(
            registry,
            "raindrop_task_failures_total",
            "Background tasks that panicked, or ended before the service did.",
            &["task"],
        );
        for task in Task::ALL {
            let _at_zero = failures.with_label_values(&[task.name()]);
        }
        Self(failures)
    }

    pub(in crate::server) fn count(&self, task: Task) {
        self.0.with_label_values(&[task.name()]).inc();
    }
}
