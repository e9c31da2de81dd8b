//! The configuration of raindrop-Go as it is given: names and kinds, nothing of what it means.

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

/// The values that were given, by the names of [`FIELDS`], and what is wrong with them.
#[derive(Debug, Default)]
pub(super) struct Original {
    given: BTreeMap<&'static str, Value>,
    pub(super) problems: Vec<String>,
}

impl Original {
    /// Reads JSON, or TOML with the same names, in any case as Go reads them.
    pub(super) fn read(text: &str) -> Result<Self, String> {
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
        let mut original = Self::default();
        original.take("", table);
        Ok(original)
    }

    fn take(&mut self, prefix: &str, table: Map<String, Value>) {
        for (name, value) in table {
            let name = format!("{prefix}{name}");
            match value {
                Value::Object(table) if name.eq_ignore_ascii_case("DbConfig") => {
                    self.take("DbConfig.", table);
                }
                value => self.set(&name, value),
            }
        }
    }

    fn set(&mut self, name: &str, value: Value) {
        let name = if name.eq_ignore_ascii_case(TAG.0) { TAG.1 } else { name };
        match FIELDS.into_iter().find(|field| field.eq_ignore_ascii_case(name)) {
            Some(field) => {
                if self.given.insert(field, value).is_some() {
                    self.problems.push(format!("{field} is given twice"));
                }
            }
            None => self
                .problems
                .push(format!("{name}: unknown; raindrop-Go's names are {}", FIELDS.join(", "))),
        }
    }

    /// Whether something is given that is neither null nor empty.
    pub(super) fn is_given(&self, field: &'static str) -> bool {
        match self.given.get(field) {
            None | Some(Value::Null) => false,
            Some(Value::Object(table)) => !table.is_empty(),
            Some(_) => true,
        }
    }

    /// A text; empty when it is not given, as in Go.
    pub(super) fn text(&mut self, field: &'static str) -> String {
        let text = self.read_as(field, "a text", |value| value.as_str().map(str::to_owned));
        text.unwrap_or_default()
    }

    /// A whole number; 0 when it is not given, as in Go.
    pub(super) fn number(&mut self, field: &'static str) -> i64 {
        self.read_as(field, "a whole number", Value::as_i64).unwrap_or(0)
    }

    /// A truth value; false when it is not given, as in Go.
    pub(super) fn boolean(&mut self, field: &'static str) -> bool {
        self.read_as(field, "true or false", Value::as_bool).unwrap_or(false)
    }

    fn read_as<T>(
        &mut self,
        field: &'static str,
        allowed: &str,
        read: impl FnOnce(&Value) -> Option<T>,
    ) -> Option<T> {
        let value = self.given.get(field).filter(|value| !value.is_null())?;
        let read = read(value);
        if read.is_none() {
            // Whatever stands where the address belongs may be a password.
            let shown = match field {
                "DbConfig.DbUrl" => "…".to_owned(),
                _ => value.to_string(),
            };
            self.problems.push(format!("{field} = {shown}: must be {allowed}"));
        }
        read
    }
}
