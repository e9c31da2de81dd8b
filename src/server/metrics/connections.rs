//! Counts connections.

use prometheus::{IntCounterVec, IntGauge, Registry};

use super::{counters_by, gauge, http::Counted};
use crate::server::connections::activity::Phase;

/// The metrics of connections; cheap to clone.
#[derive(Clone, Debug)]
pub(in crate::server) struct Connections {
    open: IntGauge,
    dropped: IntCounterVec,
}

impl Connections {
    pub(in crate::server) fn new(registry: &Registry) -> Self {
        Self {
            open: gauge(registry, "raindrop_http_connections", "Open connections of clients."),
            dropped: counters_by(
                registry,
                "raindrop_http_connections_dropped_total",
                "Connections closed by reason: head (request head too slow), stalled (response not \
                 read), room (evicted for a new client).",
                "reason",
                ["head", "stalled", "room"],
            ),
        }
    }

    /// Counts a connection until the result is dropped.
    pub(in crate::server) fn open(&self) -> Counted<'_> {
        Counted::new(&self.open)
    }

    /// A connection was cut off in this phase because its client was too slow. Idle ones are not
    /// counted.
    pub(in crate::server) fn cut_off(&self, phase: Phase) {
        match phase {
            Phase::Head => self.dropped.with_label_values(&["head"]).inc(),
            Phase::Sending => self.dropped.with_label_values(&["stalled"]).inc(),
            Phase::Idle | Phase::Body | Phase::Answering => {}
        }
    }

    /// A connection was evicted.
    pub(in crate::server) fn evicted(&self) {
        self.dropped.with_label_values(&["room"]).inc();
    }
}
