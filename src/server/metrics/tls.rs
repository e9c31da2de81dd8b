//! The metrics of TLS.

use prometheus::{IntCounterVec, IntGauge, Registry};

use super::{counters_by, gauge};

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
                "1 while the certificate files cannot be read again, so that the former certificates \
                 stay in use; else 0.",
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
