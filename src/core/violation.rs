//! A setting that is out of range, in words a person can act on.

/// One setting that cannot be used: its key, its value and what is allowed.
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
    /// Names a setting that cannot be used; `allowed` is a phrase that follows "must be".
    pub fn new(key: impl Into<String>, value: impl ToString, allowed: impl Into<String>) -> Self {
        Self { key: key.into(), value: value.to_string(), allowed: allowed.into() }
    }
}

/// Every violation that was found; never empty.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))]
pub struct Violations(pub Vec<Violation>);
