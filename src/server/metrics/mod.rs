//! Every metric of the service.
//!
//! Each [`Metrics`] has its own registry, so that tests and embedding services can have several.
//! Labels name the namespace, never the code: clients choose codes, and could create any number of
//! series. A series whose labels are known is exported at 0 from the start, so that alerts see its
//! first increase.
//!
//! Counters live here and rise as events happen. Gauges that describe a state (leases, tokens) are
//! built from it at each scrape, so that a namespace or token that is gone has no series.

mod credentials;
pub(super) mod history;
mod http;
mod keeper;
mod process;
mod scrapes;

use std::sync::Arc;

use axum::body::Bytes;
use prometheus::{
    Gauge, GaugeVec, HistogramOpts, HistogramVec, IntCounterVec, IntGauge, Opts, Registry,
    TextEncoder, core::Collector,
};

pub(super) use self::{
    credentials::{FORBIDDEN, TlsMetrics},
    http::{Connections, Counted, Dropped, RouteMetrics},
};
use self::{
    history::Counts, http::HttpMetrics, keeper::KeeperMetrics, process::ProcessMetrics,
    scrapes::Scrapes,
};
use crate::{
    auth::Auth,
    config::HttpTls,
    keeper::{KeeperTask, NamespaceIssuer, Observer, labels},
    process::{BUILD, telemetry},
};

/// The label of an ID namespace, not called `namespace` because Kubernetes adds that label to every
/// scrape.
const NAMESPACE: &str = "id_namespace";

labels! {
    /// A background task.
    pub(in crate::server) Task {
        PublicListener = "public_listener",
        AdminListener = "admin_listener",
        LeaseKeeper = "lease_keeper",
        SegmentKeeper = "segment_keeper",
        SegmentRefill = "segment_refill",
        TokenReload = "token_reload",
        CertificateReload = "certificate_reload",
        Announcement = "announcement",
        History = "history",
        StopSignal = "stop_signal",
    }
}

impl From<KeeperTask> for Task {
    fn from(task: KeeperTask) -> Self {
        match task {
            KeeperTask::Lease => Self::LeaseKeeper,
            KeeperTask::Segments => Self::SegmentKeeper,
            KeeperTask::Refill => Self::SegmentRefill,
        }
    }
}

/// Every metric of the service.
#[derive(Debug)]
pub struct Metrics {
    registry: Registry,
    pub(super) http: HttpMetrics,
    /// By reason.
    pub(super) auth_refused: IntCounterVec,
    /// By task.
    pub(super) task_failures: IntCounterVec,
    /// 1 if no other server on the network can pose as the store.
    pub(super) store_verified: IntGauge,
    /// 1 if a Kubernetes Lease does not keep its labels.
    pub(super) store_labels_refused: IntGauge,
    keeper: Arc<KeeperMetrics>,
    scrapes: Scrapes,
}

impl Metrics {
    /// Registers every metric.
    pub fn new() -> Self {
        let registry = Registry::new();
        let task_failures = task_failures(&registry);
        let help = "1, labelled with the version, and the commit if the build was told it.";
        let build_info = Opts::new("raindrop_build_info", help)
            .const_label("version", BUILD.version)
            .const_label("commit", BUILD.commit);
        set_gauge(&registry, build_info, 1.0);
        register(&registry, ProcessMetrics::new());
        register(&registry, telemetry::DROPPED.clone());
        register(&registry, telemetry::SPANS_DROPPED.clone());
        Self {
            http: HttpMetrics::new(&registry),
            auth_refused: credentials::refused(&registry),
            store_verified: gauge(
                &registry,
                "raindrop_store_verified",
                "1 if the store is embedded, on this machine or verified by its certificate; else \
                 0.",
            ),
            store_labels_refused: gauge(
                &registry,
                "raindrop_store_labels_refused",
                "1 if the API server refused lately to give a Lease its labels again; else 0.",
            ),
            keeper: Arc::new(KeeperMetrics::new(&registry, task_failures.clone())),
            task_failures,
            registry,
            scrapes: Scrapes::new(),
        }
    }

    /// Returns the observer that counts what the keeper and issuer of a namespace report.
    pub fn observer(&self, namespace: &str) -> Arc<dyn Observer> {
        Arc::new(self.keeper.of_namespace(namespace))
    }

    /// Returns the observer of a segment namespace.
    pub fn segment_observer(&self, namespace: &str) -> Arc<dyn Observer> {
        Arc::new(self.keeper.of_segments(namespace))
    }

    /// Returns the counts of a namespace since the start of the service.
    pub(super) fn counts(&self, issuer: &NamespaceIssuer) -> Counts {
        if let NamespaceIssuer::Segment(issuer) = issuer {
            // Reading the status makes the issuer report the IDs that it has issued since its last
            // report.
            issuer.status();
        }
        self.keeper.counts(issuer.namespace(), issuer.layout().is_some())
    }

    /// Returns the settings by which the store may lose acknowledged writes, as the log named them.
    pub(super) fn store_warnings(&self, namespace: &str) -> Vec<String> {
        self.keeper.store_warnings(namespace)
    }

    /// Registers the metrics of TLS, which only a service with TLS exports.
    pub(super) fn tls(&self, files: &HttpTls) -> TlsMetrics {
        TlsMetrics::new(&self.registry, files.client_crl_file.is_some())
    }

