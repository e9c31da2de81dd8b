//! One file for each endpoint: its route, and what answers it.

pub(super) mod bounds;
mod cluster;
mod codes;
mod console;
mod document;
mod health;
pub(super) mod ids;
mod metrics;
pub(super) mod parse;
mod plan;

use super::route::Route;

/// Every route of the service.
pub(super) static ROUTES: [&Route; 19] = [
    &ids::ONE,
    &ids::MANY,
    &parse::ROUTE,
    &bounds::ROUTE,
    &plan::ROUTE,
    &health::HEALTH,
    &health::LIVE,
    &health::READY,
    &metrics::ROUTE,
    &cluster::ROUTE,
    &cluster::RELEASE,
    &codes::LIST,
    &codes::CODE,
    &codes::RAISE,
    &codes::RETIRE,
    &document::ROUTE,
    &console::HOME,
    &console::DOCS,
    &console::FILE,
];
