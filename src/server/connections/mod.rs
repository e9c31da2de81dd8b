//! Accepts connections and ends them: gracefully first, and all of them at a deadline.

pub(super) mod activity;
mod eviction;
mod output;
mod per_address;
mod places;
mod socket;
mod stream;

use std::{
    convert::Infallible,
    future::poll_fn,
    io, mem,
    net::SocketAddr,
    pin::{Pin, pin},
    sync::Arc,
    task::{Context, Poll, ready},
    time::Duration,
};

use axum::{
    Router,
    body::{Body, Bytes, HttpBody},
    extract::ConnectInfo,
    http::{HeaderMap, HeaderValue, Version, header},
};
use hyper::{
    Request,
    body::{Frame, Incoming, SizeHint},
    server::conn::http1,
    service::service_fn,
};
use hyper_util::rt::TokioIo;
use prometheus::Registry;
use tokio::{
    io::{AsyncRead, AsyncWrite, AsyncWriteExt, copy, sink},
    net::{TcpListener, TcpStream},
    sync::{Mutex, watch},
    task::{JoinSet, unconstrained},
    time::{Instant, sleep, sleep_until, timeout},
};
use tower::Service as _;

use self::{
    activity::{CoarseClock, ConnectionActivity, Phase},
    eviction::OpenConnections,
    output::Output,
    per_address::{PerAddress, TooMany},
    places::{Place, Places, SPARE_PLACES},
    socket::Buffers,
    stream::TimedStream,
};
use super::{
    metrics::Connections,
    router::{self, Listener},
    state::AppState,
    tls::TlsClient,
};

/// The longest head of a request; a longer one is answered 431. A connection reads no more at a
/// time, so that many connections take little memory.
const LARGEST_HEAD: usize = 16 * 1024;

/// How often slow readers are evicted while memory for responses is scarce.
const RELIEVE_AGAIN: Duration = Duration::from_millis(100);

/// The answer to the preface of HTTP/2: SETTINGS, and RST_STREAM with `HTTP_1_1_REQUIRED` (RFC 9113)
/// for the client's first stream. curl then repeats the request over HTTP/1.1.
const HTTP_1_1_REQUIRED: [u8; 22] =
    [0, 0, 0, 4, 0, 0, 0, 0, 0, 0, 0, 4, 3, 0, 0, 0, 0, 1, 0, 0, 0, 13];

/// How long a client of HTTP/2 has to close first.
const HTTP2_CLOSES_WITHIN: Duration = Duration::from_secs(1);

/// Serves this state on this listener until `stop` turns true, then lets open requests end.
/// Dropping the future ends every connection at once.
///
/// It serves [`router`](super::router()). [`Service::run`](super::Service::run) is this and everything around it.
pub async fn serve(listener: TcpListener, state: Arc<AppState>, stop: watch::Receiver<bool>) {
    let metrics = state.metrics.http.connections.clone();
    let max_connections = state.http.max_connections;
    let router = router::of_listener(&state, Listener::Public);
    Server { state, router, max_connections, is_operators: false, metrics }
        .run(listener, stop)
        .await;
}

/// Serves operators on a listener of their own, with a limit of its own, until it is dropped.
pub(super) async fn serve_admin(listener: TcpListener, state: Arc<AppState>) {
    let (_running, never) = watch::channel(false);
    // Nobody counts them.
    let metrics = Connections::new(&Registry::new());
    let router = router::of_listener(&state, Listener::Operators);
    let max_connections = SPARE_PLACES;
    Server { state, router, max_connections, is_operators: true, metrics }
        .run(listener, never)
        .await;
}

struct Server {
    state: Arc<AppState>,
    router: Router,
    max_connections: usize,
    is_operators: bool,
    metrics: Connections,
}

