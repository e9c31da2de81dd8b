//! Counts what keepers and issuers report.

use std::time::Duration;

use prometheus::{Histogram, HistogramVec, IntCounter, IntCounterVec, Registry};

use super::{TaskFailures, counters, histograms};
use crate::keeper::{
    Exhaustion, KeeperTask, LeaseOperation, LeaseOutcome, Observer, RefillOutcome, RollbackAction,
    StoreOperation,
};

/// From a statement on the same machine to the store's time-out.
const STORE_BUCKETS: [f64; 10] = [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.1, 0.5, 1.0, 3.0];

/// The counters of every namespace.
pub(super) struct KeeperMetrics {
    ids_issued: IntCounterVec,
    exhausted: IntCounterVec,
    rollbacks: IntCounterVec,
    lease_operations: IntCounterVec,
    store_operations: HistogramVec,
    refills: IntCounterVec,
    tasks: TaskFailures,
}

impl KeeperMetrics {
    pub(super) fn new(registry: &Registry, tasks: TaskFailures) -> Self {
        let counters = |name, help, labels: &[&str]| counters(registry, name, help, labels);
        Self {
            ids_issued: counters("raindrop_ids_issued_total", "IDs issued.", &["namespace"]),
            exhausted: counters(
                "raindrop_sequence_exhausted_total",
                "Claims that did not fit into the present tick.",
                &["namespace", "outcome"],
            ),
            rollbacks: counters(
                "raindrop_clock_rollbacks_total",
                "Clock steps back, by the action taken.",
                &["namespace", "action"],
            ),
            lease_operations: counters(
                "raindrop_lease_operations_total",
                "Writes of worker rows, by outcome.",
                &["namespace", "operation", "outcome"],
            ),
            store_operations: histograms(
                registry,
                "raindrop_store_operation_duration_seconds",
                "Duration of store operations.",
                "operation",
                &STORE_BUCKETS,
            ),
            refills: counters(
                "raindrop_segment_refills_total",
                "Attempts to reserve a block of numbers, by outcome.",
                &["namespace", "outcome"],
            ),
            tasks,
        }
    }

    /// Resolves every child, so that each is exported at 0 and counting needs no look-up.
    pub(super) fn of_namespace(&self, namespace: &str) -> NamespaceObserver {
        let exhausted =
            |outcome: Exhaustion| self.exhausted.with_label_values(&[namespace, outcome.name()]);
        let rollback =
            |action: RollbackAction| self.rollbacks.with_label_values(&[namespace, action.name()]);
        let lease_operation = |operation: LeaseOperation, outcome: LeaseOutcome| {
            let labels = [namespace, operation.name(), outcome.name()];
            self.lease_operations.with_label_values(&labels)
        };
        NamespaceObserver {
            ids_issued: self.ids_issued.with_label_values(&[namespace]),
            exhausted: Exhaustion::ALL.map(exhausted),
            rollbacks: RollbackAction::ALL.map(rollback),
            lease_operations: LeaseOperation::ALL.map(|operation| {
                LeaseOutcome::ALL.map(|outcome| lease_operation(operation, outcome))
            }),
            store: self.of_store(),
            tasks: self.tasks.clone(),
        }
    }

    /// The same for a segment namespace.
    pub(super) fn of_segments(&self, namespace: &str) -> SegmentObserver {
        let refill =
            |outcome: RefillOutcome| self.refills.with_label_values(&[namespace, outcome.name()]);
        SegmentObserver {
            ids_issued: self.ids_issued.with_label_values(&[namespace]),
            refills: RefillOutcome::ALL.map(refill),
            store: self.of_store(),
            tasks: self.tasks.clone(),
        }
    }

    fn of_store(&self) -> [Histogram; StoreOperation::ALL.len()] {
        let duration = |operation: StoreOperation| {
            self.store_operations.with_label_values(&[operation.name()])
        };
        StoreOperation::ALL.map(duration)
    }
}

