//! What each operation answers, status by status.

use std::collections::BTreeMap;

use serde_json::Value;
use utoipa::openapi::{
    AllOfBuilder, ComponentsBuilder, ContentBuilder, Header, HttpMethod, ObjectBuilder, Ref,
    ResponseBuilder, Responses, ResponsesBuilder, Schema, Type,
};

use super::problems::problems_of;
use crate::server::{
    problem::{Document, ProblemCode},
    route::{Kind, Route, schema_ref, text_schema},
};

pub(super) fn responses(route: &Route, method: &HttpMethod) -> Responses {
    let mut problems: BTreeMap<u16, Vec<ProblemCode>> = BTreeMap::new();
    for problem in problems_of(route, method) {
        problems.entry(problem.status().as_u16()).or_default().push(problem);
    }
    let has_body = *method != HttpMethod::Head;
    let mut responses = ResponsesBuilder::new();
    responses = responses.response("200", answer(route, has_body));
    if route.kind == Kind::Health {
        let answer = with_header(answer(route, has_body), RETRY_AFTER);
        responses = responses.response("503", answer);
    }
    for (status, codes) in problems {
        responses = responses.response(status.to_string(), problem(status, &codes, has_body));
    }
    responses.build()
}

fn answer(route: &Route, has_body: bool) -> ResponseBuilder {
    let mut response = ResponseBuilder::new().description(route.summary);
    for (media_type, schema) in route.content.iter().filter(|_| has_body) {
        response =
            response.content(*media_type, ContentBuilder::new().schema(Some(schema())).build());
    }
    if route.kind != Kind::Read { with_header(response, CACHE_CONTROL) } else { response }
}

/// The answer of one status, which tells these problems apart.
fn problem(status: u16, codes: &[ProblemCode], has_body: bool) -> ResponseBuilder {
    let lines = codes.iter().map(|code| format!("- `{}`: {}", code.name(), code.title()));
    let mut response = ResponseBuilder::new().description(Vec::from_iter(lines).join("\n"));
    if has_body {
        let names = codes.iter().map(|code| code.name());
        let these = ObjectBuilder::new().property("code", text_schema().enum_values(Some(names)));
        let schema = AllOfBuilder::new().item(schema_ref::<Document<'_>>()).item(these);
        let content = ContentBuilder::new().schema(Some(Schema::AllOf(schema.build())));
        response = response.content("application/problem+json", content.build());
    }
    response = with_header(response, CACHE_CONTROL);
    match status {
        401 | 403 => with_header(response, WWW_AUTHENTICATE),
        405 => with_header(response, ALLOW),
        429 | 503 => with_header(response, RETRY_AFTER),
        _ => response,
    }
}

const ALLOW: &str = "Allow";
const CACHE_CONTROL: &str = "Cache-Control";
const RETRY_AFTER: &str = "Retry-After";
const WWW_AUTHENTICATE: &str = "WWW-Authenticate";

fn with_header(response: ResponseBuilder, name: &str) -> ResponseBuilder {
    response.header_ref(name, Ref::new(format!("#/components/headers/{name}")))
}

/// The headers, and what is answered where no operation is described.
pub(super) fn shared_parts(components: ComponentsBuilder) -> ComponentsBuilder {
    let seconds = ObjectBuilder::new().schema_type(Type::Integer).minimum(Some(1));
    components
        .header(ALLOW, always("The methods that the path has.", text_schema()))
        .header(
            CACHE_CONTROL,
            always("No cache keeps it.", text_schema().enum_values(Some(["no-store"]))),
        )
        .header(RETRY_AFTER, always("Seconds after which it is worth trying again.", seconds))
        .header(WWW_AUTHENTICATE, always("What would be let in (RFC 6750).", text_schema()))
        .response("NotFound", problem(404, &[ProblemCode::NotFound], true).build())
        .response("MethodNotAllowed", problem(405, &[ProblemCode::MethodNotAllowed], true).build())
}

/// A header that is never missing.
fn always(description: &str, schema: ObjectBuilder) -> Header {
    let mut header = Header::new(schema);
    header.description = Some(description.to_owned());
    // The library has no field for it.
    header.extensions = Some([("required", Value::from(true))].into_iter().collect());
    header
}
