//! Counts connections.

use prometheus::{IntCounter, IntGauge, Registry};

use super::{counters, gauge};
use crate::server::connections::activity::TooSlow;

/// The metrics of connections; cheap to clone.
#[derive(Clone, Debug)]
pub(in crate::server) struct Connections {
    open: IntGauge,
    head: IntCounter,
    stalled: IntCounter,
    evicted: IntCounter,
}

impl Connections {
    pub(super) fn new(registry: &Registry) -> Self {
        let dropped = counters(
            registry,
            "raindrop_http_connections_dropped_total",
            "Connections closed by reason: head (request head too slow), stalled (response not \
             read), room (evicted for a new client).",
            &["reason"],
        );
        let dropped = |reason| dropped.with_label_values(&[reason]);
        Self {
            open: gauge(registry, "raindrop_http_connections", "Open connections of clients."),
            head: dropped("head"),
            stalled: dropped("stalled"),
            evicted: dropped("room"),
        }
    }

    /// For connections that nobody counts.
    pub(in crate::server) fn unregistered() -> Self {
        Self::new(&Registry::new())
    }

    /// Counts a connection until it is dropped.
    pub(in crate::server) fn open(&self) -> Open<'_> {
        self.open.inc();
        Open(&self.open)
    }

    /// A connection was cut off because its client was too slow. Idle ones are not counted.
    pub(in crate::server) fn cut_off(&self, slow: TooSlow) {
        match slow {
            TooSlow::Idle => {}
            TooSlow::Head => self.head.inc(),
            TooSlow::Stalled => self.stalled.inc(),
        }
    }

    /// A connection was evicted.
    pub(in crate::server) fn evicted(&self) {
        self.evicted.inc();
    }
}

/// An open connection.
#[derive(Debug)]
pub(in crate::server) struct Open<'a>(&'a IntGauge);

impl Drop for Open<'_> {
    fn drop(&mut self) {
        self.0.dec();
    }
}
