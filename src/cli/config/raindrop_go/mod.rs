//! The configuration of raindrop-Go (github.com/treeyh/raindrop) as one of ours.
//!
//! Every range is that of our own keys: what is converted is loaded before it is printed, and
//! what that refuses is told under the original's names.

mod address;
mod original;
#[cfg(test)]
mod tests;

use std::fmt::Write;

use serde_json::Value;

use self::{
    address::{looks_like_mysql, mysql, postgres},
    original::Original,
};
use crate::{
    config::{Config, ConfigProblem, Inputs, Key},
    core::{
        instant::{format_unix_ms_short, parse_unix_ms},
        layout::TimeUnit,
    },
};

/// The table that raindrop-Go uses unless told another; also our own default, with other columns.
const ITS_TABLE: &str = "soc_raindrop_worker";
/// The table that a converted configuration uses.
const OUR_TABLE: &str = "raindrop_worker";
/// The largest port.
const LARGEST_PORT: i64 = 65_535;

/// What a configuration of raindrop-Go comes to.
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
/// Everything that is wrong, each under the original's name.
pub(super) fn convert(text: &str, now_ms: i64) -> Result<Converted, Vec<String>> {
    let original = Original::read(text).map_err(|problem| vec![problem])?;
    let mut conversion = Conversion { original, now_ms, keys: Vec::new(), warnings: Vec::new() };
    conversion.mode();
    let unit = conversion.original.number("TimeUnit");
    conversion.layout(unit);
    conversion.workers(unit);
    conversion.store();
    conversion.service();
    conversion.finish()
}

struct Conversion {
    original: Original,
    now_ms: i64,
    /// Our keys with their values and the names that they come from.
    keys: Vec<(&'static str, Value, &'static str)>,
    warnings: Vec<String>,
}

impl Conversion {
    fn set(&mut self, key: &'static str, value: impl Into<Value>, from: &'static str) {
        self.keys.push((key, value.into(), from));
    }

    fn reject(&mut self, problem: impl Into<String>) {
        self.original.problems.push(problem.into());
    }

    fn warn(&mut self, warning: impl Into<String>) {
        self.warnings.push(warning.into());
    }

    fn mode(&mut self) {
        let mode = self.original.text("IdMode");
        match mode.to_lowercase().as_str() {
            "snowflake" => {}
            "numbersection" => self.warn(format!(
                "IdMode = {mode:?}: raindrop-Go never built it and makes IDs by time and worker \
                 id; so does this configuration"
            )),
            _ => self.warn(format!(
                "IdMode = {mode:?}: raindrop-Go makes Snowflake of it, and so does this \
                 configuration"
            )),
        }
    }

    fn layout(&mut self, unit: i64) {
        let index = unit.checked_sub(1).and_then(|index| usize::try_from(index).ok());
        let name = index.and_then(|index| TimeUnit::ALL.get(index));
        match name {
            Some(name) => {
                self.set("layout.time_unit", name.name(), "TimeUnit");
                self.number("layout.timestamp_bits", "TimeStampLength");
            }
            None => self.reject(format!(
                "TimeUnit = {unit}: must be 1 (millisecond), 2 (second), 3 (minute), 4 (hour) or \
                 5 (day); of 0 raindrop-Go makes milliseconds, whatever its README says"
            )),
        }
        self.start();
        self.number("layout.worker_bits", "WorkIdLength");
        self.set("layout.rollback_bits", 1, "TimeBackBitValue");
        self.number("layout.rollback_initial", "TimeBackBitValue");
        let reserved_bits = self.number("layout.reserved_bits", "EndBitsLength");
        let reserved_value = self.original.number("EndBitsValue");
        if reserved_value < 0 {
            self.reject(format!(
                "EndBitsValue = {reserved_value}: must be 0 or more; of a negative one raindrop-Go \
                 makes negative IDs, which no layout has"
            ));
        } else if reserved_bits == 0 && reserved_value != 0 {
            self.warn(format!(
                "EndBitsValue = {reserved_value}: ignored, as by raindrop-Go, since EndBitsLength \
                 is 0"
            ));
        } else {
            self.set("layout.reserved_value", reserved_value, "EndBitsValue");
        }
    }

    fn number(&mut self, key: &'static str, from: &'static str) -> i64 {
        let number = self.original.number(from);
        self.set(key, number, from);
        number
    }

