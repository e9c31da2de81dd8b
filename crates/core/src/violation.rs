//! Settings that are out of range, in words that a person can act on.

/// A setting that cannot be used: its key, its value and what is allowed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{key} = {value}: must be {allowed}")]
pub struct Violation {
    /// The configuration key, `layout.worker_bits` for example.
    pub key: String,
    /// The value as it was given.
    pub value: String,
    /// What is allowed, as a phrase that follows "must be".
    pub allowed: String,
}

impl Violation {
    /// Makes a violation; `allowed` is a phrase that follows "must be".
    pub fn new(key: impl Into<String>, value: impl ToString, allowed: impl Into<String>) -> Self {
        Self { key: key.into(), value: value.to_string(), allowed: allowed.into() }
    }
}

/// All violations that were found; never empty.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))]
pub struct Violations(pub Vec<Violation>);
