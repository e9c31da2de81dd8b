//! Serves one connection to its end: TLS handshake, version of HTTP, and then one request after the
//! other, or over HTTP/2 many at once.
//!
//! [`Connection`] is the part that all requests of a connection share. The gate (`layers::gate`)
//! calls it to note an admitted request, and to leave a spare place. [`Connection::answer`] lets
//! the router answer, reads the rest of a small body, and decides whether the connection must close
//! afterwards.
//!
//! hyper's own time-outs are off: `activity` records what the connection does, and `open` ends it.
//! At a stop, an unfinished handshake is dropped, and open requests are answered. Tests:
//! tests/http/connections.rs, connection_limits.rs and http2.rs.

use std::{
    convert::Infallible,
    future::poll_fn,
    net::SocketAddr,
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering::Relaxed},
    },
    time::Duration,
};

use axum::{
    body::{Body, Bytes, HttpBody as _},
    extract::Request,
    http::{HeaderMap, HeaderValue, Version, header},
    response::Response,
};
use futures_util::stream::{FuturesUnordered, StreamExt as _};
use http_body_util::BodyExt as _;
use hyper::{body::Incoming, service::service_fn};
use hyper_util::{
    rt::{TokioExecutor, TokioIo},
    server::conn::auto,
};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::TcpStream,
    sync::{Notify, watch},
    time::timeout,
};
use tower::Service as _;

use super::{
    Server,
    activity::{Activity, RequestBody},
    http2::{WatchedBody, name_host},
    places::{NoPlace, Place},
    stream::WatchedStream,
    tls::TlsClient,
    versioned_stream::{ReadLimits, VersionedStream},
};
use crate::{
    server::{extract::Sender, metrics::Dropped},
    store::with_sources,
};

/// The longest head of a request in bytes; a longer one is answered 431. hyper reads no more of
/// HTTP/1 at once, so that many connections take little memory.
const LARGEST_HEAD: usize = 16 * 1024;

/// The most bytes of an unread body that are discarded so that the connection can be used again.
const LARGEST_DISCARDED: u64 = 16 * 1024;

/// How long a response may wait while a body is discarded.
const DISCARDED_WITHIN: Duration = Duration::from_secs(1);

/// The longest head of HTTP/2 in bytes, decoded.
pub(super) const LARGEST_HEADER_LIST: u32 = 8 * 1024;

/// The requests that a connection of HTTP/2 may have under way: the least that RFC 9113 recommends,
/// and what clients assume before they have read our settings. `memory::HTTP2_CONNECTION` is
/// measured with this number.
const STREAMS: u32 = 100;

/// How many requests beyond [`STREAMS`] are refused before the connection is closed. A client may
/// send some before it has read the limit.
const REFUSED: usize = 128;

/// The flow-control windows of HTTP/2 in bytes: of a stream, and of the connection.
const WINDOWS: [u32; 2] = [16 * 1024, 64 * 1024];

/// The bytes of a response that h2 buffers while the client's window has no room.
const SEND_BUFFER: usize = 16 * 1024;

/// The part of a connection that its requests share.
pub(in crate::server) struct Connection {
    server: Arc<Server>,
    activity: Arc<Activity>,
    place: Place,
    pub(in crate::server) peer: SocketAddr,
    client: Option<TlsClient>,
    /// Ends a connection of HTTP/2 gracefully, with GOAWAY.
    retired: Arc<Notify>,
}

impl Connection {
    pub(super) fn new(
        server: Arc<Server>,
        activity: Arc<Activity>,
        place: Place,
        peer: SocketAddr,
    ) -> Self {
        Self { server, activity, place, peer, client: None, retired: Arc::default() }
    }

    /// Moves the connection of a client from a spare place to one of the clients', which can take
    /// seconds.
    pub(in crate::server) async fn leave_spare_place(&self) -> Result<(), NoPlace> {
        if !self.place.is_spare() {
            return Ok(());
        }
        // Boxed, so that requests that need not wait have a smaller future.
        Box::pin(self.place.leave_spare()).await
    }

