//! Metrics of keepers and issuers, which report through [`Observer`].

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use prometheus::{GaugeVec, HistogramVec, IntCounter, IntCounterVec, Registry};

use super::{NAMESPACE, Task, counters, gauges, histograms, history::Counts};
use crate::keeper::{
    Exhaustion, KeeperTask, LeaseOperation, LeaseOutcome, Observer, RefillOutcome, RollbackAction,
    StoreOperation,
};

/// In seconds: from a statement on the same machine to the store's time-out.
const STORE_BUCKETS: [f64; 10] = [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.1, 0.5, 1.0, 3.0];

/// The metrics of every namespace.
#[derive(Debug)]
pub(super) struct KeeperMetrics {
    ids_issued: IntCounterVec,
    exhausted: IntCounterVec,
    rollbacks: IntCounterVec,
    lease_operations: IntCounterVec,
    store_operations: HistogramVec,
    refills: IntCounterVec,
    epoch_changes: IntCounterVec,
    unsafe_settings: GaugeVec,
    /// The warnings that `unsafe_settings` counts, by namespace.
    store_warnings: Mutex<BTreeMap<String, Vec<String>>>,
    task_failures: IntCounterVec,
}

impl KeeperMetrics {
    pub(super) fn new(registry: &Registry, task_failures: IntCounterVec) -> Self {
        let counters = |name, help, labels: &[&str]| counters(registry, name, help, labels);
        let metrics = Self {
            ids_issued: counters("raindrop_ids_issued_total", "IDs issued.", &[NAMESPACE]),
            exhausted: counters(
                "raindrop_sequence_exhausted_total",
                "Claims that did not fit into the present tick.",
                &[NAMESPACE, "outcome"],
            ),
            rollbacks: counters(
                "raindrop_clock_rollbacks_total",
                "Clock steps back, by the action taken.",
                &[NAMESPACE, "action"],
            ),
            lease_operations: counters(
                "raindrop_lease_operations_total",
                "Writes of worker rows, by outcome.",
                &[NAMESPACE, "operation", "outcome"],
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
                &[NAMESPACE, "outcome"],
            ),
            epoch_changes: counters(
                "raindrop_store_epoch_changes_total",
                "Epochs that this node began because the store failed over or went back.",
                &[NAMESPACE],
            ),
            unsafe_settings: gauges(
                registry,
                "raindrop_store_unsafe_settings",
                "Settings by which the store may lose acknowledged writes, as the log named them \
                 at the start.",
                NAMESPACE,
            ),
            store_warnings: Mutex::default(),
            task_failures,
        };
        for operation in StoreOperation::ALL {
            metrics.store_operations.with_label_values(&[operation.name()]);
        }
        metrics
    }

    /// Returns the observer of a namespace that leases worker ids. Its counters are exported from
    /// now on, at 0.
    pub(super) fn of_namespace(self: &Arc<Self>, namespace: &str) -> NamespaceObserver {
        let exhausted =
            |outcome: Exhaustion| self.exhausted.with_label_values(&[namespace, outcome.name()]);
        for action in RollbackAction::ALL {
            self.rollbacks.with_label_values(&[namespace, action.name()]);
        }
        for operation in LeaseOperation::ALL {
            for outcome in LeaseOutcome::ALL {
                let labels = [namespace, operation.name(), outcome.name()];
                self.lease_operations.with_label_values(&labels);
            }
        }
        self.epoch_changes.with_label_values(&[namespace]);
        self.observer(namespace, Exhaustion::ALL.map(exhausted).into())
    }

    /// Returns the observer of a segment namespace, as [`Self::of_namespace`] does.
    pub(super) fn of_segments(self: &Arc<Self>, namespace: &str) -> NamespaceObserver {
        for outcome in RefillOutcome::ALL {
            self.refills.with_label_values(&[namespace, outcome.name()]);
        }
        self.observer(namespace, Vec::new())
    }

    /// Returns the counts of a namespace since the start. In segment mode, a namespace has neither
    /// ticks to use up nor a clock that matters, so those counts are 0.
    pub(super) fn counts(&self, namespace: &str, has_ticks: bool) -> Counts {
        let issued = self.ids_issued.with_label_values(&[namespace]).get();
        if !has_ticks {
            return Counts { issued, ..Counts::default() };
        }
        let exhausted = |outcome: Exhaustion| {
            self.exhausted.with_label_values(&[namespace, outcome.name()]).get()
        };
        let rolled_back = |action: RollbackAction| {
            self.rollbacks.with_label_values(&[namespace, action.name()]).get()
        };
        Counts {
            issued,
            waited: exhausted(Exhaustion::Waited),
            refused: exhausted(Exhaustion::Refused),
            rollbacks: RollbackAction::ALL.map(rolled_back).iter().sum(),
        }
    }

    /// Returns the settings of the store that can make it lose acknowledged writes. The namespace
    /// read them when it last prepared the store.
    pub(super) fn store_warnings(&self, namespace: &str) -> Vec<String> {
        let warnings = self.store_warnings.lock().unwrap_or_else(PoisonError::into_inner);
        warnings.get(namespace).cloned().unwrap_or_default()
    }