    fn start(&mut self) {
        let text = self.original.text("StartTimeStamp");
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

    fn workers(&mut self, unit: i64) {
        let min = self.original.number("ServiceMinWorkId");
        let max = self.original.number("ServiceMaxWorkId");
        if (min, max) == (0, 0) {
            self.warn(
                "ServiceMinWorkId and ServiceMaxWorkId are 0: raindrop-Go then has the one worker \
                 id 0, unless its table was made by hand; this configuration leases 1 to the \
                 largest, as its README says",
            );
        } else {
            self.set("worker.min_id", min, "ServiceMinWorkId");
            self.set("worker.max_id", max, "ServiceMaxWorkId");
        }
        if self.original.boolean("PriorityEqualCodeWorkId") {
            self.set("worker.prefer_previous", true, "PriorityEqualCodeWorkId");
            if unit > 2 {
                self.warn(
                    "PriorityEqualCodeWorkId: raindrop-Go ignores it with minutes, hours and days; \
                     worker.prefer_previous holds with every unit",
                );
            }
        }
    }

    fn store(&mut self) {
        let kind = self.original.text("DbConfig.DbType");
        let text = self.original.text("DbConfig.DbUrl");
        let is_mysql = matches!(kind.as_str(), "" | "mysql");
        if !is_mysql && looks_like_mysql(&text) {
            self.reject(format!(
                "DbConfig.DbType = {kind:?}: must be \"mysql\" for this DbUrl; raindrop-Go takes \
                 everything else as PostgreSQL"
            ));
        } else if !is_mysql && kind != "postgresql" {
            self.warn(format!(
                "DbConfig.DbType = {kind:?}: PostgreSQL, as raindrop-Go takes everything but mysql"
            ));
        }
        let read = if is_mysql { mysql(&text) } else { postgres(&text) };
        match read {
            Ok(address) => {
                for warning in address.warnings {
                    self.warn(format!("DbConfig.DbUrl: {warning}"));
                }
                if address.has_password {
                    self.warn(
                        "store.url holds the password: better take it out, write it to a file and \
                         name that as store.password_file",
                    );
                }
                self.set("store.url", address.url, "DbConfig.DbUrl");
            }
            // Not even what it is: it holds a password.
            Err(form) => self.reject(format!("DbConfig.DbUrl = …: must be {form}")),
        }
        let given = self.original.text("DbConfig.TableName");
        let table = if given.is_empty() { ITS_TABLE } else { &given };
        let ours = if table == OUR_TABLE { "raindrop_lease" } else { OUR_TABLE };
        self.warn(format!(
            "store.worker_table is {ours}: raindrop-Go's table {table} has other columns and stays \
             as it is. The two fleets know nothing of each other's worker ids: see \
             docs/migrating.md before the first start"
        ));
        self.set("store.worker_table", ours, "DbConfig.TableName");
    }

    fn service(&mut self) {
        let port = self.original.number("ServicePort");
        if !(0..=LARGEST_PORT).contains(&port) {
            self.reject(format!("ServicePort = {port}: must be 0 to {LARGEST_PORT}"));
        } else if port != 0 {
            self.set("http.listen", format!("127.0.0.1:{port}"), "ServicePort");
            self.warn(
                "http.listen has ServicePort's port: raindrop-Go only names workers by it, but \
                 this service listens there; choose another if your application does",
            );
        }
        if self.original.is_given("Logger") {
            self.warn("Logger has no counterpart: see log.level and log.format");
        }
    }

    fn finish(mut self) -> Result<Converted, Vec<String>> {
        self.check();
        if !self.original.problems.is_empty() {
            return Err(self.original.problems);
        }
        let mut toml = String::from("# From a configuration of raindrop-Go; docs/migrating.md.\n");
        let mut section = "";
        for (key, value, _) in &self.keys {
            let (of, name) = key.split_once('.').expect("every key here has a section");
            if of != section {
                section = of;
                write!(toml, "\n[{section}]\n").expect("a string takes any text");
            }
            // JSON's texts, numbers and truth values are TOML's.
            writeln!(toml, "{name} = {value}").expect("a string takes any text");
        }
        Ok(Converted { toml, warnings: self.warnings })
    }

    /// Loads what will be printed.
    fn check(&mut self) {
        let variable = |(key, value, _): &(&str, Value, &str)| {
            let key = Key::by_name(key).expect("a key of ours");
            let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            (key.variable(), text)
        };
        let environment = self.keys.iter().map(variable).collect();
        let loaded = Config::load(&Inputs { environment, ..Inputs::default() });
        for problem in loaded.err().into_iter().flat_map(|error| error.0) {
            let told = match problem {
                ConfigProblem::Value { key, value, allowed, .. } => {
                    let begin = format!("{} = ", self.name_of(&key));
                    // What could not even be read was told as it stands there.
                    if self.original.problems.iter().any(|told| told.starts_with(&begin)) {
                        continue;
                    }
                    format!("{begin}{value}: must be {allowed}")
                }
                problem => problem.to_string(),
            };
            self.reject(told);
        }
    }

    /// What the original calls a key of ours.
    fn name_of<'a>(&'a self, key: &'a str) -> &'a str {
        let named = self.keys.iter().find(|(ours, ..)| *ours == key);
        match named {
            Some((.., from)) => from,
            None if key == "layout" => "TimeStampLength + WorkIdLength + EndBitsLength",
            None => key,
        }
    }
}
