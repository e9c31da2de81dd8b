//! `/openapi.json`: the API document.

use serde_json::json;

use crate::server::route::{Handler, Kind, Listener, Route};

pub(in crate::server) static ROUTE: Route = Route {
    summary: "This document",
    description: "OpenAPI 3.1, as this service is configured.",
    kind: Kind::Document,
    listener: Listener::Both,
    content: &[("application/json", || json!({ "type": "object" }))],
    ..Route::new("/openapi.json", Handler::ApiDocument)
};
