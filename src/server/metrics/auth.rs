//! Counts requests that were refused for their token.

use prometheus::{IntCounter, Registry};

use super::counters;
use crate::server::{
    auth::INVALID_TOKEN,
    problem::{Problem, ProblemCode},
};

/// Requests that were refused for their token.
pub(in crate::server) struct AuthMetrics {
    missing: IntCounter,
    invalid: IntCounter,
    forbidden: IntCounter,
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

    /// Counts a problem if a token, or the lack of one, is its reason.
    pub(in crate::server) fn count(&self, problem: &Problem) {
        match problem.code() {
            ProblemCode::Forbidden => self.forbidden.inc(),
            ProblemCode::Unauthorized if problem.has_header(INVALID_TOKEN) => self.invalid.inc(),
            ProblemCode::Unauthorized => self.missing.inc(),
            _ => {}
        }
    }
}
