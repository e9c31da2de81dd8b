//! Counts and times requests.

use std::sync::{Arc, OnceLock};

use axum::{
    extract::{MatchedPath, Request, State},
    http::{Method, StatusCode},
    middleware::Next,
    response::Response,
};
use prometheus::{Histogram, IntCounter, IntCounterVec, IntGauge, Registry};
use tokio::time::Instant;

use super::{Connections, counters, gauge, histograms};
use crate::server::{router::ROUTES, state::AppState};

/// One ID takes tens of microseconds, a batch under a millisecond, a wait up to a second.
const BUCKETS: [f64; 12] =
    [0.000_05, 0.000_1, 0.000_25, 0.000_5, 0.001, 0.0025, 0.005, 0.01, 0.05, 0.25, 1.0, 10.0];

const UNMATCHED: &str = "<unmatched>";
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
pub(in crate::server) struct HttpMetrics {
    requests: IntCounterVec,
    in_flight: IntGauge,
    pub(in crate::server) connections: Connections,
    /// In the order of [`ROUTES`], then those that match none.
    routes: Vec<RouteMetrics>,
}

/// The children of one route, looked up once.
struct RouteMetrics {
    route: &'static str,
    duration: Histogram,
    requests: [[OnceLock<IntCounter>; STATUSES.len()]; METHODS.len()],
}

impl HttpMetrics {
    pub(super) fn new(registry: &Registry) -> Self {
        let requests = counters(
            registry,
            "raindrop_http_requests_total",
            "Requests answered.",
            &["route", "method", "status"],
        );
        let durations = histograms(
            registry,
            "raindrop_http_request_duration_seconds",
            "How long requests took.",
            "route",
            &BUCKETS,
        );
        let in_flight = gauge(
            registry,
            "raindrop_http_requests_in_flight",
            "Requests that are being answered.",
        );
        let connections = Connections::new(registry);
        let routes = ROUTES.into_iter().chain([UNMATCHED]).map(|route| {
            let usual = if route == UNMATCHED { "404" } else { "200" };
            requests.with_label_values(&[route, "GET", usual]);
            let duration = durations.with_label_values(&[route]);
            RouteMetrics { route, duration, requests: Default::default() }
        });
        let routes = routes.collect();
        Self { requests, in_flight, connections, routes }
    }

    /// Begins to time a request.
    pub(in crate::server) fn begin(&self) -> Tracked<'_> {
        self.in_flight.inc();
        Tracked { http: self, started: Instant::now() }
    }

    fn count(&self, route: &RouteMetrics, method: &Method, status: StatusCode) {
        let method_index = METHODS.iter().position(|known| known == method);
        let status_index = STATUSES.iter().position(|known| *known == status.as_u16());
        let method = method_index.map_or("other", |index| METHODS[index].as_str());
        let count = || self.requests.with_label_values(&[route.route, method, status.as_str()]);
        match (method_index, status_index) {
            (Some(method), Some(status)) => {
                route.requests[method][status].get_or_init(count).inc();
            }
            _ => count().inc(),
        }
    }
}

/// A request that is being answered, counted down when its answer is there or its client is gone.
pub(in crate::server) struct Tracked<'a> {
    http: &'a HttpMetrics,
    started: Instant,
}

impl Tracked<'_> {
    /// Counts and times the answer; `route` is an index into [`ROUTES`], and what matches none
    /// comes after the last.
    pub(in crate::server) fn answered(self, route: usize, method: &Method, status: StatusCode) {
        let route = &self.http.routes[route];
        route.duration.observe(self.started.elapsed().as_secs_f64());
        self.http.count(route, method, status);
    }
}

impl Drop for Tracked<'_> {
    fn drop(&mut self) {
        self.http.in_flight.dec();
    }
}

/// Counts and times every request by its route's template.
pub(in crate::server) async fn track(
    State(state): State<Arc<AppState>>,
    request: Request,
    next: Next,
) -> Response {
    let tracked = state.metrics.http.begin();
    let route = request.extensions().get::<MatchedPath>().map(MatchedPath::as_str);
    let route = ROUTES.iter().position(|known| Some(*known) == route).unwrap_or(ROUTES.len());
    let method = request.method().clone();
    let response = next.run(request).await;
    tracked.answered(route, &method, response.status());
    response
}
