//! Each parameter, as the handlers read it.

use serde_json::{Value, json};

use crate::{
    config::Key,
    core::{
        code::CODE_PATTERN,
        encoding::Encoding,
        layout::{FieldOrder, TimeUnit},
        namespace::{DEFAULT_NAMESPACE, NAMESPACE_PATTERN},
        preset::{NamedLayout, Preset},
    },
    server::{
        plan::{PLAN_KEYS, PlanKey},
        route::{Handler, Route},
    },
};

/// A parameter of this route, in its path or in the query.
pub(super) fn parameter(route: &Route, name: &str, max_batch: u32) -> Value {
    let instant =
        json!({ "type": "string", "format": "date-time", "examples": ["2026-11-20T00:00:00Z"] });
    let is_batch = matches!(route.handler, Handler::Claim { is_batch: true });
    let formats: &[&str] =
        if is_batch { &["string", "number", "range"] } else { &["string", "number"] };
    let (description, schema) = match name {
        "code" => (
            "The caller's name for a sequence.",
            json!({ "type": "string", "pattern": whole(CODE_PATTERN), "maxLength": 64 }),
        ),
        "id" => (
            "An ID in its encoding, with the prefix of its code if that has one.",
            json!({ "type": "string", "pattern": whole("[A-Za-z0-9._:=-]+") }),
        ),
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
            "Texts of equal length that sort as their IDs: with decimal, hex, base32, base36 \
             and base62-sorted alone.",
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
            "What to read the ID by, instead of a namespace's layout: a preset, the name of another \
             system's layout, a configured name, or the fields from the most significant with \
             their widths, `time` with the length of its tick.",
            json!({
                "type": "string",
                "examples": Vec::from_iter(
                    NamedLayout::names().chain(["time:39@10ms,sequence:8,worker:16"])
                ),
            }),
        ),
        "at" => (
            "A past instant that the IDs are for: from the namespace's first start on, or from \
             where its `layout.backfill_from` opens the past.",
            instant,
        ),
        "after" => {
            ("The code that the list begins behind.", json!({ "type": "string", "maxLength": 64 }))
        }
        "from" => ("Where the span begins.", instant),
        "to" => ("Where the span ends; not before `from`.", instant),
        other => plan_parameter(other).unwrap_or_else(|| unreachable!("no handler reads {other}")),
    };
    let example = match name {
        "code" => Some("order"),
        "id" => Some("249679838552547328"),
        _ => None,
    };
    let is_in_path = matches!(name, "code" | "id");
    json!({
        "name": name,
        "in": if is_in_path { "path" } else { "query" },
        "required": is_in_path || matches!(name, "from" | "to"),
        "description": description,
        "example": example,
        "schema": schema,
    })
}

/// A setting of a layout, with the help of its key.
fn plan_parameter(name: &str) -> Option<(&'static str, Value)> {
    let PlanKey { key, .. } = PLAN_KEYS.into_iter().find(|key| key.parameter == name)?;
    let most: u64 = match name {
        "preset" => return Some((help(key), text_of(Preset::ALL.map(Preset::name).to_vec()))),
        "time_unit" => {
            let names = TimeUnit::ALL.map(TimeUnit::name);
            let numbers = ["1", "2", "3", "4", "5"];
            return Some((help(key), text_of([&names[..], &numbers].concat())));
        }
        "order" => {
            return Some((help(key), text_of(FieldOrder::ALL.map(FieldOrder::name).to_vec())));
        }
        "epoch" => return Some((help(key), json!({ "type": "string", "format": "date-time" }))),
        "timestamp_bits" => 55,
        "data_center_bits" => 10,
        "worker_bits" => 16,
        "data_center" => 1023,
        "rollback_bits" => 3,
        "rollback_initial" => 7,
        "reserved_bits" => 5,
        "reserved_value" => 31,
        _ => (1 << 62) - 1,
    };
    Some((help(key), json!({ "type": "integer", "minimum": 0, "maximum": most })))
}

fn help(key: &str) -> &'static str {
    Key::by_name(key).map_or("", |key| key.help)
}

fn text_of(names: Vec<&str>) -> Value {
    json!({ "type": "string", "enum": names })
}

/// A pattern of the whole text.
fn whole(pattern: &str) -> String {
    format!("^{pattern}$")
}
