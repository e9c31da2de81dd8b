//! What stands around the routes, outermost first: counting, panics, browsers, the gate, and the
//! bounds of what is in flight.

mod browsers;
mod gate;
mod track;

use std::{any::Any, time::Duration};

use axum::{
    BoxError,
    response::{IntoResponse as _, Response},
};
use tower::{load_shed::error::Overloaded, timeout::error::Elapsed};

pub(super) use self::{
    browsers::BrowsersLayer,
    gate::{Audience, GateLayer},
    track::TrackLayer,
};
use super::problem::{Problem, ProblemCode};
use crate::config::HttpConfig;

/// The problem of a request that had no room, or took too long.
pub(super) fn out_of_bounds(error: &BoxError, http: &HttpConfig) -> Problem {
    if error.is::<Overloaded>() {
        let detail = format!("{} requests are in flight", http.max_in_flight);
        return Problem::passing(ProblemCode::Overloaded, detail, Duration::from_secs(1));
    }
    debug_assert!(error.is::<Elapsed>(), "{error}");
    let detail = format!("no answer within {:?}", http.request_timeout);
    Problem::new(ProblemCode::RequestTimeout, detail)
}

/// The response for a handler that panicked.
pub(super) fn panicked(panic: Box<dyn Any + Send>) -> Response {
    let text = panic.downcast_ref::<&str>().copied();
    let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    tracing::error!(panic = text.unwrap_or("no text"), "handler panicked");
    Problem::new(ProblemCode::Internal, "internal error; see the service's log").into_response()
}
