//! `/metrics`: the Prometheus text.

use std::sync::Arc;

use axum::{extract::State, response::Response};

use crate::server::{
    extract::Client,
    response::{Problem, body},
    state::AppState,
};

/// Metrics as Prometheus text
///
/// In the text format 0.0.4. Beyond 100 scrapes in a second, that of the last one.
#[utoipa::path(
    get,
    path = "/metrics",
    operation_id = "metrics",
    responses((status = 200, description = "Metrics as Prometheus text", body = String)),
)]
pub(in crate::server) async fn metrics(
    State(state): State<Arc<AppState>>,
    client: Client,
) -> Result<Response, Problem> {
    let (metrics, issuers) = (&state.metrics, state.issuers.values());
    let auth = state.auth.as_deref();
    metrics.http.unsent.set(i64::try_from(state.unsent_budget.used()).unwrap_or(i64::MAX));
    metrics.store_labels_refused.set(state.refused_labels().is_some().into());
    // Only a listener can be flooded with scrapes. A call within the process has no address, and
    // gets a fresh text.
    let text = match client.address {
        Some(_) => metrics.bounded_text(issuers, auth),
        None => metrics.text(issuers, auth).into(),
    };
    let reservation = client.reserve(text.len())?;
    Ok(body::response(prometheus::TEXT_FORMAT, text, reservation))
}
