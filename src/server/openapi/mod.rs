//! The API document (OpenAPI 3.1): what stands beside each handler, and what the layers add.

mod problems;
mod responses;
mod schemas;

use axum::body::Bytes;
use serde_json::{Map, Value, json};
use utoipa::{
    PartialSchema, ToSchema,
    openapi::{OpenApi, RefOr},
};

use self::responses::{add_problems, problem};
pub(super) use self::{
    problems::{CLAIM, POSTED, names},
    schemas::{
        Code, IdText, Instant, LayoutText, ManyFormat, Namespace, OneEncoding, OneFormat,
        PlanParameters,
    },
};
use super::{
    audience::{Audience, TokensFor},
    response::{Document, ProblemCode},
};
use crate::config::HttpConfig;

/// Where the description of a handler names its problems.
const PROBLEMS: &str = "x-problems";

/// The document of these routes, as JSON.
pub(super) fn document(
    routes: impl IntoIterator<Item = (Audience, OpenApi)>,
    tokens_for: TokensFor,
    http: &HttpConfig,
) -> Bytes {
    let security = match tokens_for {
        TokensFor::Everything => json!([{ "bearer": [] }]),
        TokensFor::Nothing | TokensFor::Changes => json!([{}, { "bearer": [] }]),
    };
    let (mut paths, mut schemas) = (Map::new(), Map::new());
    for (audience, api) in routes {
        for (path, item) in api.paths.paths {
            let mut item = complete(json!(item), audience, http);
            if tokens_for == TokensFor::Changes && audience == Audience::Operators {
                require_token_for_changes(&mut item);
            }
            paths.insert(path, item);
        }
        let described = api.components.into_iter().flat_map(|parts| parts.schemas);
        schemas.extend(described.map(|(name, schema)| (name, json!(schema))));
    }
    schemas.insert(Document::name().into(), json!(Document::schema()));
    let mut document: Value =
        serde_json::from_str(include_str!("document.json")).expect("valid JSON");
    document["info"]["version"] = env!("CARGO_PKG_VERSION").into();
    document["info"]["description"] = include_str!("description.md").trim_end().into();
    document["paths"] = paths.into();
    document["security"] = security;
    document["components"]["schemas"] = schemas.into();
    // What is answered where no operation is described.
    document["components"]["responses"] = json!({
        "NotFound": problem(404, &[ProblemCode::NotFound]),
        "MethodNotAllowed": problem(405, &[ProblemCode::MethodNotAllowed]),
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

/// Adds what no handler says of a path: what the layers answer, its tag, and the configured limits.
/// HEAD is what GET is without its body; described, it would double what generators make.
fn complete(mut item: Value, audience: Audience, http: &HttpConfig) -> Value {
    let operations = item.as_object_mut().expect("operations by method");
    for (method, operation) in operations {
        let name = operation["operationId"].as_str().unwrap_or_default().to_owned();
        if let ("get", "id" | "ids") = (method.as_str(), name.as_str()) {
            leave_out(operation, POSTED);
        }
        operation["operationId"] = format!("{method}_{name}").into();
        operation["tags"] = json!([audience.tag()]);
        add_problems(operation, audience);
        if audience == Audience::Anybody {
            // Only asking about a namespace needs a token.
            let is_optional = parameters(operation).any(|it| it["name"] == "namespace");
            operation["security"] =
                if is_optional { json!([{}, { "bearer": [] }]) } else { json!([]) };
        }
        unwrap_lines(operation);
        parameters(operation).for_each(unwrap_lines);
        for parameter in parameters(operation) {
            let most = match parameter["name"].as_str() {
                Some("n") => http.max_batch,
                Some("up_to") => http.max_range,
                _ => continue,
            };
            parameter["schema"]["maximum"] = most.into();
        }
    }
    item
}

/// Whatever changes something needs a token, also where reading needs none.
fn require_token_for_changes(item: &mut Value) {
    let operations = item.as_object_mut().expect("operations by method");
    for (method, operation) in operations {
        if method != "get" {
            operation["security"] = json!([{ "bearer": [] }]);
        }
    }
}

/// Leaves out these problems, and what POST alone has: it claims IDs for a past time.
fn leave_out(operation: &mut Value, problems: &[ProblemCode]) {
    let is_left = |name: &Value| problems.iter().any(|left| left.name() == name);
    operation[PROBLEMS].as_array_mut().expect("a list").retain(|name| !is_left(name));
    operation["parameters"].as_array_mut().expect("a list").retain(|it| it["name"] != "at");
}

/// Doc comments have line feeds where a line of the source is full.
fn unwrap_lines(described: &mut Value) {
    if let Some(Value::String(text)) = described.get_mut("description") {
        *text = text.replace('\n', " ");
    }
}

fn parameters(operation: &mut Value) -> impl Iterator<Item = &mut Value> {
    operation.get_mut("parameters").and_then(Value::as_array_mut).into_iter().flatten()
}
