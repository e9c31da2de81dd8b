//! The configuration: defaults < file < `.env` < environment < flags.
//!
//! [`Config::load`] reads each key by itself and goes on after a bad one, so that every problem
//! is reported together. A new key is one line in the key table and one in its section's file.

mod duration;
mod host;
mod http;
mod issue;
mod keys;
mod layers;
mod layout;
mod lease;
mod log;
mod problem;
mod reader;
mod secret;
mod source;
mod store;
#[cfg(test)]
mod tests;
mod worker;

pub(crate) use self::duration::{FORM as DURATION_FORM, parse as parse_duration};
pub use self::{
    host::Host,
    http::{CorsOrigins, HttpConfig},
    keys::{KEYS, Key},
    layers::{FlagValue, Inputs},
    log::{LogConfig, LogFormat},
    problem::{ConfigError, ConfigProblem},
    secret::hide_password,
    source::Source,
};
use self::{layers::Layers, layout::LayoutChoice, reader::Reader};
use crate::{core::instant::format_unix_ms_short, keeper::KeeperSettings, store::StoreSettings};

/// A checked configuration.
#[derive(Clone)]
pub struct Config {
    /// What the keeper of the namespace `default` leases, and how its IDs are issued.
    pub keeper: KeeperSettings,
    /// Where worker ids are leased.
    pub store: StoreSettings,
    /// How requests are served.
    pub http: HttpConfig,
    /// How much is logged.
    pub log: LogConfig,
    effective: Vec<EffectiveSetting>,
}

/// One key of a checked configuration as it may be shown.
#[derive(Clone, Debug)]
pub struct EffectiveSetting {
    /// The key.
    pub key: &'static str,
    /// Its value without secrets; empty when it is unset.
    pub value: String,
    /// Where it came from.
    pub source: Source,
}

impl Config {
    /// Loads and checks a configuration.
    ///
    /// # Errors
    ///
    /// Everything that is wrong, at once.
    pub fn load(inputs: &Inputs) -> Result<Self, ConfigError> {
        let mut reader = Reader::new(Layers::collect(inputs));
        reader.value("mode", "snowflake", |text| (text == "snowflake").then_some(()));
        let choice = layout::read(&mut reader);
        let worker = worker::read(&mut reader, &choice.layout, &inputs.host);
        let store = store::read(&mut reader, worker.is_given);
        let issue = issue::read(&mut reader);
        let lease = lease::read(&mut reader);
        let http = http::read(&mut reader);
        let log = log::read(&mut reader);
        // A claim may wait for the lease, and then for its tick.
        let answered = issue.max_wait * 2 < http.request_timeout;
        reader.relate("issue.max_wait", "http.request_timeout", answered, "less than half of");

        let holder = worker.holder.unwrap_or_else(|| inputs.host.holder(http.listen));
        let keeper = KeeperSettings {
            min_worker: *worker.ids.start(),
            max_worker: *worker.ids.end(),
            prefer_previous: worker.prefer_previous,
            issue,
            lease,
            ..KeeperSettings::new(choice.layout.clone(), holder)
        };
        // What takes the place of a bad value must not be held against others.
        let is_bad = ["lease.", "worker."].iter().any(|section| reader.is_bad(section));
        if let (false, Err(violations)) = (is_bad, keeper.check()) {
            for violation in violations.0 {
                reader.violation(violation);
            }
        }
        let effective = effective(&reader, &choice, &keeper);
        let problems = reader.into_problems();
        if problems.is_empty() {
            Ok(Self { keeper, store, http, log, effective })
        } else {
            Err(ConfigError(problems))
        }
    }

    /// Every key with its value and source, without secrets.
    pub fn effective(&self) -> &[EffectiveSetting] {
        &self.effective
    }
}

impl std::fmt::Debug for Config {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // The store's address may hold a password, so only what may be shown is.
        f.debug_list().entries(&self.effective).finish()
    }
}

fn effective(
    reader: &Reader,
    choice: &LayoutChoice,
    keeper: &KeeperSettings,
) -> Vec<EffectiveSetting> {
    let setting = |key: &Key| {
        let (mut value, mut source) = reader.shown(key.name);
        if let Some(resolved) = resolved(key.name, choice, keeper) {
            value = resolved;
            let preset = choice.preset.filter(|_| key.name.starts_with("layout."));
            if let (Source::Default, Some(preset)) = (&source, preset)
                && reader.is_given("layout.preset")
            {
                source = Source::Preset(preset.name());
            }
        }
        EffectiveSetting { key: key.name, value, source }
    };
    KEYS.iter().map(setting).collect()
}

/// The value of a key whose default depends on others.
fn resolved(key: &str, choice: &LayoutChoice, keeper: &KeeperSettings) -> Option<String> {
    let layout = &choice.layout;
    let widths = layout.widths();
    let number = match key {
        "layout.preset" => return Some(choice.preset.map(|p| p.name().into()).unwrap_or_default()),
        "layout.time_unit" => return Some(layout.unit().name().into()),
        "layout.epoch" => return Some(format_unix_ms_short(layout.epoch_ms())),
        "worker.holder" => return Some(keeper.holder.clone()),
        "layout.timestamp_bits" => widths.timestamp.into(),
        "layout.worker_bits" => widths.worker.into(),
        "layout.data_center_bits" => widths.data_center.into(),
        "layout.data_center" => layout.data_center(),
        "layout.rollback_bits" => widths.rollback.into(),
        "layout.rollback_initial" => layout.rollback_initial().into(),
        "layout.reserved_bits" => widths.reserved.into(),
        "layout.reserved_value" => layout.reserved(),
        "layout.min_sequence" => layout.min_sequence(),
        "layout.max_sequence" => layout.max_sequence(),
        "worker.min_id" => keeper.min_worker,
        "worker.max_id" => keeper.max_worker,
        _ => return None,
    };
    Some(number.to_string())
}
