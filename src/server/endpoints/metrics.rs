//! `/metrics`: the Prometheus text.

use axum::http::Response;

use crate::server::{
    body::{self, ResponseBody},
    problem::Problem,
    route::{Call, Handler, Kind, Listener, PLAIN_TEXT, Route},
};

pub(in crate::server) static ROUTE: Route = Route {
    path: "/metrics",
    name: "metrics",
    summary: "Metrics as Prometheus text",
    description: "In the text format 0.0.4.",
    kind: Kind::Read,
    listener: Listener::OperatorsFirst,
    needs_token: true,
    is_for_clients: false,
    parameters: &[],
    formats: &[],
    content: &[PLAIN_TEXT],
    schemas: std::convert::identity,
    problems: &[],
    handler: Handler::Ready(metrics),
};

/// Answers every metric.
fn metrics(call: &Call<'_>) -> Result<Response<ResponseBody>, Problem> {
    let text = call.state.metrics.encode(call.state.issuers());
    Ok(body::response(prometheus::TEXT_FORMAT, text))
}
