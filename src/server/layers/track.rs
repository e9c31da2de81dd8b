//! Counts and times the requests of a route, and counts those in flight.
//!
//! [`Tracked`] begins before every other layer, and a request is in flight until the value is
//! dropped. A request whose client leaves before there is a response has no status: it is neither
//! counted nor timed. A 403 with a challenge also counts as a failed authentication. This layer
//! refuses nothing. Tests: tests/http/metrics.rs.

use std::sync::Arc;

use axum::{
    extract::Request,
    http::{Method, StatusCode, header},
    response::Response,
};
use tokio::time::Instant;

use crate::server::{
    metrics::{Counted, FORBIDDEN, RouteMetrics},
    state::AppState,
};

/// A request in flight, until this is dropped.
pub(super) struct Tracked<'a> {
    state: &'a AppState,
    route: &'a RouteMetrics,
    method: Method,
    pub(super) began: Instant,
    _in_flight: Counted,
}

impl<'a> Tracked<'a> {
    pub(super) fn begin(
        state: &'a Arc<AppState>,
        route: &'a RouteMetrics,
        request: &Request,
    ) -> Self {
        let in_flight = Counted::new(state.metrics.http.in_flight.clone());
        let (method, began) = (request.method().clone(), Instant::now());
        Self { state, route, method, began, _in_flight: in_flight }
    }

    /// Counts and times the response to the request.
    pub(super) fn answered(&self, response: &Response) {
        let status = response.status();
        self.route.answered(&self.method, status, self.began.elapsed());
        // Only the 403 for a token without the permission has this challenge. Other 403, such as
        // for a page of another site, are not failures of authentication.
        if status == StatusCode::FORBIDDEN
            && response.headers().contains_key(header::WWW_AUTHENTICATE)
        {
            self.state.metrics.auth_refused.with_label_values(&[FORBIDDEN]).inc();
        }
    }
}
