//! Problems of a configuration.

use std::path::PathBuf;

use super::secret::mask_tokens;
use crate::core::visible::visible;

/// One problem of a configuration. (`r#source` is the source of a value. Without `r#`, thiserror
/// would take the field for a nested error.)
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConfigProblem {
    /// A value that cannot be used.
    #[error("{key} = {value} ({source}): must be {allowed}")]
    Value {
        /// The key.
        key: String,
        /// The configured value, without secrets.
        value: String,
        /// Its source: a file, a variable or a flag.
        r#source: String,
        /// The allowed values, as a phrase after "must be".
        allowed: String,
    },
    /// An unknown key. The error does not contain the value, which may be a misplaced secret.
    #[error("{key} ({source}): unknown key; known are {}", .known.join(", "))]
    UnknownKey {
        /// The key.
        key: String,
        /// Its source.
        r#source: String,
        /// The known keys of the section.
        known: Vec<&'static str>,
    },
    /// An environment variable that differs from a known one in underscores or case only. The error
    /// does not contain the value, which may be a secret.
    #[error("{source}: misspelled, must be {right}")]
    Misspelled {
        /// The variable.
        r#source: String,
        /// Its right spelling.
        right: String,
    },
    /// Both spellings of a variable are set, to different values. The error does not contain them,
    /// because they may be secrets.
    #[error("{source}: {other} has another value, so which one counts is unknown")]
    GivenTwice {
        /// The variable in its short spelling.
        r#source: String,
        /// The variable in its long spelling.
        other: String,
    },
    /// A variable whose value is not UTF-8. The error does not contain it, because it may be a
    /// secret.
    #[error("{source}: its value must be UTF-8")]
    NotUtf8 {
        /// The variable.
        r#source: String,
    },
    /// A file that cannot be used.
    #[error("{}: {reason}", .path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// Why.
        reason: String,
    },
}

/// Every problem of a configuration; never empty.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}", in_lines(.0))]
pub struct ConfigError(pub Vec<ConfigProblem>);

fn in_lines(problems: &[ConfigProblem]) -> String {
    let line = |problem: &ConfigProblem| visible(&problem.to_string()).into_owned();
    let lines: Vec<String> = problems.iter().map(line).collect();
    mask_tokens(&lines.join("\n")).into_owned()
}
