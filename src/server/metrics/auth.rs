//! Counts requests that were refused for who sent them.

use prometheus::{IntCounter, Registry};

use super::counters;

/// Requests that were refused for who sent them, by reason.
pub(in crate::server) struct AuthMetrics {
    /// Without a token.
    pub(in crate::server) missing: IntCounter,
    /// With one that is not known.
    pub(in crate::server) invalid: IntCounter,
    /// With one that may not use the namespace or code.
    pub(in crate::server) forbidden: IntCounter,
}

impl AuthMetrics {
    pub(super) fn new(registry: &Registry) -> Self {
        let refused = counters(
            registry,
            "raindrop_auth_refused_total",
            "Requests refused for their token: missing and invalid with 401, forbidden with 403.",
            &["reason"],
        );
        let of = |reason| refused.with_label_values(&[reason]);
        Self { missing: of("missing"), invalid: of("invalid"), forbidden: of("forbidden") }
    }
}
