//! `/openapi.json`: the API document.

use std::{
    future::{Ready, ready},
    sync::{Arc, OnceLock},
};

use axum::{
    body::Bytes,
    http::{HeaderName, header},
};
use utoipa::openapi::{ObjectBuilder, RefOr, Schema, Type};

use crate::server::{
    openapi::{self, About, Kind},
    state::AppState,
};

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

/// Answers this document, which is made when it is first asked for: that takes more memory than
/// much of the rest, and most services are never asked.
pub(in crate::server) fn document(state: Arc<AppState>) -> impl Fn() -> Ready<Answer> + Clone {
    let json = Arc::new(OnceLock::new());
    move || {
        let json: &Bytes = json.get_or_init(|| openapi::write(&state));
        ready(([(header::CONTENT_TYPE, "application/json")], json.clone()))
    }
}
