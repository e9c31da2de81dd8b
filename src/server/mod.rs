//! The HTTP service: configuration, routes, metrics and the way it starts and stops.
//!
//! [`Service::run`] takes its parts as arguments, so that tests own the listener, the store, the
//! clock and the signal to stop.
//!
//! A new endpoint is one file under `endpoints` and one line in the route table.

mod accept;
mod codes;
pub mod config;
mod connections;
mod endpoints;
mod front;
mod guard;
mod issuer;
mod keepers;
mod metrics;
mod pace;
mod params;
mod places;
mod problem;
mod router;
mod run;
pub mod shutdown;
mod state;
pub mod telemetry;

pub(crate) use self::state::unknown_namespace;
pub use self::{
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