impl Server {
    async fn run(&self, listener: TcpListener, stop: watch::Receiver<bool>) {
        let (stopping, _) = watch::channel(false);
        let mut connections = JoinSet::new();
        let mut open = OpenConnections::new(CoarseClock::default());
        tokio::select! {
            biased;
            () = stopped(stop) => {}
            () = self.accept_all(&listener, &mut connections, &mut open, &stopping) => {}
        }
        drop(listener);
        stopping.send_replace(true);
        loop {
            tokio::select! {
                ended = connections.join_next() => if ended.is_none() { return },
                () = sleep_until(open.next_tick) => self.cut_off_slow(&mut open),
            }
        }
    }

    async fn accept_all(
        &self,
        listener: &TcpListener,
        connections: &mut JoinSet<()>,
        open: &mut OpenConnections,
        stopping: &watch::Sender<bool>,
    ) {
        let places = Arc::new(Places::new(self.max_connections, self.metrics.open.clone()));
        let mut buffers = Buffers::new(listener, self.state.unsent.size());
        let per_address = PerAddress::new(&self.state.http).filter(|_| !self.is_operators);
        loop {
            let (stream, peer) = self.accept(listener, &places, open).await;
            let counted = per_address.as_ref().map(|all| all.begin(peer.ip(), &self.state.http));
            let of_address = match counted.transpose() {
                Ok(of_address) => of_address.flatten(),
                Err(TooMany) => {
                    self.metrics.refused_address();
                    socket::discard_unsent(&stream);
                    continue;
                }
            };
            let place = places.take(|| self.evict_one(open)).await;
            buffers.adapt(listener, places.taken());
            while connections.try_join_next().is_some() {}
            let activity = Arc::new(ConnectionActivity::new(open.clock.clone()));
            let (state, router) = (Arc::clone(&self.state), self.router.clone());
            let shared = Arc::clone(&activity);
            let stopping = stopping.subscribe();
            let task = connections.spawn(async move {
                let _of_address = of_address;
                let (stream, output) = TimedStream::new(stream, Arc::clone(&shared));
                match state.tls.clone() {
                    None => {
                        let stream = (stream, output);
                        let client = (peer, None);
                        connection(stream, client, place, (state, router), shared, stopping).await;
                    }
                    // Boxed, so that connections without TLS take less memory.
                    Some(tls) => {
                        // The handshake has a time-out of its own.
                        shared.enter(Phase::Body);
                        let accepted = tokio::select! {
                            accepted = Box::pin(tls.accept(stream)) => accepted,
                            // A handshake is no request that would have to be answered.
                            () = stopped(stopping.clone()) => None,
                        };
                        let Some((stream, client)) = accepted else { return };
                        // The handshake is not a part of a request.
                        shared.enter(Phase::Idle);
                        let client = (peer, client);
                        let stream = (stream, output);
                        let served =
                            connection(stream, client, place, (state, router), shared, stopping);
                        Box::pin(served).await;
                    }
                }
            });
            open.add(activity, task);
        }
    }

    /// Waits for the next connection, and evicts others meanwhile if that is necessary.
    async fn accept(
        &self,
        listener: &TcpListener,
        places: &Places,
        open: &mut OpenConnections,
    ) -> (TcpStream, SocketAddr) {
        let unsent = &self.state.unsent;
        loop {
            let accepted = tokio::select! {
                accepted = listener.accept() => accepted,
                () = places.wanted() => {
                    self.evict_one(open);
                    continue;
                }
                () = sleep_until(open.next_tick) => {
                    self.cut_off_slow(open);
                    continue;
                }
                () = unsent.scarce(), if unsent.missing() == 0 => continue,
                () = sleep_until(open.relieved + RELIEVE_AGAIN), if unsent.missing() > 0 => {
                    self.relieve(open);
                    continue;
                }
            };
            match accepted {
                Ok(accepted) => return accepted,
                Err(error) if is_of_one_connection(&error) => {}
                Err(error) => {
                    tracing::error!(%error, "accept failed");
                    // Most likely no file descriptor is free; trying at once would spin.
                    self.evict_one(open);
                    sleep(Duration::from_secs(1)).await;
                }
            }
        }
    }

