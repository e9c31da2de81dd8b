//! Every metric, in a registry of its own. Labels name the namespace, never the code.

mod auth;
mod connections;
mod http;
mod keeper;
mod tasks;

use std::{fmt, sync::Arc};

use prometheus::{
    Gauge, GaugeVec, HistogramOpts, HistogramVec, IntCounterVec, IntGauge, IntGaugeVec, Opts,
    Registry, TextEncoder,
    core::{Collector, GenericGauge},
    process_collector::ProcessCollector,
};

use self::{auth::AuthMetrics, http::HttpMetrics, keeper::KeeperMetrics};
pub(super) use self::{connections::Connections, http::RouteMetrics, tasks::TaskFailures};
use super::{issuer::NamespaceIssuer, telemetry};
use crate::keeper::{Issuer, Observer, SegmentStatus, Status};

/// Every metric of the service.
pub struct Metrics {
    registry: Registry,
    pub(super) http: HttpMetrics,
    pub(super) auth: AuthMetrics,
    pub(super) tasks: TaskFailures,
    keeper: KeeperMetrics,
    gauges: Gauges,
}

/// Set from the issuers' status when they are asked for.
struct Gauges {
    clock_skew: Gauge,
    worker_id: IntGaugeVec,
    lane: IntGaugeVec,
    lease_valid_until: GaugeVec,
    workers: IntGaugeVec,
    ids_valid_until: GaugeVec,
    codes: IntGaugeVec,
    segment_remaining: IntGaugeVec,
    segment_unreserved: GaugeVec,
}

impl Metrics {
    /// Registers every metric.
    pub fn new() -> Self {
        let registry = Registry::new();
        let tasks = TaskFailures::new(&registry);
        let metrics = Self {
            http: HttpMetrics::new(&registry),
            auth: AuthMetrics::new(&registry),
            keeper: KeeperMetrics::new(&registry, tasks.clone()),
            tasks,
            gauges: Gauges::new(&registry),
            registry,
        };
        let build_info = int_gauges(
            &metrics.registry,
            "raindrop_build_info",
            "1, labelled with the version.",
            &["version"],
        );
        build_info.with_label_values(&[env!("CARGO_PKG_VERSION")]).set(1);
        register(&metrics.registry, ProcessCollector::for_self());
        register(&metrics.registry, telemetry::DROPPED.clone());
        metrics
    }

    /// Counts what the keeper and issuer of a namespace report.
    pub fn observer(&self, namespace: &str) -> Arc<dyn Observer> {
        Arc::new(self.keeper.of_namespace(namespace))
    }

    /// The same for a segment namespace.
    pub fn segment_observer(&self, namespace: &str) -> Arc<dyn Observer> {
        Arc::new(self.keeper.of_segments(namespace))
    }

    /// The Prometheus text, with gauges as they are now.
    pub(super) fn encode<'a>(&self, issuers: impl Iterator<Item = &'a NamespaceIssuer>) -> String {
        // One clock and one store: a namespace that asked the store less lately knows less.
        let mut clock_ahead_ms: i64 = 0;
        for issuer in issuers {
            let issuer = match issuer {
                NamespaceIssuer::Snowflake(issuer) => issuer,
                NamespaceIssuer::Segment(issuer) => {
                    self.gauges.set_segments(issuer.namespace(), &issuer.status());
                    continue;
                }
            };
            let status = issuer.status();
            self.gauges.set(issuer, &status);
            if status.clock_ahead_ms.unsigned_abs() > clock_ahead_ms.unsigned_abs() {
                clock_ahead_ms = status.clock_ahead_ms;
            }
        }
        self.gauges.clock_skew.set(seconds(clock_ahead_ms));
        TextEncoder::new().encode_to_string(&self.registry.gather()).unwrap_or_else(|error| {
            tracing::error!(%error, "cannot write metrics");
            String::new()
        })
    }
}

impl Default for Metrics {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for Metrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Metrics").finish_non_exhaustive()
    }
}

