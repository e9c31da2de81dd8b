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
    description: "In the text format 0.0.4. Beyond 100 scrapes in a second, that of the last one.",
    listener: Listener::OperatorsFirst,
    permission: Some(Permission::Metrics),
    content: &[PLAIN_TEXT],
    problems: &[ProblemCode::Forbidden, ProblemCode::Overloaded],
    ..Route::new("/metrics", Handler::Ready(metrics))
};

/// Answers every metric.
fn metrics(call: &Call<'_>) -> Result<Response<ResponseBody>, Problem> {
    let (metrics, issuers) = (&call.state.metrics, call.state.issuers.values());
    let auth = call.state.auth.as_deref();
    metrics.http.unsent.set(i64::try_from(call.state.unsent.used()).unwrap_or(i64::MAX));
    // Only a listener of ours can be flooded; whoever calls in the process gets the present text.
    let text = match call.peer.address {
        Some(_) => metrics.bounded_text(issuers, auth),
        None => metrics.text(issuers, auth).into(),
    };
    Ok(body::response(prometheus::TEXT_FORMAT, text))
}
