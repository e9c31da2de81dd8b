//! Metrics of requests and connections.

use std::{
    sync::{Arc, PoisonError, RwLock},
    time::Duration,
};

use axum::http::{Method, StatusCode};
use prometheus::{Histogram, HistogramVec, IntCounter, IntCounterVec, IntGauge, Registry};

use super::{counters, counters_by, gauge, histograms};
use crate::keeper::labels;

/// In seconds: one ID takes tens of microseconds, a batch under a millisecond, a wait up to a
/// second.
const BUCKETS: [f64; 12] =
    [0.000_05, 0.000_1, 0.000_25, 0.000_5, 0.001, 0.0025, 0.005, 0.01, 0.05, 0.25, 1.0, 10.0];

/// The methods that have a label value. Any other one counts as `other`, so that clients cannot
/// create label values.
const METHODS: [Method; 7] = [
    Method::GET,
    Method::POST,
    Method::HEAD,
    Method::OPTIONS,
    Method::PUT,
    Method::DELETE,
    Method::PATCH,
];

/// The metrics of requests.
#[derive(Debug)]
pub(in crate::server) struct HttpMetrics {
    requests: IntCounterVec,
    durations: HistogramVec,
    pub(in crate::server) in_flight: IntGauge,
    pub(in crate::server) connections: Connections,
    /// Bytes reserved for responses that are not sent yet.
    pub(in crate::server) unsent: IntGauge,
}

/// The metrics of one route.
#[derive(Debug)]
pub(in crate::server) struct RouteMetrics {
    route: String,
    requests: IntCounterVec,
    durations: Histogram,
    /// The counters in use, so that each is looked up once. The key is the index of the method in
    /// [`METHODS`], or their number for another one, and the status.
    answered: RwLock<Vec<((usize, StatusCode), IntCounter)>>,
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

    /// Returns the metrics of the route with this path. The counter of `usual`, a status, is
    /// exported from the start.
    pub(in crate::server) fn route(&self, route: &str, usual: &str) -> Arc<RouteMetrics> {
        self.requests.with_label_values(&[route, "GET", usual]);
        Arc::new(RouteMetrics {
            route: route.to_owned(),
            requests: self.requests.clone(),
            durations: self.durations.with_label_values(&[route]),
            answered: RwLock::default(),
        })
    }
}

impl RouteMetrics {
    /// Returns the path of the route, with its parameters in braces.
    pub(in crate::server) fn path(&self) -> &str {
        &self.route
    }

    /// Counts and times the response to a request.
    pub(in crate::server) fn answered(&self, method: &Method, status: StatusCode, took: Duration) {
        self.durations.observe(took.as_secs_f64());
        let method = METHODS.iter().position(|known| known == method).unwrap_or(METHODS.len());
        let kind = (method, status);
        let known = self.answered.read().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, counter)) = known.iter().find(|(known, _)| *known == kind) {
            return counter.inc();
        }
        drop(known);
        let method = METHODS.get(method).map_or("other", Method::as_str);
        let counter = self.requests.with_label_values(&[&self.route, method, status.as_str()]);
        counter.inc();
        self.answered.write().unwrap_or_else(PoisonError::into_inner).push((kind, counter));
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
                "Connections closed by reason: stalled (a response was not read), unsent (the \
                 same, while memory for responses was scarce), room (for another client, or HTTP/2 \
                 that found none), address (refused: too many of one client address).",
                "reason",
                Dropped::ALL.map(Dropped::name),
            ),
        }
    }

    /// Counts a connection that the service closed. Idle ones are not counted.
    pub(in crate::server) fn dropped(&self, reason: Dropped) {
        self.dropped.with_label_values(&[reason.name()]).inc();
    }
}

labels! {
    /// Why the service closed a connection.
    pub(in crate::server) Dropped {
        Stalled = "stalled",
        Unsent = "unsent",
        Room = "room",
        Address = "address",
    }
}

/// Raises a gauge by one until this is dropped.
#[derive(Debug)]
pub(in crate::server) struct Counted(IntGauge);

impl Counted {
    pub(in crate::server) fn new(gauge: IntGauge) -> Self {
        gauge.inc();
        Self(gauge)
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.dec();
    }
}
