//! A setting that is out of range, in words a person can act on.

use std::fmt;

/// One setting that cannot be used: its key, its value and what is allowed.
#[derive(Clone, Debug, PartialEq, Eq)]
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

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} = {}: must be {}", self.key, self.value, self.allowed)
    }
}

/// Every violation that was found; never empty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violations(pub Vec<Violation>);

impl fmt::Display for Violations {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, violation) in self.0.iter().enumerate() {
            if index > 0 {
                f.write_str("; ")?;
            }
            violation.fmt(f)?;
        }
        Ok(())
    }
}

impl std::error::Error for Violations {}
