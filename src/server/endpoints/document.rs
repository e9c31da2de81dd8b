//! `/openapi.json`: the API document.

use utoipa::openapi::{ObjectBuilder, RefOr, Schema, Type};

use crate::server::route::{Handler, Kind, Listener, Route};

pub(in crate::server) static ROUTE: Route = Route {
    path: "/openapi.json",
    name: "openapi",
    summary: "This document",
    description: "OpenAPI 3.1, as this service is configured.",
    kind: Kind::Read,
    listener: Listener::Public,
    needs_token: true,
    is_for_clients: false,
    parameters: &[],
    formats: &[],
    content: &[("application/json", any_object)],
    schemas: std::convert::identity,
    problems: &[],
    handler: Handler::ApiDocument,
};

fn any_object() -> RefOr<Schema> {
    ObjectBuilder::new().schema_type(Type::Object).into()
}
