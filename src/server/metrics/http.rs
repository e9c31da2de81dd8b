//! Counts and times requests, and counts connections.

use std::sync::{
    Arc, Mutex, MutexGuard, PoisonError,
    atomic::{AtomicI64, Ordering::Relaxed},
};

use axum::http::{Method, StatusCode};
use prometheus::{
    HistogramVec, IntCounterVec, IntGauge, Registry,
    local::{LocalHistogram, LocalIntCounter},
};
use tokio::time::Instant;

use super::{counters, counters_by, gauge, histograms, per_thread::PerThread};

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

/// The metrics of requests.
#[derive(Debug)]
pub(in crate::server) struct HttpMetrics {
    requests: IntCounterVec,
    durations: HistogramVec,
    in_flight: IntGauge,
    /// Requests that a thread began, less those that it ended.
    begun: Arc<PerThread<AtomicI64>>,
    routes: Mutex<Vec<Arc<RouteMetrics>>>,
    pub(in crate::server) connections: Connections,
    /// Bytes reserved for responses that are not sent yet.
    pub(in crate::server) unsent: IntGauge,
}

/// The metrics of one route on one listener.
#[derive(Debug)]
pub(in crate::server) struct RouteMetrics {
    route: String,
    requests: IntCounterVec,
    answered: PerThread<Mutex<Answered>>,
}

/// What a thread has answered since the last scrape.
#[derive(Debug)]
struct Answered {
    durations: LocalHistogram,
    /// By method, as an index of [`METHODS`] or their number, and status.
    requests: Vec<((usize, StatusCode), LocalIntCounter)>,
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
        let begun = Arc::new(PerThread::new(AtomicI64::default));
        let routes = Mutex::default();
        Self { requests, durations, in_flight, begun, routes, connections, unsent }
    }

    /// The metrics of a route, by its path; `usual` is the status that is exported from the start.
    pub(in crate::server) fn route(&self, route: &str, usual: &str) -> Arc<RouteMetrics> {
        self.requests.with_label_values(&[route, "GET", usual]);
        let durations = self.durations.with_label_values(&[route]);
        let answered = || Answered { durations: durations.local(), requests: Vec::new() };
        let answered = PerThread::new(|| Mutex::new(answered()));
        let (route, requests) = (route.to_owned(), self.requests.clone());
        let metrics = Arc::new(RouteMetrics { route, requests, answered });
        self.routes().push(Arc::clone(&metrics));
        metrics
    }

    fn routes(&self) -> MutexGuard<'_, Vec<Arc<RouteMetrics>>> {
        self.routes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds what the threads counted since the last time.
    pub(super) fn flush(&self) {
        // A request may end in a line that is read later than the one where it began.
        let in_flight = self.begun.all().map(|begun| begun.load(Relaxed)).sum::<i64>();
        self.in_flight.set(in_flight.max(0));
        for route in &*self.routes() {
            for answered in route.answered.lock_all() {
                answered.durations.flush();
                answered.requests.iter().for_each(|(_, requests)| requests.flush());
            }
        }
    }

    /// Begins to time a request for this route.
    pub(in crate::server) fn begin(&self, route: Arc<RouteMetrics>) -> Tracked {
        self.begun.own().fetch_add(1, Relaxed);
        Tracked { route, begun: Arc::clone(&self.begun), started: Instant::now() }
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
                 same, while memory for responses was scarce), room (for another client), address \
                 (refused: too many of one client address).",
                "reason",
                Dropped::ALL.map(Dropped::name),
            ),
        }
    }

    /// A connection was closed. Idle ones are not counted.
    pub(in crate::server) fn dropped(&self, reason: Dropped) {
        self.dropped.with_label_values(&[reason.name()]).inc();
    }
}

/// Why a connection was closed.
#[derive(Clone, Copy, Debug)]
pub(in crate::server) enum Dropped {
    Stalled,
    Unsent,
    Room,
    Address,
}

impl Dropped {
    const ALL: [Self; 4] = [Self::Stalled, Self::Unsent, Self::Room, Self::Address];

    const fn name(self) -> &'static str {
        match self {
            Self::Stalled => "stalled",
            Self::Unsent => "unsent",
            Self::Room => "room",
            Self::Address => "address",
        }
    }
}

/// A request in flight, until it is answered or its client is gone.
#[derive(Debug)]
pub(in crate::server) struct Tracked {
    route: Arc<RouteMetrics>,
    begun: Arc<PerThread<AtomicI64>>,
    started: Instant,
}

impl Drop for Tracked {
    fn drop(&mut self) {
        self.begun.own().fetch_sub(1, Relaxed);
    }
}

impl Tracked {
    /// Counts and times the response.
    pub(in crate::server) fn answered(self, method: &Method, status: StatusCode) {
        let route = &self.route;
        let method = METHODS.iter().position(|known| known == method).unwrap_or(METHODS.len());
        let kind = (method, status);
        let mut answered = route.answered.lock_own();
        answered.durations.observe(self.started.elapsed().as_secs_f64());
        if let Some((_, requests)) = answered.requests.iter().find(|(known, _)| *known == kind) {
            return requests.inc();
        }
        let method = METHODS.get(method).map_or("other", Method::as_str);
        let labels = [&route.route, method, status.as_str()];
        let requests = route.requests.with_label_values(&labels).local();
        requests.inc();
        answered.requests.push((kind, requests));
    }
}

/// Adds one to a gauge until it is dropped.
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