impl Gauges {
    fn new(registry: &Registry) -> Self {
        let ints = |name, help, labels: &[&str]| int_gauges(registry, name, help, labels);
        let floats = |name: &str, help: &str| {
            let vector = GaugeVec::new(Opts::new(name, help), &["namespace"]);
            registered(registry, vector.expect("a valid name"))
        };
        let clock_skew = Gauge::new(
            "raindrop_clock_skew_seconds",
            "By how much the node's clock is ahead of the store's; negative when behind.",
        );
        Self {
            clock_skew: registered(registry, clock_skew.expect("a valid name")),
            worker_id: ints(
                "raindrop_worker_id",
                "The leased worker id; -1 without a lease.",
                &["namespace"],
            ),
            lane: ints("raindrop_lane", "The leased lane; -1 without a lease.", &["namespace"]),
            lease_valid_until: floats(
                "raindrop_lease_valid_until_timestamp_seconds",
                "When the lease ends unless it is renewed; 0 without a lease.",
            ),
            workers: ints(
                "raindrop_workers",
                "Worker ids that are held and free, as last read.",
                &["namespace", "state"],
            ),
            ids_valid_until: floats(
                "raindrop_ids_valid_until_timestamp_seconds",
                "When the layout's timestamp runs out.",
            ),
            codes: ints("raindrop_codes", "Codes that have a cursor.", &["namespace"]),
            segment_remaining: ints(
                "raindrop_segment_remaining",
                "Reserved and unused numbers, over all codes.",
                &["namespace"],
            ),
            segment_unreserved: floats(
                "raindrop_segment_unreserved_ratio",
                "The share of a code's numbers that is not reserved yet, from 1 to 0: the smallest of \
                 all codes.",
            ),
        }
    }

    fn set(&self, issuer: &Issuer, status: &Status) {
        let namespace = issuer.namespace();
        let lease = status.lease;
        let or_none = |value: Option<u64>| value.map_or(-1, clamped);
        self.worker_id
            .with_label_values(&[namespace])
            .set(or_none(lease.map(|lease| lease.worker)));
        self.lane.with_label_values(&[namespace]).set(or_none(lease.map(|lease| lease.lane)));
        self.lease_valid_until
            .with_label_values(&[namespace])
            .set(lease.map_or(0.0, |lease| seconds(lease.valid_until_ms)));
        let workers = |state| -> IntGauge { self.workers.with_label_values(&[namespace, state]) };
        workers("held").set(clamped(status.workers_held));
        workers("free").set(clamped(status.workers_free));
        self.ids_valid_until
            .with_label_values(&[namespace])
            .set(seconds(issuer.layout().valid_until_ms()));
        self.set_codes(namespace, status.codes);
    }

    fn set_segments(&self, namespace: &str, status: &SegmentStatus) {
        self.set_codes(namespace, status.codes);
        self.segment_remaining.with_label_values(&[namespace]).set(clamped(status.remaining));
        self.segment_unreserved.with_label_values(&[namespace]).set(status.unreserved);
    }

    fn set_codes(&self, namespace: &str, codes: usize) {
        let codes = u64::try_from(codes).unwrap_or(u64::MAX);
        self.codes.with_label_values(&[namespace]).set(clamped(codes));
    }
}

fn clamped(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

#[expect(clippy::cast_precision_loss, reason = "Prometheus knows floats only")]
fn seconds(millis: i64) -> f64 {
    millis as f64 / 1_000.0
}

fn int_gauges(registry: &Registry, name: &str, help: &str, labels: &[&str]) -> IntGaugeVec {
    registered(registry, IntGaugeVec::new(Opts::new(name, help), labels).expect("a valid name"))
}

fn counters(registry: &Registry, name: &str, help: &str, labels: &[&str]) -> IntCounterVec {
    registered(registry, IntCounterVec::new(Opts::new(name, help), labels).expect("a valid name"))
}

fn histograms(
    registry: &Registry,
    name: &str,
    help: &str,
    label: &str,
    buckets: &[f64],
) -> HistogramVec {
    let options = HistogramOpts::new(name, help).buckets(buckets.to_vec());
    registered(registry, HistogramVec::new(options, &[label]).expect("a valid name"))
}

fn gauge(registry: &Registry, name: &str, help: &str) -> IntGauge {
    registered(registry, GenericGauge::new(name, help).expect("a valid name"))
}

fn registered<C: Collector + Clone + 'static>(registry: &Registry, collector: C) -> C {
    register(registry, collector.clone());
    collector
}

fn register(registry: &Registry, collector: impl Collector + 'static) {
    registry.register(Box::new(collector)).expect("every name is registered once");
}
