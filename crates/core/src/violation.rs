//! Settings that are out of range, with the range that is allowed.

/// A setting that cannot be used: its key, its value and what is allowed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{key} = {value}: must be {allowed}")]
pub struct Violation {
    /// The configuration key, `layout.worker_bits` for example.
    pub key: String,
    /// The value in the configuration.
    pub value: String,
    /// The allowed values, as a phrase that follows "must be".
    pub allowed: String,
}

impl Violation {
    /// Makes a violation; `allowed` is a phrase that follows "must be".
    pub fn new(key: impl Into<String>, value: impl ToString, allowed: impl Into<String>) -> Self {
        Self { key: key.into(), value: value.to_string(), allowed: allowed.into() }
    }
}

/// All violations at once; never empty.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))]
pub struct Violations(pub Vec<Violation>);