    /// Returns the Prometheus text, or that of the last scrape if scrapes follow too fast.
    pub(super) fn bounded_text<'a>(
        &self,
        issuers: impl Iterator<Item = &'a NamespaceIssuer>,
        auth: Option<&Auth>,
    ) -> Bytes {
        self.scrapes.text(|| self.text(issuers, auth))
    }

    /// Returns the Prometheus text, with the gauges of these issuers and tokens as they are now.
    pub(super) fn text<'a>(
        &self,
        issuers: impl Iterator<Item = &'a NamespaceIssuer>,
        auth: Option<&Auth>,
    ) -> String {
        // Before the counters are gathered, because reading the status makes a segment issuer
        // report the IDs that it has issued.
        let gauges = status_gauges(issuers);
        let families =
            [self.registry.gather(), gauges.gather(), credentials::gauges(auth).gather()].concat();
        TextEncoder::new().encode_to_string(&families).unwrap_or_else(|error| {
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

/// Builds the gauges of these issuers from their present status.
#[expect(clippy::cast_precision_loss, reason = "Prometheus knows floats only")]
fn status_gauges<'a>(issuers: impl Iterator<Item = &'a NamespaceIssuer>) -> Registry {
    let registry = Registry::new();
    // All namespaces share one clock and one store, so there is one gauge, of the largest
    // difference: a namespace that queried the store less recently may not have seen it yet.
    let mut clock_ahead_ms: i64 = 0;
    for issuer in issuers {
        let named = |name: &str, help: &str| {
            Opts::new(name, help).const_label(NAMESPACE, issuer.namespace())
        };
        let set = |name: &str, help: &str, value| set_gauge(&registry, named(name, help), value);
        let help = "1 while IDs are issued, as /readyz?namespace= tells; else 0.";
        set("raindrop_issuing", help, issuer.is_issuing().into());
        let codes = match issuer {
            NamespaceIssuer::Snowflake(issuer) => {
                let status = issuer.status();
                let lease = status.lease;
                if let Some(lease) = lease {
                    let help = "1 while a worker id is leased, labelled with that and the lane.";
                    let info = named("raindrop_lease_info", help)
                        .const_label("worker_id", lease.worker.to_string())
                        .const_label("lane", lease.lane.to_string());
                    set_gauge(&registry, info, 1.0);
                }
                set(
                    "raindrop_lease_valid_until_timestamp_seconds",
                    "When the lease ends unless it is renewed; 0 without a lease.",
                    lease.map_or(0.0, |lease| lease.valid_until_ms as f64 / 1_000.0),
                );
                for (state, count) in [("held", status.workers_held), ("free", status.workers_free)]
                {
                    let help = "Worker ids that are held and free, as last read.";
                    let options = named("raindrop_workers", help).const_label("state", state);
                    set_gauge(&registry, options, count as f64);
                }
                set(
                    "raindrop_ids_valid_until_timestamp_seconds",
                    "When the layout's timestamp runs out.",
                    issuer.layout().valid_until_ms() as f64 / 1_000.0,
                );
                if status.clock_ahead_ms.unsigned_abs() > clock_ahead_ms.unsigned_abs() {
                    clock_ahead_ms = status.clock_ahead_ms;
                }
                status.codes
            }
            NamespaceIssuer::Segment(issuer) => {
                let status = issuer.status();
                let help = "1 while the store fails, so that no numbers are reserved; else 0.";
                set("raindrop_segment_store_failing", help, status.store_fails.into());
                let help = "Reserved and unused numbers, over all codes.";
                set("raindrop_segment_remaining", help, status.remaining as f64);
                set(
                    "raindrop_segment_unreserved_ratio",
                    "The share of a code's numbers that is not reserved yet, from 1 to 0: the \
                     smallest of all codes.",
                    status.unreserved,
                );
                status.codes
            }
        };
        set("raindrop_codes", "Sequences in use: 1 where all codes share one.", codes as f64);
    }
    let clock_skew = Opts::new(
        "raindrop_clock_skew_seconds",
        "By how much the node's clock is ahead of the store's; negative when behind.",
    );
    set_gauge(&registry, clock_skew, clock_ahead_ms as f64 / 1_000.0);
    registry
}

/// Registers the counter of failed background tasks.
pub(super) fn task_failures(registry: &Registry) -> IntCounterVec {
    counters_by(
        registry,
        "raindrop_task_failures_total",
        "Background tasks that panicked, or ended before the service did.",
        "task",
        Task::ALL.map(Task::name),
    )
}

/// Registers counters by one label, each exported from the start.
fn counters_by<const N: usize>(
    registry: &Registry,
    name: &str,
    help: &str,
    label: &str,
    values: [&str; N],
) -> IntCounterVec {
    let counters = counters(registry, name, help, &[label]);
    for value in values {
        let _at_zero = counters.with_label_values(&[value]);
    }
    counters
}

fn counters(registry: &Registry, name: &str, help: &str, labels: &[&str]) -> IntCounterVec {
    let counters = IntCounterVec::new(Opts::new(name, help), labels).expect("a valid name");
    registered(registry, counters)
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
    registered(registry, IntGauge::new(name, help).expect("a valid name"))
}

fn gauges(registry: &Registry, name: &str, help: &str, label: &str) -> GaugeVec {
    let gauges = GaugeVec::new(Opts::new(name, help), &[label]).expect("a valid name");
    registered(registry, gauges)
}

/// Registers a gauge of this value.
fn set_gauge(registry: &Registry, options: Opts, value: f64) {
    let gauge = Gauge::with_opts(options).expect("a valid name");
    gauge.set(value);
    register(registry, gauge);
}

fn registered<C: Collector + Clone + 'static>(registry: &Registry, collector: C) -> C {
    register(registry, collector.clone());
    collector
}

fn register(registry: &Registry, collector: impl Collector + 'static) {
    registry.register(Box::new(collector)).expect("every name is registered once");
}
