//! `/metrics`: the Prometheus text.

use std::sync::Arc;

use axum::{
    extract::State,
    http::header,
    response::{IntoResponse, Response},
};

use crate::server::{
    openapi::{About, Kind, PLAIN_TEXT},
    state::AppState,
};

pub(in crate::server) static ABOUT: About = About {
    name: "metrics",
    summary: "Metrics as Prometheus text",
    description: "In the text format 0.0.4.",
    parameters: &[],
    formats: &[],
    answers: &[PLAIN_TEXT],
    schemas: std::convert::identity,
    kind: Kind::Tells,
};

/// Answers every metric.
pub(in crate::server) async fn metrics(State(state): State<Arc<AppState>>) -> Response {
    let text = state.metrics.encode(state.issuers());
    ([(header::CONTENT_TYPE, prometheus::TEXT_FORMAT)], text).into_response()
}
