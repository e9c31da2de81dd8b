//! Starts the service, serves, and stops it in order.

use std::{net::SocketAddr, sync::Arc, time::Duration};

use tokio::{net::TcpListener, sync::watch, time::Instant};

use super::{
    config::Config, connections::serve, metrics::Metrics, router::router, state::AppState,
};
use crate::{
    core::{clock::Clock, instant::format_unix_ms_short},
    keeper::{Issuer, Keeper, KeeperError, Released},
    store::{self, Store},
};

/// Without a lease for this long, a log line says why.
const LEASE_EXPECTED_WITHIN: Duration = Duration::from_secs(3);

/// The parts of a service.
#[derive(Debug)]
pub struct Service {
    /// What to serve, and how.
    pub config: Config,
    /// Where; bound before any lease is taken, so that a taken port burns none.
    pub listener: TcpListener,
    /// Where worker ids are leased.
    pub store: Arc<dyn Store>,
    /// The node's clock.
    pub clock: Arc<dyn Clock>,
}

/// Why the service ended by itself.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServeError {
    /// No lease can ever be had as things are.
    #[error(transparent)]
    Keeper(#[from] KeeperError),
    /// The listener cannot be used.
    #[error("the listener cannot be used")]
    Listener(#[source] std::io::Error),
}

impl Service {
    /// Serves until `shutdown` resolves; then drains, gives the lease back and returns within
    /// `http.drain_delay` and `http.shutdown_timeout`.
    ///
    /// # Errors
    ///
    /// When the service cannot go on: the namespace was recorded with another layout, or the
    /// store's tables are not ours.
    pub async fn run(self, shutdown: impl Future<Output = ()> + Send) -> Result<(), ServeError> {
        let Self { config, listener, store, clock } = self;
        let address = listener.local_addr().map_err(ServeError::Listener)?;
        let metrics = Metrics::new();
        let observer = metrics.observer(&config.keeper.namespace);
        let (mut keeper, issuer) =
            Keeper::start(config.keeper.clone(), Arc::clone(&store), Arc::clone(&clock), observer);
        let state = AppState::new([issuer.clone()], config.http.clone(), clock, metrics);
        let state = Arc::new(state);

        let (stop, stopping) = watch::channel(false);
        let router = router(Arc::clone(&state));
        let mut serving = Box::pin(serve(listener, router, config.http.max_connections, stopping));
        let ended = tokio::select! {
            () = &mut serving => unreachable!("serving ends only when it is stopped"),
            error = keeper.failed() => Err(error),
            () = announce_then_pend(&config, address, &issuer) => unreachable!("it pends"),
            () = shutdown => Ok(()),
        };
        state.drain();
        if let Err(error) = ended {
            store.close().await;
            return Err(error.into());
        }

        let drained = tokio::time::timeout(config.http.drain_delay, &mut serving);
        // Serving cannot end here: nobody stopped it yet.
        let _ = drained.await;
        let deadline = Instant::now() + config.http.shutdown_timeout;
        stop.send_replace(true);
        let for_requests = config.http.shutdown_timeout - for_release(&config);
        if tokio::time::timeout(for_requests, &mut serving).await.is_err() {
            tracing::warn!(after = ?for_requests, "requests are still open and are cut off");
        }
        drop(serving);
        let released = keeper.release(deadline.saturating_duration_since(Instant::now())).await;
        let _ = tokio::time::timeout_at(deadline, store.close()).await;
        match released {
            Released::Done => tracing::info!("stopped; the worker id is free"),
            Released::NothingHeld => tracing::info!("stopped; no worker id was held"),
            Released::GaveUp => {
                tracing::warn!("stopped; the worker id comes free after its ttl");
            }
        }
        Ok(())
    }
}

/// The part of the shutdown time-out that is kept for giving the lease back.
fn for_release(config: &Config) -> Duration {
    config.store.timeout.min(config.http.shutdown_timeout / 3)
}

async fn announce_then_pend(config: &Config, address: SocketAddr, issuer: &Issuer) {
    tracing::info!(version = env!("CARGO_PKG_VERSION"), "listening on http://{address}");
    let status = match tokio::time::timeout(LEASE_EXPECTED_WITHIN, issuer.leased()).await {
        Ok(status) => status,
        Err(_) => {
            let trouble = issuer.status().trouble;
            let reason = trouble.map_or_else(|| "no lease yet".into(), |why| why.to_string());
            tracing::warn!("not ready, and trying on: {reason}");
            issuer.leased().await
        }
    };
    if let Some(lease) = status.lease {
        let layout = issuer.layout();
        tracing::info!(
            "serving IDs on http://{address} · store {} · worker {} · lane {} · {} · IDs valid until {}",
            store_words(&config.store.url),
            lease.worker,
            lease.lane,
            layout.words(),
            format_unix_ms_short(layout.valid_until_ms()),
        );
    }
    std::future::pending::<()>().await;
}

/// The store's address without secrets, with the reach of its promise.
fn store_words(url: &str) -> String {
    let shown = store::describe(url);
    if shown.contains("unique") {
        shown
    } else if url.starts_with("sqlite:") {
        format!("{shown} (unique within this file)")
    } else if url == "memory:" {
        format!("{shown} (unique only while nobody else uses this worker id)")
    } else {
        shown
    }
}
