//! `/metrics`: the Prometheus text.

use std::sync::Arc;

use axum::{
    extract::State,
    http::header,
    response::{IntoResponse, Response},
};

use crate::server::state::AppState;

/// Answers every metric.
pub(in crate::server) async fn metrics(State(state): State<Arc<AppState>>) -> Response {
    let text = state.metrics.encode(state.issuers());
    ([(header::CONTENT_TYPE, prometheus::TEXT_FORMAT)], text).into_response()
}
