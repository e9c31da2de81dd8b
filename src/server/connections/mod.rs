//! Accepts connections and ends them: gracefully first, and all of them at a deadline.

pub(super) mod activity;
mod eviction;

use std::{convert::Infallible, io, sync::Arc, time::Duration};

use hyper::{
    Request,
    body::{Body, Incoming},
    server::conn::http1,
    service::service_fn,
};
use hyper_util::rt::TokioIo;
use prometheus::Registry;
use tokio::{
    net::{TcpListener, TcpStream},
    sync::{OwnedSemaphorePermit, Semaphore, watch},
    task::JoinSet,
    time::{Instant, interval_at, timeout},
};

use self::{
    activity::{CoarseClock, ConnectionActivity, Phase, TICK, TimedStream},
    eviction::OpenConnections,
};
use super::{
    client_address::Peer,
    metrics::{Connections, Counted},
    pipeline::Pipeline,
    state::AppState,
};

/// The longest head of a request; a longer one is answered 431.
const LARGEST_HEAD: usize = 16 * 1024;

/// How long to wait between attempts to evict a connection.
const EVICT_AGAIN: Duration = Duration::from_millis(10);

/// Enough for probes, scrapes and people.
const ADMIN_CONNECTIONS: usize = 64;

/// Serves this state on this listener until `stop` turns true, then lets open requests end.
/// Dropping the future ends every connection at once.
///
/// Same responses as [`router`](super::router()), without the cost of a router.
/// [`Service::run`](super::Service::run) is this and everything around it.
pub async fn serve(listener: TcpListener, state: Arc<AppState>, stop: watch::Receiver<bool>) {
    let metrics = state.metrics.http.connections.clone();
    let max_connections = state.http.max_connections;
    let pipeline = Arc::new(Pipeline::new(state, false));
    Server { pipeline, max_connections, metrics }.run(listener, stop).await;
}

/// Serves operators on a listener of their own, with a limit of its own, until it is dropped.
pub(super) async fn serve_admin(listener: TcpListener, state: Arc<AppState>) {
    let (_running, never) = watch::channel(false);
    // Nobody counts them.
    let metrics = Connections::new(&Registry::new());
    let pipeline = Arc::new(Pipeline::new(state, true));
    Server { pipeline, max_connections: ADMIN_CONNECTIONS, metrics }.run(listener, never).await;
}

struct Server {
    pipeline: Arc<Pipeline>,
    max_connections: usize,
    metrics: Connections,
}

impl Server {
    async fn run(&self, listener: TcpListener, mut stop: watch::Receiver<bool>) {
        let clock = CoarseClock::default();
        // Changes at every tick; true from the stop on.
        let (ticks, _) = watch::channel(false);
        let serving = async {
            let mut connections = JoinSet::new();
            tokio::select! {
                biased;
                () = stopped(&mut stop) => {}
                () = self.accept_all(&listener, &mut connections, &clock, &ticks) => {}
            }
            drop(listener);
            ticks.send_replace(true);
            while connections.join_next().await.is_some() {}
        };
        let ticking = async {
            let mut interval = interval_at(Instant::now() + TICK, TICK);
            loop {
                interval.tick().await;
                clock.tick();
                ticks.send_modify(|_| {});
            }
        };
        tokio::select! {
            () = serving => {}
            () = ticking => {}
        }
    }

    async fn accept_all(
        &self,
        listener: &TcpListener,
        connections: &mut JoinSet<()>,
        clock: &CoarseClock,
        ticks: &watch::Sender<bool>,
    ) {
        let permits = Arc::new(Semaphore::new(self.max_connections));
        let mut open = OpenConnections::default();
        loop {
            let (stream, peer) = self.accept(listener, &mut open).await;
            let permit = self.permit(&permits, &mut open).await;
            while connections.try_join_next().is_some() {}
            let activity = Arc::new(ConnectionActivity::new(clock.clone()));
            let (pipeline, metrics) = (Arc::clone(&self.pipeline), self.metrics.clone());
            let (shared, ticks) = (Arc::clone(&activity), ticks.subscribe());
            let task = connections.spawn(async move {
                let _permit = permit;
                let _open = Counted::new(&metrics.open);
                if let Some(phase) = connection(stream, peer, pipeline, shared, ticks).await {
                    metrics.cut_off(phase);
                }
            });
            open.add(activity, task);
        }
    }

