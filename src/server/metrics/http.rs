//! Counts and times requests.

use std::sync::{Arc, OnceLock};

use axum::{
    extract::{MatchedPath, Request, State},
    http::{Method, StatusCode},
    middleware::Next,
    response::Response,
};
use prometheus::{Histogram, HistogramVec, IntCounter, IntCounterVec, IntGauge, Registry};
use tokio::time::Instant;

use super::{counters, gauge, histograms};
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
const STATUSES: [u16; 10] = [200, 400, 404, 405, 408, 414, 422, 429, 500, 503];

/// The metrics of requests.
pub(super) struct HttpMetrics {
    requests: IntCounterVec,
    durations: HistogramVec,
    in_flight: IntGauge,
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
        let routes = ROUTES.into_iter().chain([UNMATCHED]).map(|route| {
            let usual = if route == UNMATCHED { "404" } else { "200" };
            requests.with_label_values(&[route, "GET", usual]);
            let duration = durations.with_label_values(&[route]);
            RouteMetrics { route, duration, requests: Default::default() }
        });
        let routes = routes.collect();
        Self { requests, durations, in_flight, routes }
    }

    fn answered(&self, route: &str, method: &Method, status: StatusCode, seconds: f64) {
        let method_index = METHODS.iter().position(|known| known == method);
        let method = method_index.map_or("other", |index| METHODS[index].as_str());
        let count = || self.requests.with_label_values(&[route, method, status.as_str()]);
        let Some(metrics) = self.routes.iter().find(|metrics| metrics.route == route) else {
            count().inc();
            return self.durations.with_label_values(&[route]).observe(seconds);
        };
        metrics.duration.observe(seconds);
        let status_index = STATUSES.iter().position(|known| *known == status.as_u16());
        match (method_index, status_index) {
            (Some(method), Some(status)) => {
                metrics.requests[method][status].get_or_init(count).inc();
            }
            _ => count().inc(),
        }
    }
}

/// Counts a request down when its answer is there, or its client is gone.
struct InFlight<'a>(&'a IntGauge);

impl Drop for InFlight<'_> {
    fn drop(&mut self) {
        self.0.dec();
    }
}

/// Counts and times every request by its route's template.
pub(in crate::server) async fn track(
    State(state): State<Arc<AppState>>,
    request: Request,
    next: Next,
) -> Response {
    let http = &state.metrics.http;
    let started = Instant::now();
    let route = request.extensions().get::<MatchedPath>().cloned();
    let method = request.method().clone();
    http.in_flight.inc();
    let in_flight = InFlight(&http.in_flight);
    let response = next.run(request).await;
    drop(in_flight);
    let route = route.as_ref().map_or(UNMATCHED, MatchedPath::as_str);
    http.answered(route, &method, response.status(), started.elapsed().as_secs_f64());
    response
}
