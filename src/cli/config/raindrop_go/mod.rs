//! Converts a configuration of raindrop-Go (github.com/treeyh/raindrop).
//!
//! Ranges are checked by loading the result, and reported under the original's names.

mod address;
mod original;
#[cfg(test)]
mod tests;

use std::{collections::BTreeMap, fmt::Write};

use serde_json::Value;

use self::{
    address::{looks_like_mysql, mysql, postgres},
    original::Original,
};
use crate::{
    config::{Config, ConfigProblem, FlagValue, Inputs, Source},
    core::{
        instant::{format_unix_ms_short, parse_unix_ms},
        layout::TimeUnit,
    },
};

/// The table that raindrop-Go uses by default; it is our own default too, with other columns.
const ITS_TABLE: &str = "soc_raindrop_worker";
/// The table that a converted configuration uses.
const OUR_TABLE: &str = "raindrop_worker";
const LARGEST_PORT: i64 = 65_535;

/// A converted configuration.
#[derive(Debug)]
pub(super) struct Converted {
    /// The configuration file.
    pub(super) toml: String,
    /// What behaves differently, or has no counterpart; a sentence or two each.
    pub(super) warnings: Vec<String>,
}

/// Converts a `RainDropConfig` in JSON or TOML.
///
/// # Errors
///
/// Every problem, each under the original's name.
pub(super) fn convert(text: &str, now_ms: i64) -> Result<Converted, Vec<String>> {
    let Original { given, problems } = original::read(text).map_err(|problem| vec![problem])?;
    let (keys, warnings) = (Vec::new(), Vec::new());
    let mut conversion = Conversion { given, now_ms, keys, warnings, problems };
    conversion.mode();
    conversion.layout();
    conversion.workers();
    conversion.store();
    conversion.service();
    conversion.finish()
}

struct Conversion {
    /// The values that are given, by raindrop-Go's names.
    given: BTreeMap<&'static str, Value>,
    now_ms: i64,
    /// Our keys with their values and raindrop-Go's names.
    keys: Vec<(&'static str, Value, &'static str)>,
    warnings: Vec<String>,
    problems: Vec<String>,
}

impl Conversion {
    fn set(&mut self, key: &'static str, value: impl Into<Value>, from: &'static str) {
        self.keys.push((key, value.into(), from));
    }

    fn reject(&mut self, problem: impl Into<String>) {
        self.problems.push(problem.into());
    }

    fn warn(&mut self, warning: impl Into<String>) {
        self.warnings.push(warning.into());
    }

    /// Returns a value; when it is not given, 0, as in Go.
    fn value(&self, field: &str) -> Value {
        self.given.get(field).cloned().unwrap_or_else(|| 0.into())
    }

    /// Returns a string; when it is not given, an empty one, as in Go.
    fn text(&mut self, field: &'static str) -> String {
        match self.given.get(field) {
            None => String::new(),
            Some(Value::String(text)) => text.clone(),
            Some(value) => {
                // Any value of the address may be a password.
                let is_secret = field == "DbConfig.DbUrl";
                let shown = if is_secret { "…".to_owned() } else { value.to_string() };
                self.reject(format!("{field} = {shown}: must be a string"));
                String::new()
            }
        }
    }

    fn mode(&mut self) {
        let mode = self.text("IdMode");
        match mode.to_lowercase().as_str() {
            "snowflake" => {}
            "numbersection" => self.warn(format!(
                "IdMode = {mode:?}: raindrop-Go never implemented it and makes IDs by time and \
                 worker id, as this configuration does"
            )),
            _ => self.warn(format!(
                "IdMode = {mode:?}: raindrop-Go treats it as Snowflake, as this configuration does"
            )),
        }
    }

