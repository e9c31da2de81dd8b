//! A setting as it may be shown, and where it came from.

use std::{fmt, path::PathBuf};

/// A key of a checked configuration as it may be shown.
#[derive(Clone, Debug)]
pub struct EffectiveSetting {
    /// The key, `namespaces.orders.lease.ttl` for example.
    pub key: String,
    /// Its value without secrets; empty when it is unset.
    pub value: String,
    /// Its source.
    pub source: Source,
}

/// Where a setting came from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// The built-in default.
    Default,
    /// This layout preset.
    Preset(&'static str),
    /// The configuration file.
    File(PathBuf),
    /// This variable in the `.env` file.
    DotEnv(String),
    /// This environment variable.
    Environment(String),
    /// This flag of the command line.
    Flag(&'static str),
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => f.write_str("default"),
            Self::Preset(name) => write!(f, "preset {name}"),
            Self::File(path) => write!(f, "{}", path.display()),
            Self::DotEnv(variable) => write!(f, "{variable} in .env"),
            Self::Environment(variable) => write!(f, "environment variable {variable}"),
            Self::Flag(flag) => f.write_str(flag),
        }
    }
}
