//! What each operation answers, status by status.

use std::collections::BTreeMap;

use axum::http::Method;
use serde_json::{Map, Value, json};

use super::problems::problems_of;
use crate::server::{
    problem::ProblemCode,
    route::{Kind, Route, schema_ref},
};

pub(super) fn responses(route: &Route, method: &Method) -> Value {
    let has_body = method != Method::HEAD;
    let content = || route.content.iter().map(|(media_type, schema)| (*media_type, schema()));
    let answer = |headers| response(route.summary, headers, has_body.then(content));
    let headers: &[&str] = match route.kind {
        Kind::Read => &[],
        Kind::Document | Kind::Page => &["ETag"],
        Kind::Claim | Kind::Health | Kind::Liveness | Kind::Settings | Kind::Action => {
            &["Cache-Control"]
        }
    };
    let mut responses = Map::new();
    if route.kind == Kind::Document {
        let unchanged = "The client has it, as `If-None-Match` says.";
        let none = None::<[(&str, Value); 0]>;
        responses.insert("304".into(), response(unchanged, headers, none));
    }
    responses.insert("200".into(), answer(headers));
    if *method == Method::PUT {
        responses.insert("201".into(), answer(headers));
    }
    if route.kind == Kind::Health {
        responses.insert("503".into(), answer(&["Cache-Control", "Retry-After"]));
    }
    let mut problems: BTreeMap<u16, Vec<ProblemCode>> = BTreeMap::new();
    for problem in problems_of(route, method) {
        problems.entry(problem.status().as_u16()).or_default().push(problem);
    }
    for (status, codes) in problems {
        responses.insert(status.to_string(), problem(status, &codes, has_body));
    }
    responses.into()
}

/// The answer of one status, which tells these problems apart.
pub(super) fn problem(status: u16, codes: &[ProblemCode], has_body: bool) -> Value {
    let lines = codes.iter().map(|code| format!("- `{}`: {}", code.name(), code.title()));
    let headers: &[&str] = match status {
        401 | 403 => &["Cache-Control", "WWW-Authenticate"],
        405 => &["Cache-Control", "Allow"],
        429 | 503 => &["Cache-Control", "Retry-After"],
        _ => &["Cache-Control"],
    };
    let content = || {
        let names = Vec::from_iter(codes.iter().map(|code| code.name()));
        let code = json!({ "type": "string", "enum": names });
        let these = json!({ "type": "object", "properties": { "code": code } });
        [("application/problem+json", json!({ "allOf": [schema_ref("Problem"), these] }))]
    };
    response(&Vec::from_iter(lines).join("\n"), headers, has_body.then(content))
}

/// A response with these headers, and these schemas by media type.
fn response(
    description: &str,
    headers: &[&str],
    content: Option<impl IntoIterator<Item = (&'static str, Value)>>,
) -> Value {
    let header = |name: &&str| {
        let path = format!("#/components/headers/{name}");
        ((*name).to_owned(), json!({ "$ref": path }))
    };
    let schema = |(media_type, schema)| (media_type, json!({ "schema": schema }));
    json!({
        "description": description,
        "headers": headers.iter().map(header).collect::<Value>(),
        "content": content.into_iter().flatten().map(schema).collect::<Value>(),
    })
}
