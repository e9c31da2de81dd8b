//! The configuration: defaults < file < `.env` < environment < flags.
//!
//! [`Config::load`] reads each key separately and continues after a bad one, so that it reports all
//! problems together, each with key, value, source and allowed range. A new key is a line in the
//! key table (`keys`), and a field and a line where its section is read; CONTRIBUTING lists its
//! tests and pages. Every namespace is read by the same functions, from its own keys and the
//! top-level keys that it inherits. No error and no output quotes a secret. The file of tokens and
//! the TLS files are read later, by the modules that use them.

mod code_entries;
mod codes;
mod dot_env;
mod duration;
mod equal_texts;
mod form;
mod keys;
mod layers;
mod layout;
mod namespace;
mod problem;
mod reader;
mod schema;
mod secret;
mod service;
mod size;
pub(crate) mod small_file;
mod spelling;
mod store;
#[cfg(test)]
mod tests;
mod value;
mod worker;

use std::path::PathBuf;

pub use self::{
    codes::{CodeConfig, Codes, LocatedCode, LocatedText, SERIES_IS_CONFIGURED, WrongNamespace},
    equal_texts::{EqualTexts, FirstOf},
    form::Form,
    keys::{KEYS, Key},
    layers::{FlagValue, Inputs},
    namespace::{Mode, NamespaceConfig},
    problem::{ConfigError, ConfigProblem},
    reader::EffectiveSetting,
    service::{CorsOrigins, HttpConfig, HttpTls, LogConfig, LogFormat, LoggedRequests},
    worker::Host,
};
pub(crate) use self::{
    duration::{FORM as DURATION_FORM, format as format_duration, parse as parse_duration},
    layers::read_toml,
    reader::{DEFAULT, Reader},
    schema::schema,
    secret::{TOKEN_PREFIX, mask_tokens, percent_encode},
    service::LOG_LEVELS,
};
use crate::{
    core::{namespace::DEFAULT_NAMESPACE, preset::foreign::ForeignLayout},
    keeper::{KeeperSettings, SegmentSettings},
    store::StoreSettings,
};

/// A checked configuration.
#[derive(Clone, Debug)]
pub struct Config {
    /// Every namespace: `default` first, the others by name.
    pub namespaces: Vec<NamespaceConfig>,
    /// The codes that are bound to a namespace or have a prefix.
    pub codes: Codes,
    /// Configured layouts of other systems, whose IDs can be read.
    pub layouts: Vec<ForeignLayout>,
    /// The store of worker ids and segments.
    pub store: StoreSettings,
    /// The state file, which keeps leases for the next process; `None` if there is none.
    pub state_file: Option<PathBuf>,
    /// The HTTP service.
    pub http: HttpConfig,
    /// The file of tokens; `None` disables authentication.
    pub tokens_file: Option<PathBuf>,
    /// Logging.
    pub log: LogConfig,
    /// Every key with its value and source, without secrets.
    pub effective: Vec<EffectiveSetting>,
    /// Consequences of the settings that users may not expect, a sentence each.
    pub notes: Vec<String>,
    /// Codes whose IDs may have equal texts.
    pub equal_texts: Vec<EqualTexts>,
    /// The `.env` file, if it set anything.
    pub dot_env: Option<PathBuf>,
}

impl Config {
    /// Loads and checks a configuration.
    ///
    /// # Errors
    ///
    /// Every problem at once.
    pub fn load(inputs: &Inputs) -> Result<Self, ConfigError> {
        let mut reader = Reader::of(inputs);
        let http = service::read_http(&mut reader);
        let tokens_file = service::read_tokens_file(&mut reader);
        let log = service::read_log(&mut reader);
        let names = reader.namespace_names();
        let read = |name: &String| namespace::read(&mut reader, name, &inputs.host, &http);
        let mut namespaces: Vec<_> = names.iter().map(read).collect();
        let codes = code_entries::read(&mut reader, &mut namespaces);
        let namespaces: Vec<_> = namespaces.into_iter().map(|read| read.config).collect();
        let layouts = layout::read_foreign(&mut reader);
        let store = store::read(&mut reader, &namespaces);
        let state_file = store::read_state_file(&mut reader, &store, &namespaces);
        let Reader { effective, problems, mut notes, equal_texts, dot_env, .. } = reader;
        if !problems.is_empty() {
            return Err(ConfigError(problems));
        }
        notes.extend(unlisted_codes(&namespaces));
        Ok(Self {
            namespaces,
            codes,
            layouts,
            store,
            state_file,
            http,
            tokens_file,
            log,
            effective,
            notes,
            equal_texts,
            dot_env,
        })
    }

    /// Reads the lease settings of `default` from flags and defaults only, for `raindrop plan`.
    pub(crate) fn plan(flags: Vec<FlagValue>) -> Result<KeeperSettings, ConfigError> {
        let inputs = Inputs { flags, ..Inputs::default() };
        let mut reader = Reader::of(&inputs);
        let http = service::read_http(&mut reader);
        let planned = namespace::read(&mut reader, DEFAULT_NAMESPACE, &inputs.host, &http);
        match planned.config.mode {
            Mode::Snowflake { keeper, .. } if reader.problems.is_empty() => Ok(keeper),
            _ => Err(ConfigError(reader.problems)),
        }
    }

    /// Returns the lease settings of each namespace that leases worker ids, `default` first.
    pub fn keepers(&self) -> impl Iterator<Item = &KeeperSettings> {
        self.namespaces.iter().filter_map(|namespace| match &namespace.mode {
            Mode::Snowflake { keeper, .. } => Some(keeper),
            Mode::Segment { .. } => None,
        })
    }

    /// Returns the settings of each segment namespace.
    pub fn segments(&self) -> impl Iterator<Item = &SegmentSettings> {
        self.namespaces.iter().filter_map(|namespace| match &namespace.mode {
            Mode::Snowflake { .. } => None,
            Mode::Segment { keeper } => Some(keeper),
        })
    }
}

/// Returns a note about codes that are not configured. If there are segment namespaces, but
/// `default` issues by time, a user may expect such a code to be counted.
fn unlisted_codes(namespaces: &[NamespaceConfig]) -> Option<String> {
    let is_segment = |namespace: &&NamespaceConfig| matches!(namespace.mode, Mode::Segment { .. });
    let counting: Vec<&str> =
        namespaces.iter().filter(is_segment).map(|namespace| namespace.name.as_str()).collect();
    let Mode::Snowflake { keeper, .. } = &namespaces.first()?.mode else { return None };
    if counting.is_empty() || keeper.issue.codes_allow.is_some() {
        return None;
    }
    Some(format!(
        "a code without a [[code]] entry belongs to namespace {DEFAULT_NAMESPACE:?}: it gets an ID \
         with a time and not a number of {counting:?}, unless the request has ?namespace=; \
         codes.allow limits the codes of {DEFAULT_NAMESPACE:?}"
    ))
}