    /// Notes that a request of a client was admitted, so that the connection keeps its place for a
    /// while. A request with a body does not count: its client can keep the service waiting for the
    /// end of the body, and must not keep its place by that.
    pub(in crate::server) fn note_admitted(&self, body: &Body) {
        if body.is_end_stream() {
            self.activity.note_admitted();
        }
    }

    /// Serves the connection to its end.
    pub(super) async fn run(mut self, stream: TcpStream, stop: watch::Receiver<bool>) {
        let stream = WatchedStream::new(stream, Arc::clone(&self.activity));
        let Some(tls) = self.server.tls.clone() else { return self.serve(stream, stop).await };
        let accepted = tokio::select! {
            accepted = Box::pin(tls.accept(stream)) => accepted,
            // An unfinished handshake is no request: at a stop it is dropped.
            () = became_true(stop.clone()) => None,
        };
        if let Some((stream, client)) = accepted {
            self.activity.progressed();
            self.client = client;
            // Boxed, so that the task of a connection without TLS is smaller.
            Box::pin(self.serve(stream, stop)).await;
        }
    }

    async fn serve<S>(self, stream: S, stop: watch::Receiver<bool>)
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let mut stop = pin!(became_true(stop));
        let mut stream = tokio::select! {
            sniffed = VersionedStream::sniff(stream) => match sniffed {
                Ok(stream) => stream,
                Err(error) => return tracing::debug!(error = with_sources(&error), "connection failed"),
            },
            () = stop.as_mut() => return,
        };
        let is_http2 = stream.is_http2();
        let polls = Arc::new(AtomicU32::new(0));
        // Before hyper allocates the buffers of HTTP/2.
        if is_http2 {
            let has_places = tokio::select! {
                has_places = self.take_http2_places() => has_places,
                () = stop.as_mut() => return,
            };
            if !has_places {
                return self.server.metrics.dropped(Dropped::Room);
            }
            stream.pace_reads(ReadLimits {
                budget: self.server.head_budget.clone(),
                polls: Arc::clone(&polls),
                retired: Arc::clone(&self.retired),
            });
        }
        let connection = Arc::new(self);
        let shared = Arc::clone(&connection);
        let service = service_fn(move |mut request: Request<Incoming>| {
            if is_http2 {
                // Charged here and not in the future, which may run later: hyper's next read must
                // find this head in the budget.
                let head = shared.server.head_budget.charge(request.headers());
                request.extensions_mut().insert(head);
            }
            Arc::clone(&shared).answer(request)
        });
        let builder = if is_http2 { builder().http2_only() } else { builder().http1_only() };
        let mut served = pin!(builder.serve_connection(TokioIo::new(stream), service));
        let must_end = async {
            // HTTP/1 drains by `Connection: close` on its next response. Closing an idle connection
            // now would fail the request that a client may be sending.
            if !is_http2 {
                return stop.await;
            }
            tokio::select! {
                () = stop => {}
                () = became_true(connection.server.draining.clone()) => {}
                () = connection.retired.notified() => {}
            }
        };
        // A set polls a future only when that was woken; alone, each request would poll it.
        let mut must_end = FuturesUnordered::from_iter([must_end]);
        loop {
            tokio::select! {
                biased;
                ended = poll_fn(|context| {
                    polls.fetch_add(1, Relaxed);
                    served.as_mut().poll(context)
                }) => {
                    if let Err(error) = ended {
                        tracing::debug!(error = with_sources(&*error), "connection failed");
                    }
                    return;
                }
                Some(()) = must_end.next() => served.as_mut().graceful_shutdown(),
            }
        }
    }

    /// Takes the additional places of HTTP/2; returns false if there are none. Meanwhile the
    /// connection counts as being answered, because the service is the one that reads nothing.
    async fn take_http2_places(&self) -> bool {
        let _answering = self.activity.begin_answer(Version::HTTP_2);
        let has_places = self.place.take_http2_places().await;
        self.activity.restart_grace();
        has_places
    }

    async fn answer(
        self: Arc<Self>,
        mut request: Request<Incoming>,
    ) -> Result<Response, Infallible> {
        let is_http2 = request.version() == Version::HTTP_2;
        if !is_http2 {
            // Over HTTP/2 at most `STREAMS` responses wait, and flow control bounds what is sent of
            // each.
            self.activity.unblocked().await;
        }
        let answering = self.activity.begin_answer(request.version());
        let mut must_close = *self.server.draining.borrow();
        if is_http2 {
            name_host(&mut request);
        }
        if let (Some(client), Some(tls)) = (&self.client, &self.server.tls) {
            match tls.certificate(client) {
                Some(certificate) => drop(request.extensions_mut().insert(certificate)),
                // The authorities changed since the handshake. On a new connection the present ones
                // decide.
                None => must_close = true,
            }
        }
        request.extensions_mut().insert(Sender::from_connection(Arc::clone(&self)));
        let is_old = request.version() == Version::HTTP_10;
        let waits_to_send = !request.body().is_end_stream() && expects_continue(request.headers());
        let mut unread = None;
        let request = request.map(|body| {
            if body.is_end_stream() {
                return Body::empty();
            }
            let body = RequestBody::new(body, Arc::clone(&self.activity));
            // Over HTTP/2 the body is dropped with the request. Streams are separate, so nothing is
            // left on the connection to discard.
            unread = (!is_http2).then(|| body.clone());
            Body::new(body)
        });
        let Ok(mut response) = self.server.router.clone().call(request).await;
        let unread = unread.and_then(RequestBody::into_unread);
        drop(answering);
        // Otherwise only hyper needs to know it.
        must_close |=
            (is_http2 || unread.is_some()) && response.headers().contains_key(header::CONNECTION);
        if let Some(mut unread) = unread.filter(|_| !must_close) {
            // A client that waits for `100 Continue` may or may not send its body after the final
            // response, so the next bytes could be body or request: only closing is safe.
            must_close =
                waits_to_send && !unread.was_polled || !Self::discard(&mut unread.body).await;
        }
        // HTTP/1.0 has no chunked coding: a body of unknown length ends with the connection.
        must_close |= is_old && response.body().size_hint().exact().is_none();
        if is_http2 {
            if must_close {
                self.retired.notify_one();
            }
            response = response.map(|body| WatchedBody::watch(body, &self.activity));
        } else if must_close {
            response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
        }
        Ok(response)
    }

    /// Reads and drops the rest of a body, because a client that still sends may not read the
    /// response. Returns whether the end was reached.
    async fn discard(body: &mut Incoming) -> bool {
        if body.size_hint().lower() > LARGEST_DISCARDED {
            return false;
        }
        let mut read = 0;
        let reading = async {
            while read <= LARGEST_DISCARDED {
                match body.frame().await {
                    None => return true,
                    Some(Err(_)) => return false,
                    Some(Ok(frame)) => read += frame.data_ref().map_or(0, Bytes::len) as u64,
                }
            }
            false
        };
        timeout(DISCARDED_WITHIN, reading).await.unwrap_or(false)
    }
}

/// Resolves when the value becomes true.
pub(super) async fn became_true(mut value: watch::Receiver<bool>) {
    // Without a sender it never will.
    if value.wait_for(|is_true| *is_true).await.is_err() {
        std::future::pending::<()>().await;
    }
}

fn builder() -> auto::Builder<TokioExecutor> {
    let mut builder = auto::Builder::new(TokioExecutor::new());
    builder
        .http1()
        // `OpenConnections` times every phase of a connection.
        .header_read_timeout(None)
        .max_buf_size(LARGEST_HEAD);
    let [of_stream, of_all] = WINDOWS;
    builder
        .http2()
        .max_header_list_size(LARGEST_HEADER_LIST)
        .max_concurrent_streams(STREAMS)
        .max_local_error_reset_streams(REFUSED)
        .initial_stream_window_size(of_stream)
        .initial_connection_window_size(of_all)
        .max_send_buf_size(SEND_BUFFER);
    builder
}

/// Returns whether the client waits for `100 Continue` before it sends its body (RFC 9110).
fn expects_continue(headers: &HeaderMap) -> bool {
    let expected = headers.get(header::EXPECT);
    expected.is_some_and(|expected| expected.as_bytes().eq_ignore_ascii_case(b"100-continue"))
}
