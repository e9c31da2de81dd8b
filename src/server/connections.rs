//! Accepts connections and ends them: gracefully first, and all of them at a deadline.

use std::{convert::Infallible, io, sync::Arc, time::Duration};

use hyper::{
    Request,
    body::{Body, Incoming},
    server::conn::http1,
    service::service_fn,
};
use hyper_util::rt::TokioIo;
use tokio::{
    net::{TcpListener, TcpStream},
    sync::{OwnedSemaphorePermit, Semaphore, watch},
    task::JoinSet,
    time::{Instant, interval_at, timeout},
};

use super::{
    front::Front,
    metrics::Connections,
    pace::{BEAT, Heart, Pace, Paced, TooSlow},
    places::Places,
    state::AppState,
};

/// The longest head of a request; a longer one is answered 431.
const LARGEST_HEAD: usize = 16 * 1024;

/// When every place is taken: after which time it is looked again who gives way.
const LOOK_AGAIN: Duration = Duration::from_millis(10);

/// Enough for probes, scrapes and people.
const ADMIN_CONNECTIONS: usize = 64;

/// Serves this state on this listener until `stop` turns true, then lets open requests end.
/// Dropping the future ends every connection at once.
///
/// It answers as [`router`](super::router()) does, and issues IDs for a part of what that takes.
/// [`Service::run`](super::Service::run) is this and everything around it.
pub async fn serve(listener: TcpListener, state: Arc<AppState>, stop: watch::Receiver<bool>) {
    let metrics = state.metrics.http.connections.clone();
    let max_connections = state.http.max_connections;
    Server { front: Front::new(state), max_connections, metrics }.run(listener, stop).await;
}

/// Serves what operators ask for on a listener of its own, with a bound of its own, until it is
/// dropped.
pub(super) async fn serve_admin(listener: TcpListener, state: Arc<AppState>) {
    let (_running, never) = watch::channel(false);
    let metrics = Connections::unregistered();
    let front = Front::admin(state);
    Server { front, max_connections: ADMIN_CONNECTIONS, metrics }.run(listener, never).await;
}

struct Server {
    front: Front,
    max_connections: usize,
    metrics: Connections,
}

impl Server {
    async fn run(&self, listener: TcpListener, mut stop: watch::Receiver<bool>) {
        let beats = Heart::default();
        // Told at every beat; true from the stop on.
        let (heart, _) = watch::channel(false);
        let serving = async {
            let mut connections = JoinSet::new();
            tokio::select! {
                biased;
                () = stopped(&mut stop) => {}
                () = self.accept_all(&listener, &mut connections, &beats, &heart) => {}
            }
            drop(listener);
            heart.send_replace(true);
            while connections.join_next().await.is_some() {}
        };
        let beating = async {
            let mut beat = interval_at(Instant::now() + BEAT, BEAT);
            loop {
                beat.tick().await;
                beats.beat();
                heart.send_modify(|_| {});
            }
        };
        tokio::select! {
            () = serving => {}
            () = beating => {}
        }
    }

    async fn accept_all(
        &self,
        listener: &TcpListener,
        connections: &mut JoinSet<()>,
        beats: &Heart,
        heart: &watch::Sender<bool>,
    ) {
        let permits = Arc::new(Semaphore::new(self.max_connections));
        let mut places = Places::default();
        loop {
            let stream = self.accept(listener, &mut places).await;
            let permit = self.place(&permits, &mut places).await;
            while connections.try_join_next().is_some() {}
            let pace = Arc::new(Pace::new(beats.clone()));
            let (front, metrics) = (self.front.clone(), self.metrics.clone());
            let (shared, told) = (Arc::clone(&pace), heart.subscribe());
            let task = connections.spawn(async move {
                let _permit = permit;
                let _open = metrics.open();
                if let Some(slow) = connection(stream, front, shared, told).await {
                    metrics.cut_off(slow);
                }
            });
            places.take(pace, task);
        }
    }

    /// A place for a connection; the others wait in the kernel's queue meanwhile.
    async fn place(&self, permits: &Arc<Semaphore>, places: &mut Places) -> OwnedSemaphorePermit {
        loop {
            if let Ok(permit) = Arc::clone(permits).try_acquire_owned() {
                return permit;
            }
            if places.make_room() {
                self.metrics.made_room();
            }
            // Who is at work now may be idle then, and the semaphore is never closed.
            if let Ok(Ok(permit)) = timeout(LOOK_AGAIN, Arc::clone(permits).acquire_owned()).await {
                return permit;
            }
        }
    }

    async fn accept(&self, listener: &TcpListener, places: &mut Places) -> TcpStream {
        loop {
            match listener.accept().await {
                Ok((stream, _)) => {
                    if let Err(error) = stream.set_nodelay(true) {
                        tracing::debug!(%error, "TCP_NODELAY cannot be set");
                    }
                    return stream;
                }
                Err(error) if is_of_one_connection(&error) => {}
                Err(error) => {
                    tracing::error!(%error, "no connection can be accepted");
                    // Most likely no file descriptor is free; trying at once would spin.
                    if places.make_room() {
                        self.metrics.made_room();
                    }
                    tokio::time::sleep(Duration::from_secs(1)).await;
                }
            }
        }
    }
}

async fn stopped(stop: &mut watch::Receiver<bool>) {
    // A dropped sender means that nobody can stop the service any more but by dropping it.
    if stop.wait_for(|stop| *stop).await.is_err() {
        std::future::pending::<()>().await;
    }
}

fn is_of_one_connection(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset};
    matches!(error.kind(), ConnectionAborted | ConnectionRefused | ConnectionReset)
}

/// Serves a connection to its end: says so if it had to be cut off.
async fn connection(
    stream: TcpStream,
    front: Front,
    pace: Arc<Pace>,
    mut beats: watch::Receiver<bool>,
) -> Option<TooSlow> {
    // Requests count their references to it in memory that no other connection touches.
    let shared = Arc::new((front, Arc::clone(&pace)));
    let service = service_fn(move |mut request: Request<Incoming>| {
        let shared = Arc::clone(&shared);
        async move {
            let (front, pace) = &*shared;
            if request.body().is_end_stream() {
                pace.answering();
            } else {
                pace.reading_body();
                request.extensions_mut().insert(Arc::clone(pace));
            }
            let answer = front.answer(request).await;
            if front.is_for_client(&answer) {
                pace.asked();
            }
            pace.sending();
            Ok::<_, Infallible>(answer)
        }
    });
    let connection = http1::Builder::new()
        .header_read_timeout(None)
        .max_header_size(LARGEST_HEAD)
        .serve_connection(TokioIo::new(Paced::new(stream, Arc::clone(&pace))), service);
    tokio::pin!(connection);
    loop {
        tokio::select! {
            biased;
            ended = &mut connection => {
                if let Err(error) = ended {
                    tracing::debug!(%error, "a connection ended with an error");
                }
                return None;
            }
            // The sender outlives every connection.
            Ok(()) = beats.changed() => {
                if *beats.borrow_and_update() {
                    connection.as_mut().graceful_shutdown();
                }
                if let Some(slow) = pace.too_slow() {
                    return Some(slow);
                }
            }
        }
    }
}
