//! The metrics of TLS.

use prometheus::{IntCounterVec, IntGauge, Registry};

use super::{counters_by, gauge};

/// The metrics of TLS on the listeners; registered where TLS is configured.
#[derive(Clone, Debug)]
pub(in crate::server) struct TlsMetrics {
    handshakes: IntCounterVec,
    reloads: IntCounterVec,
    expires: IntGauge,
}

impl TlsMetrics {
    pub(super) fn new(registry: &Registry) -> Self {
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
            expires: gauge(
                registry,
                "raindrop_tls_certificate_expires_timestamp_seconds",
                "When the certificate of the listeners expires.",
            ),
        }
    }

    pub(in crate::server) fn handshake(&self, outcome: &str) {
        self.handshakes.with_label_values(&[outcome]).inc();
    }

    pub(in crate::server) fn reload(&self, outcome: &str) {
        self.reloads.with_label_values(&[outcome]).inc();
    }

    pub(in crate::server) fn expires(&self, unix_seconds: u64) {
        self.expires.set(i64::try_from(unix_seconds).unwrap_or(i64::MAX));
    }
}
