//! The configuration as a JSON schema, for editors.
//!
//! It has each key of the key table with its form, default and meaning, and refuses others. It does
//! not check relations between keys, the bounds of durations and sizes, or what a text means:
//! `raindrop config` does. Where loading takes a number in quotes, the schema does not.

use serde_json::{Map, Value, json};

use super::{
    duration,
    form::Form,
    keys::{
        CODE_FIELDS, CODE_KEYS, CODES, KEYS, Key, LAYOUT_FIELDS, LAYOUT_KEYS, LAYOUTS, NAMESPACES,
        SEGMENT_CODE_FIELDS, is_inherited, is_of_service,
    },
    layout::NAME_PATTERN,
    size,
};
use crate::core::namespace::{DEFAULT_NAMESPACE, NAMESPACE_PATTERN};

/// The forms of durations that the documentation has; loading takes more, such as `5 minutes`.
const DURATION: &str = "^(0|([0-9]+([.][0-9]+)? ?(ms|us|h|m|s) ?)+)$";
const SIZE: &str = "^[0-9]+ ?(KiB|MiB|GiB)$";

/// Returns the schema, of draft 7, which is the newest that most editors read.
pub(crate) fn schema() -> Value {
    let mut top = section(KEYS.iter().map(|key| (key.name, property(key))));
    let of_namespaces = KEYS.iter().filter(|key| !is_of_service(key.name)).map(|key| {
        let mut property = property(key);
        if is_inherited(key.name) {
            remove_default(&mut property);
        }
        (key.name, property)
    });
    let namespaces = json!({
        "type": "object",
        "properties": { DEFAULT_NAMESPACE: false },
        "patternProperties": { whole(NAMESPACE_PATTERN): section(of_namespaces) },
        "additionalProperties": false,
    });
    let layouts = json!({
        "type": "object",
        "patternProperties": { whole(NAME_PATTERN): entry(&LAYOUT_FIELDS, LAYOUT_KEYS, "layout") },
        "additionalProperties": false,
    });
    let fields = [CODE_FIELDS.as_slice(), &SEGMENT_CODE_FIELDS].concat();
    let code = entry(&fields, CODE_KEYS, "name");
    top["properties"][NAMESPACES] = namespaces;
    top["properties"][LAYOUTS] = layouts;
    top["properties"][CODES] = json!({ "type": "array", "items": code });
    top["$schema"] = "http://json-schema.org/draft-07/schema#".into();
    top["title"] = "The configuration of raindrop".into();
    top
}

/// A table of the keys with these dotted names.
fn section(keys: impl Iterator<Item = (&'static str, Value)>) -> Value {
    let mut section = closed(Map::new());
    for (name, property) in keys {
        let mut place = &mut section;
        for part in name.split('.') {
            // The table of an outer part, which its first key creates.
            if place.is_null() {
                *place = closed(Map::new());
            }
            place = &mut place["properties"][part];
        }
        *place = property;
    }
    section
}

/// An entry that may have these fields, and must have one of them.
fn entry(fields: &[&'static str], known: &[Key], required: &str) -> Value {
    let property_of = |field: &&'static str| {
        let key = known.iter().find(|key| key.name == *field);
        ((*field).to_owned(), key.map_or_else(any, property))
    };
    let mut entry = closed(fields.iter().map(property_of).collect());
    entry["required"] = json!([required]);
    entry
}

fn closed(properties: Map<String, Value>) -> Value {
    json!({ "type": "object", "properties": properties, "additionalProperties": false })
}

/// A single value of any type.
fn any() -> Value {
    json!({ "type": ["string", "integer", "boolean"] })
}

fn property(key: &Key) -> Value {
    let mut help = key.help.to_owned();
    let mut property = match key.form {
        Form::Text => json!({ "type": "string" }),
        Form::Boolean => json!({ "type": "boolean" }),
        Form::Number { least, most } => {
            json!({ "type": "integer", "minimum": least, "maximum": most })
        }
        Form::Duration { shortest: low, longest } => {
            let [shortest, longest] = [low, longest].map(duration::format);
            help += &format!(" From {shortest} to {longest}.");
            let text = json!({ "type": "string", "pattern": DURATION });
            // 0 needs no unit, and so no quotes.
            if low.is_zero() { json!({ "anyOf": [text, { "const": 0 }] }) } else { text }
        }
        Form::Size { least, most } => {
            help += &format!(" From {} to {}.", size::format(least), size::format(most));
            json!({ "type": "string", "pattern": SIZE })
        }
        Form::Words(words) => json!({ "enum": words() }),
        Form::NumberedWords { words, most } => {
            let number = json!({ "type": "integer", "minimum": 1, "maximum": most });
            json!({ "anyOf": [{ "enum": words() }, number] })
        }
        Form::List => {
            let list = json!({ "type": "array", "items": { "type": "string" } });
            json!({ "anyOf": [{ "type": "string" }, list] })
        }
    };
    property["description"] = help.into();
    if let Some(default) = key.default {
        property["default"] = typed(key.form, default);
    }
    property
}

/// A default as TOML has it.
fn typed(form: Form, text: &str) -> Value {
    match form {
        Form::Number { .. } => text.parse::<u64>().map_or_else(|_| text.into(), Value::from),
        Form::Boolean => (text == "true").into(),
        _ => text.into(),
    }
}

fn remove_default(property: &mut Value) {
    if let Value::Object(members) = property {
        members.remove("default");
    }
}

/// The pattern of a whole text.
fn whole(pattern: &str) -> String {
    format!("^{pattern}$")
}
