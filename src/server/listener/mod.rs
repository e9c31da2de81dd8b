//! Accepts connections, bounds them, serves them with hyper, and ends them at a stop.
//!
//! Three parts let the service survive a flood. `places` bounds the connections of each address and
//! of all; when its places are used up, `open` evicts connections that wait for their clients, and
//! a few spare places keep probes and scrapes working. `activity` records what each connection
//! does, and `open` ends stalled and idle ones. `stream`, `versioned_stream` and `heads` bound the
//! memory of one connection.
//!
//! Routes and callers are not known here: the gate (`layers::gate`) reports admitted requests back
//! through [`Connection`]. Dropping the future of [`Server::run`] ends every connection at once.
//! Tests: tests/http/connection_limits.rs, connections.rs and unread.rs, and tests/faults/overload.

mod activity;
mod connection;
mod heads;
mod http2;
mod open;
mod places;
mod stream;
mod tls;
mod versioned_stream;

use std::{io, sync::Arc, time::Duration};

use axum::Router;
use tokio::{
    net::TcpListener,
    sync::watch,
    task::{JoinSet, unconstrained, yield_now},
    time::sleep,
};

pub use self::tls::TlsError;
use self::{activity::Activity, connection::became_true, open::OpenConnections, stream::Buffers};
pub(super) use self::{
    connection::Connection,
    heads::HeadBudget,
    places::{NoPlace, PerAddress, SPARE_PLACES},
    tls::Tls,
};
use super::{
    metrics::{Connections, Dropped},
    response::UnsentBudget,
};

/// The most connections that are accepted in a row before other tasks run.
const ACCEPTED_AT_A_TIME: u32 = 512;

/// A listener: the settings of its connections, and the router that answers their requests.
#[derive(Debug)]
pub(super) struct Server {
    pub(super) router: Router,
    pub(super) tls: Option<Arc<Tls>>,
    pub(super) max_connections: usize,
    pub(super) per_address: Arc<PerAddress>,
    pub(super) idle_timeout: Duration,
    pub(super) unsent_budget: UnsentBudget,
    /// Bounds the memory of decoded heads of HTTP/2.
    pub(super) head_budget: HeadBudget,
    /// True once the service drains: responses then tell clients to use another connection.
    pub(super) draining: watch::Receiver<bool>,
    pub(super) metrics: Connections,
}

impl Server {
    /// Accepts connections until `stop` becomes true, then lets open requests end.
    pub(super) async fn run(self, listener: TcpListener, stop: watch::Receiver<bool>) {
        let server = Arc::new(self);
        let mut connections = JoinSet::new();
        let mut open = OpenConnections::new(&server);
        let accepting = server.accept_all(&listener, &mut connections, &mut open, &stop);
        tokio::select! {
            biased;
            () = became_true(stop.clone()) => {}
            // Outside tokio's budget, because the loop yields explicitly. Within the budget,
            // thousands of busy connections would delay the loop so long that the kernel's accept
            // queue fills up.
            () = unconstrained(accepting) => {}
        }
        drop(listener);
        open.stop();
        loop {
            tokio::select! {
                ended = connections.join_next() => if ended.is_none() { return },
                never = open.cut_off_slow() => never,
            }
        }
    }

    async fn accept_all(
        self: &Arc<Self>,
        listener: &TcpListener,
        connections: &mut JoinSet<()>,
        open: &mut OpenConnections,
        stop: &watch::Receiver<bool>,
    ) {
        let places = Arc::clone(&open.places);
        let mut buffers = Buffers::new(listener, self.unsent_budget.size());
        let mut in_a_row = 0;
        loop {
            if in_a_row == ACCEPTED_AT_A_TIME {
                in_a_row = 0;
                yield_now().await;
            }
            let (stream, peer) = tokio::select! {
                never = open.cut_off_slow() => never,
                // The result of an ended task takes memory until it is joined.
                Some(_) = connections.join_next() => continue,
                accepted = listener.accept() => match accepted {
                    Ok(accepted) => accepted,
                    Err(error) if is_of_one_connection(&error) => continue,
                    Err(error) => {
                        tracing::error!(%error, "accept failed");
                        // Most likely the process has no free file descriptor: retrying at once
                        // would spin.
                        open.make_room();
                        sleep(Duration::from_secs(1)).await;
                        continue;
                    }
                },
            };
            in_a_row += 1;
            let Ok(of_address) = self.per_address.begin(peer.ip()) else {
                self.metrics.dropped(Dropped::Address);
                stream::discard_unsent(&stream);
                continue;
            };
            let place = places.take(|| open.make_room()).await;
            buffers.adapt(listener, places.taken());
            let activity = Arc::new(Activity::new(open.clock.clone()));
            let connection = Connection::new(Arc::clone(self), Arc::clone(&activity), place, peer);
            let stop = stop.clone();
            let task = connections.spawn(async move {
                let _of_address = of_address;
                connection.run(stream, stop).await;
            });
            open.add(activity, task);
        }
    }
}

fn is_of_one_connection(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset};
    matches!(error.kind(), ConnectionAborted | ConnectionRefused | ConnectionReset)
}
