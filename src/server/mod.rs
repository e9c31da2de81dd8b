//! The HTTP service: routes, metrics, limits, start and stop.
//!
//! [`Service::run`] takes its parts as arguments, so that tests own the listener, the store, the
//! clock and the signal to stop.
//!
//! `listener` accepts connections and bounds them, without knowing routes. `layers` decides about
//! each request. `routes` has a file for each endpoint. `service` starts the tasks and stops them
//! in order. A new route is a handler under `routes`, and its lines in `service::router`:
//! CONTRIBUTING lists what else it needs.
//!
//! Nothing here issues an ID: handlers call the issuers of `keeper`, and map their errors to
//! problems.

mod audience;
mod clients;
mod extract;
mod layers;
mod listener;
mod memory;
mod metrics;
mod openapi;
mod request_log;
mod response;
mod routes;
mod service;
mod state;

pub use self::{
    listener::TlsError,
    metrics::Metrics,
    response::{Problem, ProblemCode},
    routes::parse::{CodeNumber, ForeignUuid, NoCodeNumber, NoFields, ParsedId, ParsedText},
    service::{ServeError, Service, router, serve},
    state::AppState,
};
pub(crate) use self::{
    memory::most_connections,
    routes::cluster::{ReleaseDocument, Worker, WorkerList, WorkerState, has_layout},
    routes::codes::{CodeDocument, GivenSettings},
    routes::log::LevelDocument,
    routes::parse::no_texts,
    state::{unknown_namespace, unknown_segment_code},
};
#[doc(no_inline)]
pub use crate::{
    config::{CodeConfig, Codes, LocatedText, WrongNamespace},
    core::namespace::DEFAULT_NAMESPACE,
    keeper::NamespaceIssuer,
};
