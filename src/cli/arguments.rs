//! Flags and values that several commands share.

use std::{path::PathBuf, time::Duration};

use clap::builder::{PossibleValuesParser, TypedValueParser};

use super::{failure::Failure, output};
use crate::{
    config::{
        self, Config, DURATION_FORM, FlagValue, Inputs, Mode, NamespaceConfig, SERIES_IS_CONFIGURED,
    },
    core::{
        code::{CODE_PATTERN, is_valid_code, series_of_name},
        encoding::Encoding,
        instant::parse_unix_ms,
        namespace::{NAMESPACE_PATTERN, is_valid_namespace},
    },
    keeper::{IdempotencyKey, InvalidIdempotencyKey, KeeperSettings},
    server::{NoFields, unknown_namespace},
    store::StoreUrl,
};

/// The heading of these flags in the help of a command.
const GLOBAL: &str = "Global options";

/// Flags of every command that reads the configuration.
#[derive(Debug, Default, clap::Args)]
pub(super) struct Overrides {
    /// The configuration file (TOML).
    #[arg(long, global = true, help_heading = GLOBAL, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Address and port of the service.
    #[arg(long, global = true, help_heading = GLOBAL, value_name = "ADDRESS:PORT")]
    pub(super) listen: Option<String>,
    /// The store of worker ids and segments.
    #[arg(long, global = true, help_heading = GLOBAL, value_name = "URL")]
    pub(super) store_url: Option<String>,
}

impl Overrides {
    /// Loads the configuration with these flags.
    pub(super) fn load(self) -> Result<Config, Failure> {
        if self.store_url.as_deref().is_some_and(has_secret) {
            output::error(
                "--store-url may have a password, and whoever lists the processes of this machine \
                 reads it: store.url_file or store.password_file keeps it",
            );
        }
        let flags = [
            ("--listen", "http.listen", self.listen),
            ("--store-url", "store.url", self.store_url),
        ];
        let flag = |(flag, key, value)| Some(FlagValue { flag, key, value: value? });
        let flags = flags.into_iter().filter_map(flag).collect();
        let config = Config::load(&Inputs { file: self.config, flags, ..Inputs::of_process() })?;
        if let Some(path) = &config.dot_env {
            output::error(&format!("settings from {}", path.display()));
        }
        Ok(config)
    }
}

/// Returns whether an address contains a secret, which is never shown.
fn has_secret(url: &str) -> bool {
    StoreUrl::new(url).to_string() != url
}

/// Returns the namespace with this name.
pub(super) fn namespace_of<'a>(
    config: &'a Config,
    name: &str,
) -> Result<&'a NamespaceConfig, Failure> {
    config.namespaces.iter().find(|namespace| namespace.name == name).ok_or_else(|| {
        let known = config.namespaces.iter().map(|namespace| &namespace.name);
        Failure::Usage(unknown_namespace(name, known))
    })
}

/// Returns the lease settings of a namespace.
pub(super) fn keeper_of<'a>(
    config: &'a Config,
    namespace: &str,
) -> Result<&'a KeeperSettings, Failure> {
    match &namespace_of(config, namespace)?.mode {
        Mode::Snowflake { keeper, .. } => Ok(keeper),
        Mode::Segment { .. } => Err(Failure::usage(NoFields(namespace))),
    }
}

/// Reads the name of a code.
pub(super) fn code(text: &str) -> Result<String, String> {
    match series_of_name(text) {
        Some(_) => Err(SERIES_IS_CONFIGURED.to_owned()),
        None if is_valid_code(text) => Ok(text.to_owned()),
        None => Err(format!("must match {CODE_PATTERN}")),
    }
}

/// Reads an idempotency key.
pub(super) fn idempotency_key(text: &str) -> Result<IdempotencyKey, InvalidIdempotencyKey> {
    IdempotencyKey::new(text)
}

/// Reads the name of a namespace.
pub(super) fn namespace(text: &str) -> Result<String, String> {
    let is_valid = is_valid_namespace(text);
    is_valid.then(|| text.to_owned()).ok_or_else(|| format!("must match {NAMESPACE_PATTERN}"))
}

/// Reads an encoding by its name.
pub(super) fn encodings() -> impl TypedValueParser<Value = Encoding> {
    PossibleValuesParser::new(Encoding::ALL.map(Encoding::name))
        .map(|name| Encoding::by_name(&name).expect("a possible value"))
}

/// Reads a duration above zero.
pub(super) fn duration(text: &str) -> Result<Duration, String> {
    let duration = config::parse_duration(text).filter(|duration| !duration.is_zero());
    duration.ok_or_else(|| format!("must be {DURATION_FORM}"))
}

/// Reads an instant as Unix milliseconds.
pub(super) fn instant(text: &str) -> Result<i64, String> {
    let form = || "must be an RFC 3339 instant such as 2020-02-29T12:00:00Z".to_owned();
    parse_unix_ms(text).ok_or_else(form)
}
