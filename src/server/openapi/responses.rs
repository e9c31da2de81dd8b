//! The responses that the API document describes once for all routes.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::{PROBLEMS, problems::problems_of_middleware};
use crate::server::{audience::Audience, response::ProblemCode};

const PROBLEM_JSON: &str = "application/problem+json";

/// The extension in which a response names the codes of its problems. A schema for each response
/// could list them, too, but client generators would make a type of each schema.
const CODES: &str = "x-codes";

/// Adds the problems that the handler names and those of the layers, grouped by status. Replaces
/// headers by references to their descriptions.
pub(super) fn add_problems(operation: &mut Value, audience: Audience) {
    let named = operation.as_object_mut().and_then(|operation| operation.remove(PROBLEMS));
    let named = named.as_ref().and_then(Value::as_array).into_iter().flatten();
    let mut answered: Vec<&str> = named.filter_map(Value::as_str).collect();
    answered.extend(problems_of_middleware(audience).map(|code| code.name()));
    let mut problems: BTreeMap<u16, Vec<ProblemCode>> = BTreeMap::new();
    for code in ProblemCode::ALL.into_iter().filter(|code| answered.contains(&code.name())) {
        problems.entry(code.status().as_u16()).or_default().push(code);
    }
    let responses = operation["responses"].as_object_mut().into_iter().flatten();
    for (name, header) in responses.flat_map(|(_, response)| fields(response, "headers")) {
        *header = header_ref(name);
    }
    for (status, codes) in problems {
        let known = &mut operation["responses"][status.to_string()];
        let mut described = problem(status, &codes);
        // `/health` and `/readyz` answer 503 in another form, too.
        match known.pointer_mut("/content") {
            Some(content) => {
                content[PROBLEM_JSON] = described["content"][PROBLEM_JSON].take();
                known[CODES] = described[CODES].take();
            }
            None => *known = described,
        }
    }
}

/// Returns the fields of the object with this name; none if there is no such object.
pub(super) fn fields<'a>(
    value: &'a mut Value,
    name: &str,
) -> impl Iterator<Item = (&'a String, &'a mut Value)> {
    value.get_mut(name).and_then(Value::as_object_mut).into_iter().flatten()
}

/// Describes the response of one status, which has one of these codes.
pub(super) fn problem(status: u16, codes: &[ProblemCode]) -> Value {
    let lines = codes.iter().map(|code| format!("- `{}`: {}", code.name(), code.title()));
    let headers: &[&str] = match status {
        401 | 403 => &["WWW-Authenticate"],
        405 => &["Allow"],
        429 | 503 => &["Retry-After"],
        _ => &[],
    };
    let headers = headers.iter().map(|name| ((*name).to_owned(), header_ref(name)));
    let problem = json!({ "$ref": "#/components/schemas/Problem" });
    json!({
        "description": Vec::from_iter(lines).join("\n"),
        "headers": headers.collect::<Value>(),
        "content": { PROBLEM_JSON: { "schema": problem } },
        CODES: Vec::from_iter(codes.iter().map(|code| code.name())),
    })
}

fn header_ref(name: &str) -> Value {
    json!({ "$ref": format!("#/components/headers/{name}") })
}
