//! Metrics of tokens and certificates. Labels are names of token-file entries, never tokens.

use prometheus::{IntCounterVec, IntGauge, Opts, Registry};

use super::{counters_by, gauge, set_gauge};
use crate::auth::{Auth, Refusal};

/// The reason of a 403.
pub(in crate::server) const FORBIDDEN: &str = "forbidden";

/// Registers the counter of requests that were refused for their token or certificate.
pub(super) fn refused(registry: &Registry) -> IntCounterVec {
    let [missing, invalid, expired] = Refusal::REASONS;
    counters_by(
        registry,
        "raindrop_auth_refused_total",
        "Requests refused for their token or client certificate: missing, invalid and expired with \
         401, forbidden with 403.",
        "reason",
        [missing, invalid, expired, FORBIDDEN],
    )
}

/// Returns whether tokens are required, and the state of each name in the token file. A name that
/// left the file has no series.
pub(super) fn gauges(auth: Option<&Auth>) -> Registry {
    let registry = Registry::new();
    let required = Opts::new(
        "raindrop_auth_required",
        "1 if requests on the public listener need a token or a client certificate, else 0.",
    );
    set_gauge(&registry, required, if auth.is_some() { 1.0 } else { 0.0 });
    let Some(auth) = auth else { return registry };
    let stale = Opts::new(
        "raindrop_auth_reload_failing",
        "1 while auth.tokens_file cannot be read again, so that its former tokens stay valid; else \
         0.",
    );
    set_gauge(&registry, stale, auth.is_stale().into());
    let by_name = |name: &str, help: &str| super::gauges(&registry, name, help, "name");
    let last_used = by_name(
        "raindrop_token_last_used_timestamp_seconds",
        "When an entry of this name was last used on this node; 0 if it was not since the start.",
    );
    let expires = by_name(
        "raindrop_token_expires_timestamp_seconds",
        "When the last entry of this name expires; no series if one never does.",
    );
    auth.each_name(|name, used_s, expires_s| {
        last_used.with_label_values(&[name]).set(used_s);
        if let Some(expires_s) = expires_s {
            expires.with_label_values(&[name]).set(expires_s);
        }
    });
    registry
}

/// The metrics of TLS on the listeners; registered where TLS is configured.
#[derive(Clone, Debug)]
pub(in crate::server) struct TlsMetrics {
    /// By outcome.
    pub(in crate::server) handshakes: IntCounterVec,
    /// By outcome.
    pub(in crate::server) reloads: IntCounterVec,
    /// Whether the last read failed.
    pub(in crate::server) reload_failing: IntGauge,
    /// In Unix seconds.
    pub(in crate::server) expires: IntGauge,
    /// When the first of the revocation lists expires, in Unix seconds; only if there are lists.
    pub(in crate::server) lists_expire: Option<IntGauge>,
}

impl TlsMetrics {
    pub(super) fn new(registry: &Registry, has_lists: bool) -> Self {
        Self {
            handshakes: counters_by(
                registry,
                "raindrop_tls_handshakes_total",
                "TLS handshakes by outcome: done, failed, timed_out.",
                "outcome",
                ["done", "failed", "timed_out"],
            ),
            reloads: counters_by(
                registry,
                "raindrop_tls_reloads_total",
                "Reloads of changed certificate files by outcome: done, or failed (the previous \
                 certificates stay).",
                "outcome",
                ["done", "failed"],
            ),
            reload_failing: gauge(
                registry,
                "raindrop_tls_reload_failing",
                "1 while the certificate files cannot be read again, so that the former \
                 certificates stay in use; else 0.",
            ),
            expires: gauge(
                registry,
                "raindrop_tls_certificate_expires_timestamp_seconds",
                "When the certificate of the listeners expires.",
            ),
            lists_expire: has_lists.then(|| {
                gauge(
                    registry,
                    "raindrop_tls_client_crl_expires_timestamp_seconds",
                    "When the first of the revocation lists for client certificates expires.",
                )
            }),
        }
    }
}