    /// Waits until a connection may be open; further ones wait in the kernel's queue.
    async fn permit(
        &self,
        permits: &Arc<Semaphore>,
        open: &mut OpenConnections,
    ) -> OwnedSemaphorePermit {
        loop {
            if let Ok(permit) = Arc::clone(permits).try_acquire_owned() {
                return permit;
            }
            if open.evict_one() {
                self.metrics.evicted();
            }
            // Connections that are busy now may be idle then; the semaphore is never closed.
            if let Ok(Ok(permit)) = timeout(EVICT_AGAIN, Arc::clone(permits).acquire_owned()).await
            {
                return permit;
            }
        }
    }

    async fn accept(
        &self,
        listener: &TcpListener,
        open: &mut OpenConnections,
    ) -> (TcpStream, Peer) {
        loop {
            match listener.accept().await {
                Ok((stream, peer)) => {
                    if let Err(error) = stream.set_nodelay(true) {
                        tracing::debug!(%error, "cannot set TCP_NODELAY");
                    }
                    return (stream, Peer { address: Some(peer.ip()) });
                }
                Err(error) if is_of_one_connection(&error) => {}
                Err(error) => {
                    tracing::error!(%error, "accept failed");
                    // Most likely no file descriptor is free; trying at once would spin.
                    if open.evict_one() {
                        self.metrics.evicted();
                    }
                    tokio::time::sleep(Duration::from_secs(1)).await;
                }
            }
        }
    }
}

async fn stopped(stop: &mut watch::Receiver<bool>) {
    // Without a sender, only dropping the service stops it.
    if stop.wait_for(|stop| *stop).await.is_err() {
        std::future::pending::<()>().await;
    }
}

fn is_of_one_connection(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset};
    matches!(error.kind(), ConnectionAborted | ConnectionRefused | ConnectionReset)
}

/// Serves a connection to its end. Returns the phase in which it had to be cut off, if it had.
async fn connection(
    stream: TcpStream,
    peer: Peer,
    pipeline: Arc<Pipeline>,
    activity: Arc<ConnectionActivity>,
    mut ticks: watch::Receiver<bool>,
) -> Option<Phase> {
    // Each connection has a reference count of its own, which no other core touches.
    let shared = Arc::new((pipeline, Arc::clone(&activity)));
    let service = service_fn(move |request: Request<Incoming>| {
        let shared = Arc::clone(&shared);
        async move {
            let (pipeline, activity) = &*shared;
            let has_body = !request.body().is_end_stream();
            activity.enter(if has_body { Phase::Body } else { Phase::Answering });
            let answer = pipeline.answer(request, peer, || activity.enter(Phase::Answering)).await;
            if answer.is_authorised {
                activity.had_client_request();
            }
            activity.enter(Phase::Sending);
            Ok::<_, Infallible>(answer.response)
        }
    });
    let connection = http1::Builder::new()
        .header_read_timeout(None)
        .max_header_size(LARGEST_HEAD)
        .serve_connection(TokioIo::new(TimedStream::new(stream, Arc::clone(&activity))), service);
    tokio::pin!(connection);
    loop {
        tokio::select! {
            biased;
            ended = &mut connection => {
                if let Err(error) = ended {
                    tracing::debug!(%error, "connection failed");
                }
                return None;
            }
            // The sender outlives every connection.
            Ok(()) = ticks.changed() => {
                if *ticks.borrow_and_update() {
                    connection.as_mut().graceful_shutdown();
                }
                if let Some(phase) = activity.overdue() {
                    return Some(phase);
                }
            }
        }
    }
}
