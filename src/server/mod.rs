//! The HTTP service: configuration, routes, metrics and the way it starts and stops.
//!
//! [`Service::run`] takes its parts as arguments, so that tests own the listener, the store, the
//! clock and the signal to stop.
//!
//! A new endpoint is one file under `endpoints`, one line in the route table and one in the API
//! document's.

mod accept;
mod auth;
mod codes;
pub mod config;
mod connections;
mod endpoints;
mod front;
mod guard;
mod issuer;
mod keepers;
mod log_writer;
mod metrics;
mod openapi;
mod pace;
mod params;
mod places;
mod problem;
mod router;
mod run;
pub mod shutdown;
mod state;
mod supervisor;
pub mod telemetry;

pub use self::{
    auth::Auth,
    codes::{CodeConfig, Codes, LocatedText, WrongNamespace},
    connections::serve,
    endpoints::parse::{NoFields, ParsedId},
    issuer::NamespaceIssuer,
    metrics::Metrics,
    problem::{Problem, ProblemCode},
    router::router,
    run::{ServeError, Service},
    state::{AppState, DEFAULT_NAMESPACE},
};
pub(crate) use self::{
    auth::{TokenHash, is_code_or_beginning},
    state::unknown_namespace,
};
