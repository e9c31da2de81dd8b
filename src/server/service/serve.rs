//! The two listeners: the public one, and that of operators.

use std::sync::Arc;

use prometheus::Registry;
use tokio::{net::TcpListener, sync::watch};

use super::router::of_listener;
use crate::server::{
    audience::Listener,
    listener::{PerAddress, SPARE_PLACES, Server, Tls},
    metrics::Connections,
    state::AppState,
};

/// Serves this state on this listener until `stop` turns true, then lets open requests end.
/// Dropping the future ends every connection at once.
///
/// It serves [`router`](crate::server::router()). [`Service::run`](crate::server::Service::run) is this and
/// everything around it.
pub async fn serve(listener: TcpListener, state: Arc<AppState>, stop: watch::Receiver<bool>) {
    serve_clients(listener, state, None, stop).await;
}

/// The same, perhaps with TLS.
pub(super) async fn serve_clients(
    listener: TcpListener,
    state: Arc<AppState>,
    tls: Option<Arc<Tls>>,
    stop: watch::Receiver<bool>,
) {
    let server = Server {
        max_connections: state.max_connections,
        per_address: PerAddress::new(&state.http),
        ..server(&state, Listener::Public, tls, state.metrics.http.connections.clone())
    };
    server.run(listener, stop).await;
}

/// Serves operators on a listener of their own, with a limit of its own, until it is dropped.
pub(super) async fn serve_operators(
    listener: TcpListener,
    state: Arc<AppState>,
    tls: Option<Arc<Tls>>,
) {
    let (_running, never) = watch::channel(false);
    // Nobody counts their connections.
    let metrics = Connections::new(&Registry::new());
    server(&state, Listener::Operators, tls, metrics).run(listener, never).await;
}

fn server(
    state: &Arc<AppState>,
    listener: Listener,
    tls: Option<Arc<Tls>>,
    metrics: Connections,
) -> Server {
    Server {
        router: of_listener(state, listener),
        tls,
        max_connections: SPARE_PLACES,
        per_address: None,
        idle_timeout: state.http.idle_timeout,
        unsent: state.unsent.clone(),
        draining: state.draining.subscribe(),
        metrics,
    }
}
