//! Counts and times requests, and counts connections.

use std::sync::OnceLock;

use axum::http::{Method, StatusCode};
use prometheus::{Histogram, HistogramVec, IntCounter, IntCounterVec, IntGauge, Registry};
use tokio::time::Instant;

use super::{counters, counters_by, gauge, histograms};
use crate::server::connections::activity::Phase;

/// One ID takes tens of microseconds, a batch under a millisecond, a wait up to a second.
const BUCKETS: [f64; 12] =
    [0.000_05, 0.000_1, 0.000_25, 0.000_5, 0.001, 0.0025, 0.005, 0.01, 0.05, 0.25, 1.0, 10.0];

/// Anything else is `other`, so that clients cannot invent label values.
const METHODS: [Method; 7] = [
    Method::GET,
    Method::POST,
    Method::HEAD,
    Method::OPTIONS,
    Method::PUT,
    Method::DELETE,
    Method::PATCH,
];
const STATUSES: [u16; 13] = [200, 400, 401, 403, 404, 405, 408, 413, 414, 422, 429, 500, 503];

/// The metrics of requests.
#[derive(Debug)]
pub(in crate::server) struct HttpMetrics {
    requests: IntCounterVec,
    durations: HistogramVec,
    in_flight: IntGauge,
    pub(in crate::server) connections: Connections,
    /// Bytes reserved for responses that are not sent yet.
    pub(in crate::server) unsent: IntGauge,
}

/// The metrics of one route, looked up once.
pub(in crate::server) struct RouteMetrics {
    route: &'static str,
    all_requests: IntCounterVec,
    duration: Histogram,
    requests: [[OnceLock<IntCounter>; STATUSES.len()]; METHODS.len()],
}

impl HttpMetrics {
    pub(super) fn new(registry: &Registry) -> Self {
        let requests = counters(
            registry,
            "raindrop_http_requests_total",
            "HTTP requests by route, method and status.",
            &["route", "method", "status"],
        );
        let durations = histograms(
            registry,
            "raindrop_http_request_duration_seconds",
            "Duration of HTTP requests.",
            "route",
            &BUCKETS,
        );
        let in_flight =
            gauge(registry, "raindrop_http_requests_in_flight", "HTTP requests in flight.");
        let connections = Connections::new(registry);
        let help = "Bytes of memory reserved for responses that clients have not read yet.";
        let unsent = gauge(registry, "raindrop_http_unsent_bytes", help);
        Self { requests, durations, in_flight, connections, unsent }
    }

    /// The metrics of a route, by its path; `usual` is the status that is exported from the start.
    pub(in crate::server) fn route(&self, route: &'static str, usual: &str) -> RouteMetrics {
        self.requests.with_label_values(&[route, "GET", usual]);
        RouteMetrics {
            route,
            all_requests: self.requests.clone(),
            duration: self.durations.with_label_values(&[route]),
            requests: Default::default(),
        }
    }

    /// Begins to time a request.
    pub(in crate::server) fn begin(&self) -> Tracked<'_> {
        Tracked { _in_flight: Counted::new(&self.in_flight), started: Instant::now() }
    }
}

/// The metrics of connections; cheap to clone.
#[derive(Clone, Debug)]
pub(in crate::server) struct Connections {
    pub(in crate::server) open: IntGauge,
    dropped: IntCounterVec,
}

impl Connections {
    pub(in crate::server) fn new(registry: &Registry) -> Self {
        Self {
            open: gauge(registry, "raindrop_http_connections", "Open connections of clients."),
            dropped: counters_by(
                registry,
                "raindrop_http_connections_dropped_total",
                "Connections closed by reason: head (request head too slow), stalled (response \
                 read too slowly), unsent (the same, while memory for responses is scarce), room \
                 (evicted for a new client), address (refused: too many of one client address).",
                "reason",
                ["head", "stalled", "unsent", "room", "address"],
            ),
        }
    }

    /// A connection was cut off in this phase because its client was too slow. Idle ones are not
    /// counted.
    pub(in crate::server) fn cut_off(&self, phase: Phase) {
        match phase {
            Phase::Head => self.dropped.with_label_values(&["head"]).inc(),
            Phase::Sending => self.dropped.with_label_values(&["stalled"]).inc(),
            Phase::Idle | Phase::Body | Phase::Answering => {}
        }
    }

    /// Connections were evicted because their clients read their responses too slowly.
    pub(in crate::server) fn evicted_readers(&self, count: u64) {
        self.dropped.with_label_values(&["unsent"]).inc_by(count);
    }

    /// A connection was refused because its client address has too many.
    pub(in crate::server) fn refused_address(&self) {
        self.dropped.with_label_values(&["address"]).inc();
    }

    /// A connection was evicted.
    pub(in crate::server) fn evicted(&self) {
        self.dropped.with_label_values(&["room"]).inc();
    }
}

/// A request in flight, until it is answered or its client is gone.
pub(in crate::server) struct Tracked<'a> {
    _in_flight: Counted<'a>,
    started: Instant,
}

impl Tracked<'_> {
    /// Counts and times the response.
    pub(in crate::server) fn answered(
        self,
        route: &RouteMetrics,
        method: &Method,
        status: StatusCode,
    ) {
        route.duration.observe(self.started.elapsed().as_secs_f64());
        let method_index = METHODS.iter().position(|known| known == method);
        let status_index = STATUSES.iter().position(|known| *known == status.as_u16());
        let method = method_index.map_or("other", |index| METHODS[index].as_str());
        let count =
            || route.all_requests.with_label_values(&[route.route, method, status.as_str()]);
        match (method_index, status_index) {
            (Some(method), Some(status)) => route.requests[method][status].get_or_init(count).inc(),
            _ => count().inc(),
        }
    }
}

/// Adds one to a gauge until it is dropped.
#[derive(Debug)]
pub(in crate::server) struct Counted<'a>(&'a IntGauge);

impl<'a> Counted<'a> {
    pub(in crate::server) fn new(gauge: &'a IntGauge) -> Self {
        gauge.inc();
        Self(gauge)
    }
}

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        self.0.dec();
    }
}
