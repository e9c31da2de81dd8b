//! `/metrics`: the Prometheus text.

use axum::http::Response;

use crate::server::{
    body::{self, ResponseBody},
    problem::Problem,
    route::{Call, Handler, Listener, PLAIN_TEXT, Route},
};

pub(in crate::server) static ROUTE: Route = Route {
    summary: "Metrics as Prometheus text",
    description: "In the text format 0.0.4. Beyond 100 scrapes in a second, that of the last one.",
    listener: Listener::OperatorsFirst,
    content: &[PLAIN_TEXT],
    ..Route::new("/metrics", Handler::Ready(metrics))
};

/// Answers every metric.
fn metrics(call: &Call<'_>) -> Result<Response<ResponseBody>, Problem> {
    let (metrics, issuers) = (&call.state.metrics, call.state.issuers.values());
    // Only a listener of ours can be flooded; whoever calls in the process gets the present text.
    let text = match call.peer.address {
        Some(_) => metrics.bounded_text(issuers),
        None => metrics.text(issuers).into(),
    };
    Ok(body::response(prometheus::TEXT_FORMAT, text))
}
