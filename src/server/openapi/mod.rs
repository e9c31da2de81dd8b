//! The API document (OpenAPI 3.1), made from the table of routes.

mod parameters;
mod problems;
mod responses;

use axum::{body::Bytes, http::Method};
use serde_json::{Value, json};
use utoipa::openapi::{OpenApi, RefOr};

use self::{
    parameters::parameter,
    responses::{problem, responses},
};
use super::{
    problem::{Document, ProblemCode},
    route::{Kind, Route, schema_ref, schemas_of},
    state::AppState,
};

const DESCRIPTION: &str = "\
Unique, time-ordered 64-bit IDs.

- An ID is unique in its namespace, or together with its code where `codes.shared` is false.
- Every error is a problem document (RFC 9457); programs tell errors apart by `code`.
- An unknown query parameter, or one that is given twice, is an error.
- Any other path is answered 404 `not_found`, and a method that a path does not have 405 \
`method_not_allowed` with the header `Allow`.
- `/cluster` and `/codes` are for operators: on the listener of `http.admin_listen`, and elsewhere \
for tokens with the permission `admin`. Without either they are not served.
- A request of HTTP/1.1 without one valid `Host` is answered 400 `invalid_parameter`.
- Browsers may call `/id`, `/ids`, `/parse`, `/bounds` and `/plan` for pages of the origins of \
`http.cors_origins`; for others they are answered 403 `forbidden`. They may read this document for \
pages of the same origins.
- `/` and `/docs` are pages for people, unless `http.console` is false.";

/// The document of a service with these routes, as JSON.
pub(super) fn document(state: &AppState, routes: &[&Route], needs_token: bool) -> Bytes {
    let security =
        if needs_token { json!([{ "bearer": [] }]) } else { json!([{}, { "bearer": [] }]) };
    let is_of_api = |route: &&&Route| route.kind != Kind::Page;
    let routes = || routes.iter().filter(is_of_api);
    let paths = routes().map(|route| (route.path, path_item(route, state.http.max_batch)));
    let of_bodies = routes().filter_map(|route| route.body).flat_map(|(_, of)| of());
    let schemas = routes().flat_map(|route| (route.schemas)()).chain(of_bodies);
    let document = json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Raindrop",
            "version": env!("CARGO_PKG_VERSION"),
            "description": DESCRIPTION,
            "license": { "name": "Apache-2.0", "identifier": "Apache-2.0" },
        },
        "servers": [{ "url": "/" }],
        "paths": paths.collect::<Value>(),
        "security": security,
        "components": {
            "schemas": schemas.chain(schemas_of::<Document<'_>>()).collect::<Value>(),
            "headers": {
                "Allow": {
                    "description": "The methods that the path has.",
                    "schema": { "type": "string" },
                },
                "Cache-Control": {
                    "description": "No cache keeps it.",
                    "schema": { "type": "string", "enum": ["no-store"] },
                },
                "ETag": {
                    "description": "What `If-None-Match` is compared with.",
                    "schema": { "type": "string" },
                },
                "Retry-After": {
                    "description": "Seconds after which it is worth trying again.",
                    "schema": { "type": "integer", "minimum": 1 },
                },
                "WWW-Authenticate": {
                    "description": "What would be let in (RFC 6750).",
                    "schema": { "type": "string" },
                },
            },
            // What is answered where no operation is described.
            "responses": {
                "NotFound": problem(404, &[ProblemCode::NotFound], true),
                "MethodNotAllowed": problem(405, &[ProblemCode::MethodNotAllowed], true),
            },
            "securitySchemes": {
                "bearer": {
                    "type": "http",
                    "scheme": "bearer",
                    "description": "A token of `auth.tokens_file`, where that is configured.",
                },
            },
        },
    });
    // Checks it, leaves out what is empty, and writes keys in their usual order.
    let mut document: OpenApi = serde_json::from_value(document).expect("a valid document");
    let headers = document.components.iter_mut().flat_map(|parts| parts.headers.values_mut());
    for header in headers {
        if let RefOr::T(header) = header {
            // The library has no field for it.
            header.extensions = Some([("required", Value::from(true))].into_iter().collect());
        }
    }
    let mut json = serde_json::to_vec_pretty(&document).expect("texts and numbers are always JSON");
    json.push(b'\n');
    json.into()
}

fn path_item(route: &Route, max_batch: u32) -> Value {
    let methods = [Method::GET, Method::HEAD, Method::POST, Method::PUT, Method::PATCH].into_iter();
    let verb_and_operation = |method: Method| {
        let verb = method.as_str().to_lowercase();
        let operation = operation(route, &method, &verb, max_batch);
        (verb, operation)
    };
    methods.filter(|method| route.allows(method)).map(verb_and_operation).collect()
}

fn operation(route: &Route, method: &Method, verb: &str, max_batch: u32) -> Value {
    let description = match (method, route.kind) {
        (&Method::HEAD, Kind::Claim) => "Checks the request as GET does, and claims nothing.",
        (&Method::HEAD, _) => "GET without its body.",
        _ => route.description,
    };
    // The first part of the path, without an ending: `id` or `openapi`.
    let first = route.path[1..].split(['/', '.']).next().unwrap_or_default();
    let name = if route.operation.is_empty() { first } else { route.operation };
    let in_path = route.path.split_once('{').and_then(|(_, rest)| rest.split('}').next());
    // Each response for a past time costs a durable write, which GET must not make.
    let in_query = route.parameters.iter().filter(|name| **name != "at" || method == Method::POST);
    let names = in_path.into_iter().chain(in_query.copied());
    let parameters: Vec<Value> = names.map(|name| parameter(route, name, max_batch)).collect();
    json!({
        "operationId": format!("{verb}_{name}"),
        "summary": route.summary,
        "description": description,
        "parameters": (!parameters.is_empty()).then_some(parameters),
        "requestBody": request_body(route, method),
        "responses": responses(route, method),
        "security": (!route.needs_token).then_some([(); 0]),
    })
}

fn request_body(route: &Route, method: &Method) -> Option<Value> {
    let reads = matches!(*method, Method::POST | Method::PUT | Method::PATCH);
    let (name, _) = route.body.filter(|_| reads)?;
    let content = json!({ "application/json": { "schema": schema_ref(name) } });
    Some(json!({ "required": true, "content": content }))
}
