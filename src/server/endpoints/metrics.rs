//! `/metrics`: the Prometheus text.

use axum::http::Response;

use crate::server::{
    body::{self, ResponseBody},
    problem::Problem,
    route::{Call, Handler, Listener, PLAIN_TEXT, Route},
};

pub(in crate::server) static ROUTE: Route = Route {
    summary: "Metrics as Prometheus text",
    description: "In the text format 0.0.4.",
    listener: Listener::OperatorsFirst,
    content: &[PLAIN_TEXT],
    ..Route::new("/metrics", Handler::Ready(metrics))
};

/// Answers every metric.
fn metrics(call: &Call<'_>) -> Result<Response<ResponseBody>, Problem> {
    let text = call.state.metrics.encode(call.state.issuers.values());
    Ok(body::response(prometheus::TEXT_FORMAT, text))
}
