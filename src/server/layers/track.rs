//! Counts and times the requests of a route.

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

/// A request that is being answered, until this is dropped.
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

    /// Counts and times the response.
    pub(super) fn answered(&self, response: &Response) {
        let status = response.status();
        self.route.answered(&self.method, status, self.began.elapsed());
        // Only a token that may not do this is told what would be let in.
        if status == StatusCode::FORBIDDEN
            && response.headers().contains_key(header::WWW_AUTHENTICATE)
        {
            self.state.metrics.auth_refused.with_label_values(&[FORBIDDEN]).inc();
        }
    }
}
