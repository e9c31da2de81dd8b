//! The configuration: defaults < file < `.env` < environment < flags.
//!
//! [`Config::load`] reads each key separately and continues after a bad one, so that all problems
//! are reported together. A new key is one line in the key table and one in its section's file.
//! Every namespace is read by the same sections, from its own keys and those that it inherits.

mod auth;
mod code_entries;
mod codes;
mod duration;
mod files;
mod host;
mod http;
mod issue;
mod keys;
mod layers;
mod layout;
mod lease;
mod log;
mod namespace;
mod problem;
mod reader;
mod secret;
mod segment;
mod source;
mod spelling;
mod store;
#[cfg(test)]
mod tests;
mod worker;

use self::reader::Reader;
pub use self::{
    auth::AuthConfig,
    codes::{CodeConfig, Codes, LocatedText, WrongNamespace},
    host::Host,
    http::{CorsOrigins, HttpConfig},
    keys::{KEYS, Key, Scope},
    layers::{FlagValue, Inputs},
    log::{LogConfig, LogFormat},
    namespace::{Mode, NamespaceConfig},
    problem::{ConfigError, ConfigProblem},
    source::{EffectiveSetting, Source},
};
pub(crate) use self::{
    duration::{FORM as DURATION_FORM, parse as parse_duration},
    files::{read_toml, text_of},
    secret::percent_encode,
};
use crate::{
    keeper::{KeeperSettings, SegmentSettings},
    store::StoreSettings,
};

/// A checked configuration.
#[derive(Clone)]
pub struct Config {
    /// Every namespace: `default` first, the others by name.
    pub namespaces: Vec<NamespaceConfig>,
    /// The codes that are bound to a namespace or have a prefix.
    pub codes: Codes,
    /// The store of worker ids and segments.
    pub store: StoreSettings,
    /// The HTTP service.
    pub http: HttpConfig,
    /// Authentication.
    pub auth: AuthConfig,
    /// Logging.
    pub log: LogConfig,
    effective: Vec<EffectiveSetting>,
}

impl Config {
    /// Loads and checks a configuration.
    ///
    /// # Errors
    ///
    /// Every problem at once.
    pub fn load(inputs: &Inputs) -> Result<Self, ConfigError> {
        let mut reader = Reader::of(inputs);
        let http = http::read(&mut reader);
        let auth = auth::read(&mut reader);
        let log = log::read(&mut reader);
        let names = reader.namespace_names();
        let read = |name: &String| namespace::read(&mut reader, name, &inputs.host, &http);
        let mut namespaces: Vec<_> = names.iter().map(read).collect();
        let codes = code_entries::read(&mut reader, &mut namespaces);
        let namespaces: Vec<_> = namespaces.into_iter().map(|read| read.config).collect();
        let store = store::read(&mut reader, &namespaces);
        let effective = reader.finish()?;
        Ok(Self { namespaces, codes, store, http, auth, log, effective })
    }

    /// Returns the namespace of this name.
    pub fn namespace(&self, name: &str) -> Option<&NamespaceConfig> {
        self.namespaces.iter().find(|namespace| namespace.name == name)
    }

    /// Returns the lease settings of the namespace of this name, if it leases worker ids.
    pub fn keeper(&self, name: &str) -> Option<&KeeperSettings> {
        self.keepers().find(|keeper| keeper.namespace == name)
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

    /// Returns every key with its value and source, without secrets.
    pub fn effective(&self) -> &[EffectiveSetting] {
        &self.effective
    }
}

impl std::fmt::Debug for Config {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // The store's address may hold a password; what is shown never does.
        f.debug_list().entries(&self.effective).finish()
    }
}
