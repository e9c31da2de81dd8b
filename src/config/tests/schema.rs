//! The JSON schema has the keys of the key table. A validator tries it in `tests/api`.

use std::collections::BTreeSet;

use serde_json::Value;

use super::*;

/// Adds the dotted names of the values below a schema.
fn collect(schema: &Value, path: &str, found: &mut BTreeSet<String>) {
    let Some(properties) = schema["properties"].as_object() else {
        found.insert(path.to_owned());
        return;
    };
    assert_eq!(schema["additionalProperties"], false, "{path} is closed");
    for (name, inner) in properties {
        let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
        collect(inner, &path, found);
    }
}

fn names(schema: &Value) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    collect(schema, "", &mut found);
    found
}

/// The schema of whatever a pattern allows as a name.
fn inner<'a>(schema: &'a Value, table: &str) -> &'a Value {
    let properties = &schema["properties"][table];
    assert_eq!(properties["additionalProperties"], false, "{table} is closed");
    let patterns = properties["patternProperties"].as_object().expect("patterns");
    patterns.values().next().expect("a pattern")
}

#[test]
fn the_schema_has_every_key_and_no_other() {
    let mut whole = schema();
    let of_namespace = names(inner(&whole, keys::NAMESPACES));
    let expected = KEYS.iter().filter(|key| !keys::is_of_service(key.name));
    assert_eq!(of_namespace, expected.map(|key| key.name.to_owned()).collect());

    let of_layout = names(inner(&whole, keys::LAYOUTS));
    assert_eq!(of_layout, keys::LAYOUT_FIELDS.map(str::to_owned).into());

    let of_code = names(&whole["properties"][keys::CODES]["items"]);
    let fields = [keys::CODE_FIELDS.as_slice(), &keys::SEGMENT_CODE_FIELDS].concat();
    assert_eq!(of_code, fields.into_iter().map(str::to_owned).collect());

    let properties = whole["properties"].as_object_mut().expect("properties");
    for table in [keys::NAMESPACES, keys::LAYOUTS, keys::CODES] {
        properties.remove(table).expect("a table");
    }
    assert_eq!(names(&whole), KEYS.iter().map(|key| key.name.to_owned()).collect());
}

#[test]
fn every_key_of_the_schema_has_its_default_and_meaning() {
    let schema = schema();
    for key in KEYS {
        let pointer = format!("/properties/{}", key.name.replace('.', "/properties/"));
        let property = schema.pointer(&pointer).expect(key.name);
        let description = property["description"].as_str().expect("a text");
        assert!(description.starts_with(key.help), "{}", key.name);
        let default = property.get("default").map(|default| match default {
            Value::String(text) => text.clone(),
            other => other.to_string(),
        });
        assert_eq!(default.as_deref(), key.default, "{}", key.name);
    }
    let inherited = "/properties/lease/properties/ttl/default";
    assert!(inner(&schema, keys::NAMESPACES).pointer(inherited).is_none(), "that of the top level");
}
