//! `/metrics`: the Prometheus text.

use axum::http::Response;

use crate::server::{
    auth::Permission,
    body::{self, ResponseBody},
    problem::{Problem, ProblemCode},
    route::{Call, Handler, Listener, PLAIN_TEXT, Route},
};

pub(in crate::server) static ROUTE: Route = Route {
    summary: "Metrics as Prometheus text",
    description: "In the text format 0.0.4.",
    listener: Listener::OperatorsFirst,
    permission: Some(Permission::Metrics),
    content: &[PLAIN_TEXT],
    problems: &[ProblemCode::Forbidden],
    ..Route::new("/metrics", Handler::Ready(metrics))
};

/// Answers every metric.
fn metrics(call: &Call<'_>) -> Result<Response<ResponseBody>, Problem> {
    let text = call.state.metrics.encode(call.state.issuers.values(), call.state.auth.as_deref());
    Ok(body::response(prometheus::TEXT_FORMAT, text))
}
