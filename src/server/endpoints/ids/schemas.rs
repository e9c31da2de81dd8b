//! The schemas of both responses.

use serde_json::{Map, Value, json};

use crate::core::id::Id;

/// The schemas of both responses, by name.
pub(super) fn schemas() -> Map<String, Value> {
    let digits =
        |example: &str| json!({ "type": "string", "pattern": "^[0-9]{1,19}$", "example": example });
    let mut step = digits("1");
    step["description"] = "From each ID to the next.".into();
    let schemas = json!({
        "OneId": {
            "type": "object",
            "description": "One ID.",
            "required": ["id"],
            "properties": { "id": { "$ref": "#/components/schemas/Id" } },
        },
        "Id": {
            "oneOf": [
                { "$ref": "#/components/schemas/IdText" },
                { "$ref": "#/components/schemas/IdNumber" },
            ],
            "description": "A text, or with `format=number` a number.",
        },
        "IdText": {
            "type": "string",
            "description": "In the requested encoding, after the prefix of its code if that has one.",
            "example": "249679838552547328",
            "minLength": 1,
        },
        "IdNumber": {
            "type": "integer",
            "format": "int64",
            "description": "Exact in JavaScript.",
            "maximum": Id::MAX_JS_SAFE.get(),
            "minimum": 0,
        },
        "Ids": {
            "oneOf": [
                {
                    "type": "object",
                    "description": "In ascending order.",
                    "required": ["ids"],
                    "properties": {
                        "ids": { "type": "array", "items": { "$ref": "#/components/schemas/Id" } },
                    },
                },
                {
                    "type": "object",
                    "description": "With `format=range`.",
                    "required": ["ranges"],
                    "properties": {
                        "ranges": {
                            "type": "array",
                            "items": { "$ref": "#/components/schemas/Range" },
                        },
                    },
                },
            ],
            "description": "IDs, or ranges of them.",
        },
        "Range": {
            "type": "object",
            "description": "IDs at equal distances.",
            "required": ["first", "last", "step", "count"],
            "properties": {
                "first": digits("249679838552547328"),
                "last": digits("249679838552551423"),
                "step": step,
                "count": {
                    "type": "integer",
                    "format": "int64",
                    "description": "How many there are.",
                    "minimum": 1,
                },
            },
        },
    });
    serde_json::from_value(schemas).expect("an object")
}