/// The counters of one namespace; arrays are in the order of their enums.
#[derive(Debug)]
pub(super) struct NamespaceObserver {
    ids_issued: IntCounter,
    exhausted: [IntCounter; Exhaustion::ALL.len()],
    rollbacks: [IntCounter; RollbackAction::ALL.len()],
    lease_operations: [[IntCounter; LeaseOutcome::ALL.len()]; LeaseOperation::ALL.len()],
    store: [Histogram; StoreOperation::ALL.len()],
    tasks: TaskFailures,
}

impl Observer for NamespaceObserver {
    fn ids_issued(&self, count: u64) {
        self.ids_issued.inc_by(count);
    }

    fn exhausted(&self, outcome: Exhaustion) {
        self.exhausted[outcome as usize].inc();
    }

    fn clock_rolled_back(&self, action: RollbackAction) {
        self.rollbacks[action as usize].inc();
    }

    fn lease_operation(&self, operation: LeaseOperation, outcome: LeaseOutcome) {
        self.lease_operations[operation as usize][outcome as usize].inc();
    }

    fn step_panicked(&self, task: KeeperTask) {
        self.tasks.count(task.into());
    }

    fn store_operation(&self, operation: StoreOperation, took: Duration) {
        self.store[operation as usize].observe(took.as_secs_f64());
    }
}

/// The counters of one segment namespace.
#[derive(Debug)]
pub(super) struct SegmentObserver {
    ids_issued: IntCounter,
    refills: [IntCounter; RefillOutcome::ALL.len()],
    store: [Histogram; StoreOperation::ALL.len()],
    tasks: TaskFailures,
}

impl Observer for SegmentObserver {
    fn ids_issued(&self, count: u64) {
        self.ids_issued.inc_by(count);
    }

    fn segment_refilled(&self, outcome: RefillOutcome) {
        self.refills[outcome as usize].inc();
    }

    fn step_panicked(&self, task: KeeperTask) {
        self.tasks.count(task.into());
    }

    fn store_operation(&self, operation: StoreOperation, took: Duration) {
        self.store[operation as usize].observe(took.as_secs_f64());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reports_are_counted_under_their_labels() {
        let registry = Registry::new();
        let metrics = KeeperMetrics::new(&registry, TaskFailures::new(&registry));
        let observer = metrics.of_namespace("default");
        observer.ids_issued(7);
        observer.exhausted(Exhaustion::Refused);
        observer.clock_rolled_back(RollbackAction::Swapped);
        observer.lease_operation(LeaseOperation::Rotate, LeaseOutcome::NoneFree);
        observer.store_operation(StoreOperation::Swap, Duration::from_millis(2));
        metrics.of_segments("numbers").segment_refilled(RefillOutcome::Failed);
        metrics.of_segments("numbers").step_panicked(KeeperTask::Refill);
        observer.step_panicked(KeeperTask::Lease);
        let text =
            prometheus::TextEncoder::new().encode_to_string(&registry.gather()).expect("text");
        for line in [
            r#"raindrop_ids_issued_total{namespace="default"} 7"#,
            r#"raindrop_sequence_exhausted_total{namespace="default",outcome="refused"} 1"#,
            r#"raindrop_sequence_exhausted_total{namespace="default",outcome="waited"} 0"#,
            r#"raindrop_clock_rollbacks_total{action="swapped",namespace="default"} 1"#,
            r#"raindrop_lease_operations_total{namespace="default",operation="rotate",outcome="none_free"} 1"#,
            r#"raindrop_store_operation_duration_seconds_count{operation="swap"} 1"#,
            r#"raindrop_store_operation_duration_seconds_count{operation="prepare"} 0"#,
            r#"raindrop_segment_refills_total{namespace="numbers",outcome="failed"} 1"#,
            r#"raindrop_segment_refills_total{namespace="numbers",outcome="done"} 0"#,
            r#"raindrop_task_failures_total{task="lease_keeper"} 1"#,
            r#"raindrop_task_failures_total{task="segment_keeper"} 0"#,
            r#"raindrop_task_failures_total{task="segment_refill"} 1"#,
        ] {
            assert!(text.contains(line), "{line} in\n{text}");
        }
    }
}
