//! Converts a configuration of raindrop-Go (github.com/treeyh/raindrop).
//!
//! The result is loaded as a configuration to check it, and problems are reported under the names
//! of the original.

mod address;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use config::FileFormat;
use serde_json::{Map, Value};

use self::address::{looks_like_mysql, mysql, postgres};
use crate::{
    config::{Config, ConfigProblem, DEFAULT, FlagValue, Inputs},
    core::{
        instant::{format_unix_ms_short, parse_unix_ms},
        layout::TimeUnit,
    },
};

/// Every field, by its name in the structs `RainDropConfig` and `RainDropDbConfig`.
const FIELDS: &str = "IdMode, DbConfig.DbType, DbConfig.DbUrl, DbConfig.TableName, Logger, \
                      ServicePort, TimeUnit, StartTimeStamp, TimeStampLength, \
                      PriorityEqualCodeWorkId, WorkIdLength, ServiceMinWorkId, ServiceMaxWorkId, \
                      TimeBackBitValue, EndBitsLength, EndBitsValue";

const SHARED: &str = "codes.shared";

/// The default table of raindrop-Go. Raindrop has the same default, with other columns.
const ITS_TABLE: &str = "soc_raindrop_worker";
/// The table that a converted configuration uses.
const OUR_TABLE: &str = "raindrop_worker";

/// A converted configuration.
#[derive(Debug)]
pub(super) struct Converted {
    /// The configuration file.
    pub(super) toml: String,
    /// Differences in behaviour and settings without a counterpart, a sentence or two each.
    pub(super) warnings: Vec<String>,
}

/// Converts a `RainDropConfig` in JSON or TOML.
///
/// # Errors
///
/// All problems, under the names of the original.
pub(super) fn convert(text: &str, now_ms: i64) -> Result<Converted, Vec<String>> {
    let table = read(text).map_err(|problem| vec![problem])?;
    let mut conversion = Conversion::default();
    conversion.take("", table);
    conversion.mode();
    conversion.layout(now_ms);
    conversion.workers();
    // In raindrop-Go, codes do not share a sequence.
    conversion.set(SHARED, false, "");
    conversion.store();
    conversion.service();
    conversion.finish()
}

/// Reads JSON, or TOML with the same names.
fn read(text: &str) -> Result<Map<String, Value>, String> {
    if text.trim_start().starts_with('{') {
        return serde_json::from_str(text).map_err(|error| format!("not JSON: {error}"));
    }
    let source = config::File::from_str(text, FileFormat::Toml);
    let read = config::Config::builder().add_source(source).build();
    // The text of the library quotes the line, which may contain the password.
    let problem = |_| "neither JSON, which begins with {, nor TOML".to_owned();
    read.and_then(config::Config::try_deserialize).map_err(problem)
}

#[derive(Default)]
struct Conversion {
    /// The values that are not null, by their names in [`FIELDS`].
    given: BTreeMap<&'static str, Value>,
    /// Raindrop's keys with their values and the names of raindrop-Go.
    keys: Vec<(&'static str, Value, &'static str)>,
    warnings: Vec<String>,
    problems: Vec<String>,
}

impl Conversion {
    /// Takes the values of a table. Names may be in upper or lower case, as in Go.
    fn take(&mut self, prefix: &str, table: Map<String, Value>) {
        for (name, value) in table {
            let name = format!("{prefix}{name}");
            // No other JSON tag differs from the name of its field.
            let is_tag = name.eq_ignore_ascii_case("EndBitValue");
            let name = if is_tag { "EndBitsValue" } else { &name };
            let field = FIELDS.split(", ").find(|field| field.eq_ignore_ascii_case(name));
            match (field, value) {
                (_, Value::Object(table)) if name.eq_ignore_ascii_case("DbConfig") => {
                    self.take("DbConfig.", table);
                }
                (Some(_), Value::Null) => {}
                (Some(field), value) => {
                    if self.given.insert(field, value).is_some() {
                        self.reject(format!("{field} is given twice"));
                    }
                }
                (None, _) => {
                    self.reject(format!("{name}: unknown; raindrop-Go's names are {FIELDS}"));
                }
            }
        }
    }

    /// Copies the value of a field; 0 if the field is missing, as in Go.
    fn copy(&mut self, key: &'static str, field: &'static str) {
        self.set(key, self.value(field), field);
    }

    fn set(&mut self, key: &'static str, value: impl Into<Value>, from: &'static str) {
        self.keys.push((key, value.into(), from));
    }

