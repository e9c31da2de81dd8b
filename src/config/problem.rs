//! Problems of a configuration.

use std::{fmt, path::PathBuf};

use super::source::Source;

/// One problem.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ConfigProblem {
    /// A value that cannot be used.
    Value {
        /// The key.
        key: String,
        /// The value as it was given, without secrets.
        value: String,
        /// Its source.
        source: Source,
        /// What is allowed, as a phrase after "must be".
        allowed: String,
    },
    /// An unknown key. Its value is not kept: it may be a misplaced secret.
    UnknownKey {
        /// The key.
        key: String,
        /// Its source.
        source: Source,
        /// The known keys of its section.
        known: Vec<String>,
    },
    /// An environment variable that differs from a known one in underscores or case only. Its
    /// value is not kept: it may be a secret.
    Misspelled {
        /// The variable.
        source: Source,
        /// Its right spelling.
        right: String,
    },
    /// A file that cannot be used.
    File {
        /// The file.
        path: PathBuf,
        /// Why.
        reason: String,
    },
}

impl fmt::Display for ConfigProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Value { key, value, source, allowed } => {
                write!(f, "{key} = {value} ({source}): must be {allowed}")
            }
            Self::UnknownKey { key, source, known } => {
                write!(f, "{key} ({source}): unknown key; known are {}", known.join(", "))
            }
            Self::Misspelled { source, right } => {
                write!(f, "{source}: misspelled, must be {right}")
            }
            Self::File { path, reason } => write!(f, "{}: {reason}", path.display()),
        }
    }
}

/// Every problem of a configuration; never empty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigError(pub Vec<ConfigProblem>);

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lines: Vec<String> = self.0.iter().map(ToString::to_string).collect();
        f.write_str(&lines.join("\n"))
    }
}

impl std::error::Error for ConfigError {}
