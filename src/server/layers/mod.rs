//! What stands around the routes, outermost first: counting, browsers, panics, the gate, and a
//! time-out.

mod browsers;
mod gate;
mod host;
mod track;

use std::{any::Any, time::Duration};

use axum::response::{IntoResponse as _, Response};

pub(super) use self::{browsers::browsers, gate::gate, track::track};
use super::response::{Problem, ProblemCode};

/// The problem of a request that took longer than this.
pub(super) fn too_late(limit: Duration) -> Problem {
    Problem::new(ProblemCode::RequestTimeout, format!("no answer within {limit:?}"))
}

/// The response for a handler that panicked.
pub(super) fn panicked(panic: Box<dyn Any + Send>) -> Response {
    let text = panic.downcast_ref::<&str>().copied();
    let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    tracing::error!(panic = text.unwrap_or("no text"), "handler panicked");
    Problem::new(ProblemCode::Internal, "internal error; see the service's log").into_response()
}