    fn reject(&mut self, problem: impl Into<String>) {
        self.problems.push(problem.into());
    }

    fn warn(&mut self, warning: impl Into<String>) {
        self.warnings.push(warning.into());
    }

    /// Returns the value of a field; 0 if the field is missing, as in Go.
    fn value(&self, field: &str) -> Value {
        self.given.get(field).cloned().unwrap_or_else(|| 0.into())
    }

    /// Returns the text of a field; empty if the field is missing, as in Go.
    fn text(&mut self, field: &'static str) -> String {
        let value = self.given.get(field).cloned().unwrap_or_else(|| "".into());
        if let Value::String(text) = value {
            return text;
        }
        // An address of any type may contain a password.
        let shown = if field == "DbConfig.DbUrl" { "…".to_owned() } else { value.to_string() };
        self.reject(format!("{field} = {shown}: must be a string"));
        String::new()
    }

    fn mode(&mut self) {
        let mode = self.text("IdMode");
        if !mode.eq_ignore_ascii_case("snowflake") {
            self.warn(format!(
                "IdMode = {mode:?}: raindrop-Go makes IDs by time and worker id in every mode (it \
                 never implemented NumberSection), as this configuration does"
            ));
        }
    }

    fn layout(&mut self, now_ms: i64) {
        let given = self.value("TimeUnit");
        let unit = given.as_u64().and_then(|unit| unit.to_string().parse::<TimeUnit>().ok());
        match unit {
            Some(unit) => {
                self.set("layout.time_unit", unit.name(), "TimeUnit");
                self.copy("layout.timestamp_bits", "TimeStampLength");
            }
            None => self.reject(format!(
                "TimeUnit = {given}: must be 1 (millisecond), 2 (second), 3 (minute), 4 (hour) or \
                 5 (day); raindrop-Go treats 0 as milliseconds, whatever its README says"
            )),
        }
        let start = self.text("StartTimeStamp");
        match parse_unix_ms(&start) {
            Some(start_ms) if start_ms > now_ms => {
                self.reject(format!("StartTimeStamp = {start:?}: must not be in the future"));
            }
            Some(start_ms) => {
                // Go divides towards zero: it rounds a start before 1970 up to the unit.
                let unit_ms = unit.map_or(1, TimeUnit::millis);
                let start_ms = start_ms.max(start_ms / unit_ms * unit_ms);
                self.set("layout.epoch", format_unix_ms_short(start_ms), "StartTimeStamp");
            }
            None => self.reject(format!(
                "StartTimeStamp = {start:?}: must be an RFC 3339 instant such as \
                 2023-01-01T00:00:00+08:00"
            )),
        }
        self.copy("layout.worker_bits", "WorkIdLength");
        self.set("layout.rollback_bits", 1, "TimeBackBitValue");
        self.copy("layout.rollback_initial", "TimeBackBitValue");
        self.copy("layout.reserved_bits", "EndBitsLength");
        let reserved = self.value("EndBitsValue");
        if reserved.as_i64().is_some_and(|value| value < 0) {
            self.reject(format!(
                "EndBitsValue = {reserved}: must be 0 or more; with a negative one raindrop-Go \
                 makes negative IDs, which no layout has"
            ));
        } else if self.value("EndBitsLength") == 0 && reserved != 0 {
            self.warn(format!(
                "EndBitsValue = {reserved}: ignored, as by raindrop-Go, since EndBitsLength is 0"
            ));
        } else {
            self.set("layout.reserved_value", reserved, "EndBitsValue");
        }
    }

    fn workers(&mut self) {
        if self.value("ServiceMinWorkId") == 0 && self.value("ServiceMaxWorkId") == 0 {
            self.warn(
                "ServiceMinWorkId and ServiceMaxWorkId are 0: raindrop-Go then has the one worker \
                 id 0, unless its table was made by hand; this configuration leases 1 to the \
                 largest, as its README says",
            );
        } else {
            self.copy("worker.min_id", "ServiceMinWorkId");
            self.copy("worker.max_id", "ServiceMaxWorkId");
        }
        let prefers = self.given.get("PriorityEqualCodeWorkId").cloned();
        if let Some(prefers) = prefers.filter(|prefers| *prefers != false) {
            self.set("worker.prefer_previous", prefers, "PriorityEqualCodeWorkId");
            if self.value("TimeUnit").as_i64() > Some(2) {
                self.warn(
                    "PriorityEqualCodeWorkId: raindrop-Go ignores it with minutes, hours and days; \
                     worker.prefer_previous applies with every unit",
                );
            }
        }
    }

