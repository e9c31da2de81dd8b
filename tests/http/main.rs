//! The HTTP contract: through the real router, and through a real listener.

mod accepted;
mod admin;
mod anything;
mod api;
mod auth;
mod bounds;
mod cors;
mod documents;
mod encodings;
#[cfg(feature = "sqlite")]
#[path = "../support/example.rs"]
mod example;
#[cfg(feature = "sqlite")]
mod examples;
mod health;
mod issuing;
mod metrics;
mod migrating;
mod namespaces;
mod parsing;
mod past;
mod problems;
mod segments;
mod serving;
mod supervision;
mod support;
mod ways;
