//! The HTTP service: routes, metrics and the way it starts and stops.
//!
//! [`Service::run`] takes its parts as arguments, so that tests own the listener, the store, the
//! clock and the signal to stop.
//!
//! A new route is one file under `endpoints` and one line in [`router`].

mod audience;
mod auth;
mod body;
mod client_address;
mod clients;
pub(crate) mod clock;
mod conditional;
mod console;
mod content_negotiation;
mod endpoints;
mod error;
mod extract;
mod hangup;
mod history;
mod host;
mod issuer;
mod keepers;
mod layers;
mod listener;
mod log_writer;
mod memory_limit;
mod metrics;
mod openapi;
pub(crate) mod plan;
mod problem;
mod rate_limit;
mod router;
mod run;
mod serve;
pub mod shutdown;
mod state;
mod supervisor;
pub mod telemetry;
mod tls;
mod unsent;

pub use self::{
    auth::{Auth, ClientCertificate},
    endpoints::parse::{NoFields, ParsedId},
    error::ServeError,
    issuer::NamespaceIssuer,
    metrics::Metrics,
    problem::{Problem, ProblemCode},
    router::router,
    run::Service,
    serve::serve,
    state::AppState,
    tls::files::TlsError,
};
pub(crate) use self::{
    auth::{EXPIRY_FORM, Permission, TokenHash, is_code_or_beginning, read_expiry},
    memory_limit::most_connections,
    state::{unknown_namespace, unknown_segment_code},
};
#[doc(no_inline)]
pub use crate::{
    config::{CodeConfig, Codes, LocatedText, WrongNamespace},
    core::namespace::DEFAULT_NAMESPACE,
};
