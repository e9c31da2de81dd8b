//! The HTTP service: routes, metrics and the way it starts and stops.
//!
//! [`Service::run`] takes its parts as arguments, so that tests own the listener, the store, the
//! clock and the signal to stop.
//!
//! A new route is one file under `routes` and one line in `service::router`.

mod audience;
mod clients;
mod extract;
mod layers;
mod listener;
mod memory;
mod metrics;
mod openapi;
mod response;
mod routes;
mod service;
mod state;

pub use self::{
    listener::TlsError,
    metrics::Metrics,
    response::{Problem, ProblemCode},
    routes::parse::{NoFields, ParsedId},
    service::{ServeError, Service, router, serve},
    state::AppState,
};
pub(crate) use self::{
    memory::most_connections,
    routes::codes::CodeDocument,
    state::{unknown_namespace, unknown_segment_code},
};
#[doc(no_inline)]
pub use crate::{
    config::{CodeConfig, Codes, LocatedText, WrongNamespace},
    core::namespace::DEFAULT_NAMESPACE,
    keeper::NamespaceIssuer,
};
