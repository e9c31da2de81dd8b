//! Reads the configuration of raindrop-Go: names and values, without their meaning.

use std::collections::BTreeMap;

use config::FileFormat;
use serde_json::{Map, Value};

/// Every field, by its name in the structs `RainDropConfig` and `RainDropDbConfig`.
const FIELDS: [&str; 16] = [
    "IdMode",
    "DbConfig.DbType",
    "DbConfig.DbUrl",
    "DbConfig.TableName",
    "Logger",
    "ServicePort",
    "TimeUnit",
    "StartTimeStamp",
    "TimeStampLength",
    "PriorityEqualCodeWorkId",
    "WorkIdLength",
    "ServiceMinWorkId",
    "ServiceMaxWorkId",
    "TimeBackBitValue",
    "EndBitsLength",
    "EndBitsValue",
];

/// The one JSON tag that is another word than its field.
const TAG: (&str, &str) = ("EndBitValue", "EndBitsValue");

/// What a file gives.
#[derive(Debug, Default)]
pub(super) struct Original {
    /// The values other than null, by their names in [`FIELDS`].
    pub(super) given: BTreeMap<&'static str, Value>,
    pub(super) problems: Vec<String>,
}

/// Reads JSON, or TOML with the same names, in any case as Go reads them.
pub(super) fn read(text: &str) -> Result<Original, String> {
    let table: Map<String, Value> = if text.trim_start().starts_with('{') {
        serde_json::from_str(text).map_err(|error| format!("not JSON: {error}"))?
    } else {
        let source = config::File::from_str(text, FileFormat::Toml);
        let built = config::Config::builder().add_source(source).build();
        // The library's text quotes the line, which may hold the password.
        built
            .and_then(config::Config::try_deserialize)
            .map_err(|_| "neither JSON, which begins with {, nor TOML".to_owned())?
    };
    let mut original = Original::default();
    take(&mut original, "", table);
    Ok(original)
}

fn take(original: &mut Original, prefix: &str, table: Map<String, Value>) {
    for (name, value) in table {
        let name = format!("{prefix}{name}");
        let name = if name.eq_ignore_ascii_case(TAG.0) { TAG.1 } else { &name };
        let field = FIELDS.into_iter().find(|field| field.eq_ignore_ascii_case(name));
        match (field, value) {
            (_, Value::Object(table)) if name.eq_ignore_ascii_case("DbConfig") => {
                take(original, "DbConfig.", table);
            }
            (Some(_), Value::Null) => {}
            (Some(field), value) => {
                if original.given.insert(field, value).is_some() {
                    original.problems.push(format!("{field} is given twice"));
                }
            }
            (None, _) => {
                let known = FIELDS.join(", ");
                original.problems.push(format!("{name}: unknown; raindrop-Go's names are {known}"));
            }
        }
    }
}
