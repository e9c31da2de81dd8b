//! Each parameter, as the handlers read it.

use serde_json::{Value, json};

use crate::{
    core::{
        code::CODE_PATTERN,
        encoding::Encoding,
        namespace::{DEFAULT_NAMESPACE, NAMESPACE_PATTERN},
        preset::NamedLayout,
    },
    server::route::{Handler, Route},
};

/// The parameter of a path.
pub(super) fn in_path(name: &str) -> Value {
    let (description, pattern, example) = match name {
        "code" => ("The caller's name for a sequence.", whole(CODE_PATTERN), "order"),
        "id" => (
            "An ID in its encoding, with the prefix of its code if that has one.",
            whole("[A-Za-z0-9._:=-]+"),
            "249679838552547328",
        ),
        other => unreachable!("no path has {other}"),
    };
    let mut schema = json!({ "type": "string", "pattern": pattern });
    if name == "code" {
        schema["maxLength"] = 64.into();
    }
    json!({
        "name": name,
        "in": "path",
        "required": true,
        "description": description,
        "example": example,
        "schema": schema,
    })
}

/// A query parameter of this route.
pub(super) fn in_query_of(route: &Route, name: &str, max_batch: u32) -> Value {
    let instant =
        json!({ "type": "string", "format": "date-time", "examples": ["2026-11-20T00:00:00Z"] });
    let is_batch = matches!(route.handler, Handler::Claim { is_batch: true });
    let formats: &[&str] =
        if is_batch { &["string", "number", "range"] } else { &["string", "number"] };
    let (description, schema) = match name {
        "n" => (
            "How many IDs, at most `http.max_batch`.",
            json!({ "type": "integer", "minimum": 1, "maximum": max_batch, "default": 1 }),
        ),
        "format" => (
            "JSON strings or numbers, or ranges of IDs. A number is never rounded: above 2^53 - 1 \
             the answer is 422 `unsafe_number`. Number and range go with neither `encoding`, \
             `padded` nor a code with a prefix, range not with `text/plain`.",
            json!({ "type": "string", "enum": formats, "default": "string" }),
        ),
        "encoding" => (
            "How IDs are written. `friendly` needs a layout whose time does not wrap.",
            json!({
                "type": "string",
                "enum": Encoding::ALL.map(Encoding::name),
                "default": Encoding::default().name(),
            }),
        ),
        "padded" => (
            "Texts of equal length that sort as their IDs: with decimal, hex, base32 and base36 \
             alone.",
            json!({ "type": "boolean", "default": false }),
        ),
        "namespace" => (
            "Whose IDs. A code or prefix that is bound to a namespace needs none, and refuses \
             another.",
            json!({
                "type": "string",
                "pattern": whole(NAMESPACE_PATTERN),
                "default": DEFAULT_NAMESPACE,
            }),
        ),
        "layout" => (
            "A preset or another system's layout to read the ID by, instead of a namespace's.",
            json!({ "type": "string", "enum": Vec::from_iter(NamedLayout::names()) }),
        ),
        "at" => (
            "A past instant that the IDs are for: from the namespace's first start on, or from \
             where its `layout.backfill_from` opens the past.",
            instant,
        ),
        "from" => ("Where the span begins.", instant),
        "to" => ("Where the span ends; not before `from`.", instant),
        other => unreachable!("no handler reads {other}"),
    };
    json!({
        "name": name,
        "in": "query",
        "required": matches!(name, "from" | "to"),
        "description": description,
        "schema": schema,
    })
}

/// A pattern of the whole text.
fn whole(pattern: &str) -> String {
    format!("^{pattern}$")
}