    fn observer(
        self: &Arc<Self>,
        namespace: &str,
        exhausted: Vec<IntCounter>,
    ) -> NamespaceObserver {
        NamespaceObserver {
            namespace: namespace.to_owned(),
            ids_issued: self.ids_issued.with_label_values(&[namespace]),
            exhausted,
            metrics: Arc::clone(self),
        }
    }
}

/// Counts the events of one namespace.
#[derive(Debug)]
pub(super) struct NamespaceObserver {
    namespace: String,
    metrics: Arc<KeeperMetrics>,
    // Looked up once, because every claim counts here.
    ids_issued: IntCounter,
    /// Claims that found their tick used up, by outcome; empty for a segment namespace.
    exhausted: Vec<IntCounter>,
}

impl Observer for NamespaceObserver {
    fn ids_issued(&self, count: u64) {
        self.ids_issued.inc_by(count);
    }

    fn exhausted(&self, outcome: Exhaustion) {
        if let Some(counter) = self.exhausted.get(outcome as usize) {
            counter.inc();
        }
    }

    fn clock_rolled_back(&self, action: RollbackAction) {
        self.metrics.rollbacks.with_label_values(&[&self.namespace, action.name()]).inc();
    }

    fn lease_operation(&self, operation: LeaseOperation, outcome: LeaseOutcome) {
        let labels = [&self.namespace, operation.name(), outcome.name()];
        self.metrics.lease_operations.with_label_values(&labels).inc();
    }

    fn epoch_changed(&self) {
        self.metrics.epoch_changes.with_label_values(&[&self.namespace]).inc();
    }

    fn store_prepared(&self, warnings: &[String]) {
        let settings = u32::try_from(warnings.len()).expect("a few").into();
        self.metrics.unsafe_settings.with_label_values(&[&self.namespace]).set(settings);
        let mut all = self.metrics.store_warnings.lock().unwrap_or_else(PoisonError::into_inner);
        all.insert(self.namespace.clone(), warnings.to_vec());
    }

    fn segment_refilled(&self, outcome: RefillOutcome) {
        self.metrics.refills.with_label_values(&[&self.namespace, outcome.name()]).inc();
    }

    fn step_panicked(&self, task: KeeperTask) {
        let task = Task::from(task).name();
        self.metrics.task_failures.with_label_values(&[task]).inc();
    }

    fn store_operation(&self, operation: StoreOperation, took: Duration) {
        let durations = &self.metrics.store_operations;
        durations.with_label_values(&[operation.name()]).observe(took.as_secs_f64());
    }
}

#[cfg(test)]
mod tests {
    use super::{super::task_failures, *};

    #[test]
    fn reports_are_counted_under_their_labels() {
        let registry = Registry::new();
        let metrics = Arc::new(KeeperMetrics::new(&registry, task_failures(&registry)));
        let observer = metrics.of_namespace("default");
        observer.ids_issued(7);
        observer.exhausted(Exhaustion::Refused);
        observer.clock_rolled_back(RollbackAction::Swapped);
        observer.lease_operation(LeaseOperation::Rotate, LeaseOutcome::NoneFree);
        observer.epoch_changed();
        let warnings = ["appendonly is no".to_owned(), "appendfsync is everysec".to_owned()];
        observer.store_prepared(&warnings);
        observer.store_operation(StoreOperation::Swap, Duration::from_millis(2));
        metrics.of_segments("numbers").segment_refilled(RefillOutcome::Failed);
        metrics.of_segments("numbers").step_panicked(KeeperTask::Refill);
        observer.step_panicked(KeeperTask::Lease);
        let text =
            prometheus::TextEncoder::new().encode_to_string(&registry.gather()).expect("text");
        for line in [
            r#"raindrop_ids_issued_total{id_namespace="default"} 7"#,
            r#"raindrop_sequence_exhausted_total{id_namespace="default",outcome="refused"} 1"#,
            r#"raindrop_sequence_exhausted_total{id_namespace="default",outcome="waited"} 0"#,
            r#"raindrop_clock_rollbacks_total{action="swapped",id_namespace="default"} 1"#,
            r#"raindrop_lease_operations_total{id_namespace="default",operation="rotate",outcome="none_free"} 1"#,
            r#"raindrop_store_epoch_changes_total{id_namespace="default"} 1"#,
            r#"raindrop_store_unsafe_settings{id_namespace="default"} 2"#,
            r#"raindrop_store_operation_duration_seconds_count{operation="swap"} 1"#,
            r#"raindrop_store_operation_duration_seconds_count{operation="prepare"} 0"#,
            r#"raindrop_segment_refills_total{id_namespace="numbers",outcome="failed"} 1"#,
            r#"raindrop_segment_refills_total{id_namespace="numbers",outcome="done"} 0"#,
            r#"raindrop_task_failures_total{task="lease_keeper"} 1"#,
            r#"raindrop_task_failures_total{task="segment_keeper"} 0"#,
            r#"raindrop_task_failures_total{task="segment_refill"} 1"#,
        ] {
            assert!(text.contains(line), "{line} in\n{text}");
        }
        assert_eq!(metrics.store_warnings("default"), warnings);
        assert!(metrics.store_warnings("numbers").is_empty());
        observer.store_prepared(&[]);
        assert!(metrics.store_warnings("default").is_empty());
    }
}