    /// Ends connections whose clients take too long, once in a tick.
    fn cut_off_slow(&self, open: &mut OpenConnections) {
        if Instant::now() >= open.next_tick {
            open.tick(|phase| self.metrics.cut_off(phase));
        }
    }

    fn evict_one(&self, open: &mut OpenConnections) {
        self.cut_off_slow(open);
        self.relieve(open);
        if open.evict_one() {
            self.metrics.evicted();
        }
    }

    /// Evicts the slowest readers while memory for responses is scarce.
    fn relieve(&self, open: &mut OpenConnections) {
        let missing = self.state.unsent.missing();
        if missing > 0 && open.relieved.elapsed() >= RELIEVE_AGAIN {
            open.relieved = Instant::now();
            self.metrics.evicted_readers(open.evict_slow_readers(missing));
        }
    }
}

async fn stopped(mut stop: watch::Receiver<bool>) {
    // Without a sender, only dropping the service stops it.
    if stop.wait_for(|stop| *stop).await.is_err() {
        std::future::pending::<()>().await;
    }
}

fn is_of_one_connection(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset};
    matches!(error.kind(), ConnectionAborted | ConnectionRefused | ConnectionReset)
}

/// What the requests of a connection share.
struct Shared {
    state: Arc<AppState>,
    router: Router,
    activity: Arc<ConnectionActivity>,
    place: Mutex<Place>,
    client: Option<TlsClient>,
}

/// Whether the client sends its body only when it is told to (RFC 9110).
fn expects_continue(headers: &HeaderMap) -> bool {
    let expected = headers.get(header::EXPECT);
    expected.is_some_and(|expected| expected.as_bytes().eq_ignore_ascii_case(b"100-continue"))
}

/// The connection that a request came by.
#[derive(Clone, Debug)]
pub(super) struct Connection {
    activity: Arc<ConnectionActivity>,
    /// Whether there is a place for its requests.
    pub(super) has_place: bool,
}

impl Connection {
    /// Notes that a request of a client was let in.
    pub(super) fn had_client_request(&self) {
        self.activity.had_client_request();
    }
}

/// A request's body, which notes when it was read.
struct TimedBody {
    body: Incoming,
    activity: Arc<ConnectionActivity>,
}

