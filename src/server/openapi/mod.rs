//! The API document (OpenAPI 3.1): the descriptions beside the handlers, and what the layers add.

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
        Code, EncodingOfCode, IdText, Instant, LayoutText, ManyFormat, Namespace, OneEncoding,
        OneFormat, PlanParameters,
    },
};
use super::{
    audience::{Audience, TokensFor},
    response::{Document, ProblemCode},
};
use crate::{config::HttpConfig, process::BUILD};

/// The extension in which the description of a handler names its problems.
const PROBLEMS: &str = "x-problems";

/// Returns the document of these routes, as JSON.
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
    document["info"]["version"] = BUILD.version.into();
    document["info"]["description"] = include_str!("description.md").trim_end().into();
    document["paths"] = paths.into();
    document["security"] = security;
    document["components"]["schemas"] = schemas.into();
    // Responses to requests that match no operation of the document.
    document["components"]["responses"] = json!({
        "NotFound": problem(404, &[ProblemCode::NotFound]),
        "MethodNotAllowed": problem(405, &[ProblemCode::MethodNotAllowed]),
    });
    // Parsing it back checks it, drops empty fields, and writes the keys in their usual order.
    let mut document: OpenApi = serde_json::from_value(document).expect("a valid document");
    let headers = document.components.iter_mut().flat_map(|parts| parts.headers.values_mut());
    for header in headers {
        if let RefOr::T(header) = header {
            // utoipa has no field for `required` of a header.
            header.extensions = Some([("required", Value::from(true))].into_iter().collect());
        }
    }
    let mut json = serde_json::to_vec_pretty(&document).expect("texts and numbers are always JSON");
    json.push(b'\n');
    json.into()
}

/// Completes the operations of a path: the layers' responses, the tag, and the configured limits.
/// HEAD is left out: it is GET without a body, and would double the methods of generated clients.
fn complete(mut item: Value, audience: Audience, http: &HttpConfig) -> Value {
    let operations = item.as_object_mut().expect("operations by method");
    for (method, operation) in operations {
        let name = operation["operationId"].as_str().unwrap_or_default().to_owned();
        if let ("get", "id" | "ids") = (method.as_str(), name.as_str()) {
            remove_problems(operation, POSTED);
        }
        operation["operationId"] = format!("{method}_{name}").into();
        operation["tags"] = json!([audience.tag()]);
        add_problems(operation, audience);
        if audience == Audience::Anybody {
            // A token is needed only if the request names a namespace.
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

/// Marks every operation but GET as one that needs a token, where reading needs none.
fn require_token_for_changes(item: &mut Value) {
    let operations = item.as_object_mut().expect("operations by method");
    for (method, operation) in operations {
        if method != "get" {
            operation["security"] = json!([{ "bearer": [] }]);
        }
    }
}

/// Removes these problems and the parameters that only POST has: `at` claims IDs for a past time, and
/// only a strict code takes a key.
fn remove_problems(operation: &mut Value, problems: &[ProblemCode]) {
    let is_left = |name: &Value| problems.iter().any(|left| left.name() == name);
    operation[PROBLEMS].as_array_mut().expect("a list").retain(|name| !is_left(name));
    operation["parameters"]
        .as_array_mut()
        .expect("a list")
        .retain(|it| it["name"] != "at" && it["name"] != "Idempotency-Key");
}

/// Joins the lines of a description. It comes from a doc comment, which is wrapped.
fn unwrap_lines(described: &mut Value) {
    if let Some(Value::String(text)) = described.get_mut("description") {
        *text = text.replace('\n', " ");
    }
}

fn parameters(operation: &mut Value) -> impl Iterator<Item = &mut Value> {
    operation.get_mut("parameters").and_then(Value::as_array_mut).into_iter().flatten()
}
