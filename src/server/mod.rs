//! The HTTP service: routes, metrics and the way it starts and stops.
//!
//! [`Service::run`] takes its parts as arguments, so that tests own the listener, the store, the
//! clock and the signal to stop.
//!
//! A new endpoint is one file under `endpoints`, one line in the route table and one in the API
//! document's.

mod accept;
mod auth;
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
    connections::serve,
    endpoints::parse::{NoFields, ParsedId},
    issuer::NamespaceIssuer,
    metrics::Metrics,
    problem::{Problem, ProblemCode},
    router::router,
    run::{ServeError, Service},
    state::AppState,
};
pub(crate) use self::{
    auth::{TokenHash, is_code_or_beginning},
    state::unknown_namespace,
};
#[doc(no_inline)]
pub use crate::{
    config::{self, CodeConfig, Codes, LocatedText, WrongNamespace},
    core::namespace::DEFAULT_NAMESPACE,
};
