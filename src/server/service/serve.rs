//! The two listeners: the public one, and the one for operators.

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

/// Serves this state on this listener until `stop` becomes true, then lets open requests end.
/// Dropping the future ends every connection at once.
///
/// It serves [`router`](crate::server::router()), without keepers, TLS and the admin listener:
/// [`Service::run`](crate::server::Service::run) has those.
pub async fn serve(listener: TcpListener, state: Arc<AppState>, stop: watch::Receiver<bool>) {
    server(&state, Listener::Public, None).run(listener, stop).await;
}

/// Returns the server of a listener, with TLS if it is given.
pub(super) fn server(state: &Arc<AppState>, listener: Listener, tls: Option<Arc<Tls>>) -> Server {
    let (max_connections, per_address, metrics) = match listener {
        Listener::Public => {
            let metrics = state.metrics.http.connections.clone();
            (state.max_connections, PerAddress::new(&state.http), metrics)
        }
        // The connections of operators are not exported as metrics.
        Listener::Operators => {
            (SPARE_PLACES, PerAddress::default(), Connections::new(&Registry::new()))
        }
    };
    Server {
        router: of_listener(state, listener),
        tls,
        max_connections,
        per_address: per_address.into(),
        idle_timeout: state.http.idle_timeout,
        unsent_budget: state.unsent_budget.clone(),
        head_budget: state.head_budget.clone(),
        draining: state.draining.subscribe(),
        metrics,
    }
}
