//! The table of routes.

use super::{
    endpoints::{bounds, cluster, document, health, ids, metrics, parse},
    route::Route,
};

/// Every route of the service.
pub(super) static ROUTES: [&Route; 10] = [
    &ids::ONE,
    &ids::MANY,
    &parse::ROUTE,
    &bounds::ROUTE,
    &health::HEALTH,
    &health::LIVE,
    &health::READY,
    &metrics::ROUTE,
    &cluster::ROUTE,
    &document::ROUTE,
];