    fn store(&mut self) {
        let kind = self.text("DbConfig.DbType");
        let text = self.text("DbConfig.DbUrl");
        let is_mysql = matches!(kind.as_str(), "" | "mysql");
        if !is_mysql && looks_like_mysql(&text) {
            self.reject(format!(
                "DbConfig.DbType = {kind:?}: must be \"mysql\" for this DbUrl; raindrop-Go treats \
                 everything else as PostgreSQL"
            ));
        } else if !is_mysql && kind != "postgresql" {
            self.warn(format!(
                "DbConfig.DbType = {kind:?}: PostgreSQL, as raindrop-Go treats everything but mysql"
            ));
        }
        match if is_mysql { mysql(&text) } else { postgres(&text) } {
            Ok(address) => {
                for warning in address.warnings {
                    self.warn(format!("DbConfig.DbUrl: {warning}"));
                }
                if address.has_password {
                    self.warn(
                        "store.url contains the password: better move it to a file and name that \
                         file as store.password_file",
                    );
                }
                self.set("store.url", address.url, "DbConfig.DbUrl");
            }
            // Do not show the value, which contains a password.
            Err(form) => self.reject(format!("DbConfig.DbUrl = …: must be {form}")),
        }
        let name = self.text("DbConfig.TableName");
        let table = if name.is_empty() { ITS_TABLE } else { &name };
        let ours = if table == OUR_TABLE { "raindrop_lease" } else { OUR_TABLE };
        self.warn(format!(
            "store.worker_table is {ours}: raindrop-Go's table {table} has other columns and is \
             not touched. The two fleets do not know each other's worker ids: see \
             docs/migrating.md before the first start"
        ));
        self.set("store.worker_table", ours, "DbConfig.TableName");
    }

    fn service(&mut self) {
        let port = self.value("ServicePort");
        match port.as_u64().and_then(|port| u16::try_from(port).ok()) {
            None => self.reject(format!("ServicePort = {port}: must be 0 to {}", u16::MAX)),
            Some(0) => {}
            Some(port) => {
                self.set("http.listen", format!("127.0.0.1:{port}"), "ServicePort");
                self.warn(
                    "http.listen has ServicePort's port: raindrop-Go only names workers by it, but \
                     this service listens there; choose another if your application does",
                );
            }
        }
        let logger = self.given.get("Logger");
        if logger.is_some_and(|logger| logger.as_object().is_none_or(|table| !table.is_empty())) {
            self.warn("Logger has no counterpart: see log.level and log.format");
        }
    }

    /// Loads the result as a configuration, to find every problem.
    fn finish(mut self) -> Result<Converted, Vec<String>> {
        let flag = |(key, value, flag): &(&'static str, Value, &'static str)| {
            let value = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            FlagValue { flag, key, value }
        };
        let flags = self.keys.iter().map(flag).collect();
        let loaded = Config::load(&Inputs { flags, ..Inputs::default() });
        for problem in loaded.err().into_iter().flat_map(|error| error.0) {
            self.reject(match problem {
                ConfigProblem::Value { key, value, source, allowed } => {
                    let name = match (source.as_str(), key.as_str()) {
                        (DEFAULT, "layout") => "TimeStampLength + WorkIdLength + EndBitsLength",
                        (DEFAULT, key) => key,
                        (field, _) => field,
                    };
                    format!("{name} = {value}: must be {allowed}")
                }
                problem => problem.to_string(),
            });
        }
        if !self.problems.is_empty() {
            return Err(self.problems);
        }
        let mut toml = String::from("# From a configuration of raindrop-Go; docs/migrating.md.\n");
        let mut section = "";
        for (key, value, _) in &self.keys {
            let (of, name) = key.split_once('.').expect("every key here has a section");
            if of != section {
                section = of;
                toml += &format!("\n[{section}]\n");
            }
            if *key == SHARED {
                toml += "# As in raindrop-Go, each code has a sequence of its own, and IDs of two codes may \
                         be equal.\n# With true, IDs are unique in the namespace.\n";
            }
            // Strings, numbers and booleans of JSON are valid TOML.
            toml += &format!("{name} = {value}\n");
        }
        Ok(Converted { toml, warnings: self.warnings })
    }
}
