//! The two listeners: the public one, and that of operators.

use std::sync::Arc;

use prometheus::Registry;
use tokio::{net::TcpListener, sync::watch};

use crate::server::{
    auth::Listener,
    listener::{PerAddress, SPARE_PLACES, Server},
    metrics::Connections,
    router::of_listener,
    state::AppState,
};

/// Serves this state on this listener until `stop` turns true, then lets open requests end.
/// Dropping the future ends every connection at once.
///
/// It serves [`router`](crate::server::router()). [`Service::run`](crate::server::Service::run) is this and
/// everything around it.
pub async fn serve(listener: TcpListener, state: Arc<AppState>, stop: watch::Receiver<bool>) {
    let metrics = state.metrics.http.connections.clone();
    let server = Server {
        router: of_listener(&state, Listener::Public),
        max_connections: state.max_connections,
        per_address: PerAddress::new(&state.http),
        state,
        metrics,
    };
    server.run(listener, stop).await;
}

/// Serves operators on a listener of their own, with a limit of its own, until it is dropped.
pub(in crate::server) async fn serve_admin(listener: TcpListener, state: Arc<AppState>) {
    let (_running, never) = watch::channel(false);
    let server = Server {
        router: of_listener(&state, Listener::Operators),
        max_connections: SPARE_PLACES,
        per_address: None,
        state,
        // Nobody counts them.
        metrics: Connections::new(&Registry::new()),
    };
    server.run(listener, never).await;
}