    fn layout(&mut self) {
        let unit = self.value("TimeUnit");
        let index = unit.as_u64().and_then(|unit| usize::try_from(unit.checked_sub(1)?).ok());
        match index.and_then(|index| TimeUnit::ALL.get(index)) {
            Some(unit) => {
                self.set("layout.time_unit", unit.name(), "TimeUnit");
                let bits = self.value("TimeStampLength");
                self.set("layout.timestamp_bits", bits, "TimeStampLength");
            }
            None => self.reject(format!(
                "TimeUnit = {unit}: must be 1 (millisecond), 2 (second), 3 (minute), 4 (hour) or \
                 5 (day); raindrop-Go treats 0 as milliseconds, whatever its README says"
            )),
        }
        self.start();
        self.set("layout.worker_bits", self.value("WorkIdLength"), "WorkIdLength");
        self.set("layout.rollback_bits", 1, "TimeBackBitValue");
        self.set("layout.rollback_initial", self.value("TimeBackBitValue"), "TimeBackBitValue");
        self.set("layout.reserved_bits", self.value("EndBitsLength"), "EndBitsLength");
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

    fn start(&mut self) {
        let text = self.text("StartTimeStamp");
        match parse_unix_ms(&text) {
            Some(start_ms) if start_ms > self.now_ms => {
                self.reject(format!("StartTimeStamp = {text:?}: must not be in the future"));
            }
            Some(start_ms) => {
                self.set("layout.epoch", format_unix_ms_short(start_ms), "StartTimeStamp");
            }
            None => self.reject(format!(
                "StartTimeStamp = {text:?}: must be an RFC 3339 instant such as \
                 2023-01-01T00:00:00+08:00"
            )),
        }
    }

    fn workers(&mut self) {
        let [min, max] = ["ServiceMinWorkId", "ServiceMaxWorkId"].map(|field| self.value(field));
        if min == 0 && max == 0 {
            self.warn(
                "ServiceMinWorkId and ServiceMaxWorkId are 0: raindrop-Go then has the one worker \
                 id 0, unless its table was made by hand; this configuration leases 1 to the \
                 largest, as its README says",
            );
        } else {
            self.set("worker.min_id", min, "ServiceMinWorkId");
            self.set("worker.max_id", max, "ServiceMaxWorkId");
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
            // The value is not shown: it holds a password.
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
        match port.as_i64().filter(|port| (0..=LARGEST_PORT).contains(port)) {
            None => self.reject(format!("ServicePort = {port}: must be 0 to {LARGEST_PORT}")),
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

    fn finish(mut self) -> Result<Converted, Vec<String>> {
        self.check();
        if !self.problems.is_empty() {
            return Err(self.problems);
        }
        let mut toml = String::from("# From a configuration of raindrop-Go; docs/migrating.md.\n");
        let mut section = "";
        for (key, value, _) in &self.keys {
            let (of, name) = key.split_once('.').expect("every key here has a section");
            if of != section {
                section = of;
                write!(toml, "\n[{section}]\n").expect("a string takes any text");
            }
            // JSON's strings, numbers and booleans are TOML's.
            writeln!(toml, "{name} = {value}").expect("a string takes any text");
        }
        Ok(Converted { toml, warnings: self.warnings })
    }

    /// Loads what will be printed.
    fn check(&mut self) {
        let flag = |(key, value, from): &(&'static str, Value, &'static str)| {
            let value = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            FlagValue { flag: from, key, value }
        };
        let flags = self.keys.iter().map(flag).collect();
        let loaded = Config::load(&Inputs { flags, ..Inputs::default() });
        for problem in loaded.err().into_iter().flat_map(|error| error.0) {
            self.reject(match problem {
                ConfigProblem::Value { key, value, source, allowed } => {
                    let name = match source {
                        Source::Flag(name) => name,
                        _ if key == "layout" => "TimeStampLength + WorkIdLength + EndBitsLength",
                        _ => &key,
                    };
                    format!("{name} = {value}: must be {allowed}")
                }
                problem => problem.to_string(),
            });
        }
    }
}
