//! The configuration: defaults < file < `.env` < environment < flags.
//!
//! [`Config::load`] reads each key by itself and goes on after a bad one, so that every problem
//! is reported together. A new key is one line in the key table and one in its section's file.
//! Each namespace is read by the same sections, from its own keys and those it inherits.

mod auth;
mod code_entries;
mod codes;
mod duration;
mod host;
mod http;
mod issue;
mod keys;
mod layers;
mod layout;
mod lease;
mod log;
mod names;
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
    secret::hide_password,
    source::Source,
};
pub(crate) use self::{
    duration::{FORM as DURATION_FORM, parse as parse_duration},
    layers::{read_toml, text_of},
    secret::percent_encode,
};
use self::{layers::Layers, reader::Reader};
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
    /// Where worker ids are leased.
    pub store: StoreSettings,
    /// How requests are served.
    pub http: HttpConfig,
    /// Who may send requests.
    pub auth: AuthConfig,
    /// How much is logged.
    pub log: LogConfig,
    effective: Vec<EffectiveSetting>,
}

/// One key of a checked configuration as it may be shown.
#[derive(Clone, Debug)]
pub struct EffectiveSetting {
    /// The key, `namespaces.orders.lease.ttl` for example.
    pub key: String,
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
        let http = http::read(&mut reader);
        let auth = auth::read(&mut reader);
        let log = log::read(&mut reader);
        let mut namespaces = vec![namespace::read(&mut reader, None, &inputs.host, &http)];
        for name in reader.namespaces() {
            namespaces.push(namespace::read(&mut reader, Some(&name), &inputs.host, &http));
        }
        let store = store::read(&mut reader, &namespaces);
        let mut of_codes = Vec::new();
        let codes = code_entries::read(&mut reader, &mut namespaces, &mut of_codes);
        let mut effective = Vec::new();
        let namespaces: Vec<NamespaceConfig> = namespaces
            .into_iter()
            .map(|namespace| {
                effective.extend(namespace.effective);
                namespace.config
            })
            .collect();
        effective.extend(of_codes);
        let problems = reader.into_problems();
        if problems.is_empty() {
            Ok(Self { namespaces, codes, store, http, auth, log, effective })
        } else {
            Err(ConfigError(problems))
        }
    }

    /// The namespace of this name.
    pub fn namespace(&self, name: &str) -> Option<&NamespaceConfig> {
        self.namespaces.iter().find(|namespace| namespace.name == name)
    }

    /// What the namespace of this name leases, if it leases worker ids.
    pub fn keeper(&self, name: &str) -> Option<&KeeperSettings> {
        self.keepers().find(|keeper| keeper.namespace == name)
    }

    /// What each namespace leases that leases worker ids, `default` first.
    pub fn keepers(&self) -> impl Iterator<Item = &KeeperSettings> {
        self.namespaces.iter().filter_map(|namespace| match &namespace.mode {
            Mode::Snowflake { keeper, .. } => Some(keeper),
            Mode::Segment { .. } => None,
        })
    }

    /// What each namespace counts that counts.
    pub fn segments(&self) -> impl Iterator<Item = &SegmentSettings> {
        self.namespaces.iter().filter_map(|namespace| match &namespace.mode {
            Mode::Snowflake { .. } => None,
            Mode::Segment { keeper } => Some(keeper),
        })
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