impl HttpBody for TimedBody {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        let frame = ready!(Pin::new(&mut self.body).poll_frame(context));
        if frame.is_none() || self.body.is_end_stream() {
            self.activity.advance(Phase::Body, Phase::Answering);
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// Serves a connection to its end.
async fn connection(
    (stream, output): (impl AsyncRead + AsyncWrite + Unpin, Output),
    (peer, client): (SocketAddr, Option<TlsClient>),
    place: Place,
    (state, router): (Arc<AppState>, Router),
    activity: Arc<ConnectionActivity>,
    stopping: watch::Receiver<bool>,
) {
    output.lock().begin();
    let is_spare = place.is_spare();
    // Each connection has a reference count of its own, which no other core touches.
    let shared = Arc::new(Shared {
        state,
        router,
        activity: Arc::clone(&activity),
        place: Mutex::new(place),
        client,
    });
    let service = service_fn(move |request: Request<Incoming>| {
        let shared = Arc::clone(&shared);
        async move {
            let (mut head, body) = request.into_parts();
            let Shared { state, router, activity, place, client } = &*shared;
            activity.unblocked().await;
            let mut must_close = false;
            if let (Some(client), Some(tls)) = (client, &state.tls) {
                match tls.certificate(client) {
                    Some(certificate) => drop(head.extensions.insert(certificate)),
                    // Another handshake decides by the present authorities.
                    None => must_close = true,
                }
            }
            let has_body = !body.is_end_stream();
            let waits_to_send = has_body && expects_continue(&head.headers);
            let is_old = head.version == Version::HTTP_10;
            activity.enter(Phase::Answering);
            let mut has_place = true;
            if is_spare && router::is_for_clients(head.uri.path()) {
                has_place = Box::pin(async { place.lock().await.change().await }).await;
            }
            must_close |= !has_place;
            let body = match has_body {
                true => {
                    activity.enter(Phase::Body);
                    Body::new(TimedBody { body, activity: Arc::clone(activity) })
                }
                false => Body::empty(),
            };
            head.extensions.insert(ConnectInfo(peer));
            head.extensions.insert(Connection { activity: Arc::clone(activity), has_place });
            let mut response = router.clone().call(Request::from_parts(head, body)).await?;
            // A body that was not asked for may still be sent, and must not be read as a request.
            must_close |= waits_to_send && activity.phase() == Phase::Body;
            // HTTP/1.0 has no chunks: only the end of the connection ends such a body.
            if must_close || is_old && response.body().size_hint().exact().is_none() {
                let close = HeaderValue::from_static("close");
                response.headers_mut().insert(header::CONNECTION, close);
            }
            activity.begin_sending(response.extensions().get());
            Ok::<_, Infallible>(response)
        }
    });
    let mut connection = http1::Builder::new()
        .header_read_timeout(None)
        .max_header_size(LARGEST_HEAD)
        .max_buf_size(LARGEST_HEAD)
        .serve_connection(TokioIo::new(stream), service);
    let (mut is_stopping, mut is_http2) = (false, false);
    // Its first poll must register the waker, whatever the task has done before.
    let mut stopped = pin!(unconstrained(stopped(stopping.clone())));
    let mut is_waiting = false;
    let served = poll_fn(|context| {
        loop {
            if let Poll::Ready(ended) = Pin::new(&mut connection).poll(context) {
                return Poll::Ready(ended.map_err(|error| {
                    is_http2 = error.is_parse_version_h2();
                    error.to_string()
                }));
            }
            {
                let mut output = output.lock();
                // hyper pauses after some responses; the next ones may leave with them.
                if output.may_grow() {
                    continue;
                }
                if let Poll::Ready(Err(error)) = output.poll_send(context) {
                    return Poll::Ready(Err(error.to_string()));
                }
            }
            // The task's waker stays the same, so one poll is enough until the value changes; each
            // one locks what all connections share.
            let is_due =
                !mem::replace(&mut is_waiting, true) || stopping.has_changed().unwrap_or(true);
            if is_stopping || !is_due || stopped.as_mut().poll(context).is_pending() {
                return Poll::Pending;
            }
            is_stopping = true;
            Pin::new(&mut connection).graceful_shutdown();
        }
    });
    // hyper shuts the stream down, which sends, except after an upgrade and some errors. After an
    // error a request may still be in flight, so the client is not waited for.
    let failed = served.await.err();
    if let Some(error) = &failed {
        tracing::debug!(error, "connection failed");
    }
    if is_http2 {
        tokio::select! {
            _ = Box::pin(refuse_http2(connection.into_parts().io.into_inner(), output.clone())) => {}
            () = self::stopped(stopping) => {}
        }
    }
    poll_fn(|context| {
        let sent = output.lock().poll_send(context);
        if sent.is_pending() && failed.is_none() { Poll::Pending } else { Poll::Ready(()) }
    })
    .await;
}

/// Answers the preface of HTTP/2, and lets the client close first: curl takes an end that follows at
/// once for an empty reply. A client that stays is cut off like any other.
async fn refuse_http2(
    mut stream: impl AsyncRead + AsyncWrite + Unpin,
    output: Output,
) -> io::Result<()> {
    stream.write_all(&HTTP_1_1_REQUIRED).await?;
    stream.flush().await?;
    poll_fn(|context| output.lock().poll_send(context)).await?;
    if timeout(HTTP2_CLOSES_WITHIN, copy(&mut stream, &mut sink())).await.is_err() {
        stream.shutdown().await?;
        copy(&mut stream, &mut sink()).await?;
    }
    Ok(())
}
