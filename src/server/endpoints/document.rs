//! `/openapi.json`: the API document.

use std::future::{Ready, ready};

use axum::{
    body::Bytes,
    http::{HeaderName, header},
};
use utoipa::openapi::{ObjectBuilder, RefOr, Schema, Type};

use crate::server::openapi::{About, Kind};

pub(in crate::server) static ABOUT: About = About {
    name: "openapi",
    summary: "This document",
    description: "OpenAPI 3.1, as this service is configured.",
    parameters: &[],
    formats: &[],
    answers: &[("application/json", any_object)],
    schemas: std::convert::identity,
    kind: Kind::Tells,
};

fn any_object() -> RefOr<Schema> {
    ObjectBuilder::new().schema_type(Type::Object).into()
}

type Answer = ([(HeaderName, &'static str); 1], Bytes);

/// Answers this document.
pub(in crate::server) fn document(json: Bytes) -> impl Fn() -> Ready<Answer> + Clone {
    move || ready(([(header::CONTENT_TYPE, "application/json")], json.clone()))
}
