//! Bodies of responses.

use std::{
    convert::Infallible,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use axum::{
    body::{Bytes, HttpBody},
    http::{HeaderName, HeaderValue, StatusCode, header},
    response::{IntoResponse as _, Response},
};
use hyper::body::{Frame, SizeHint};
use serde::Serialize;

use super::unsent::Reservation;

/// A connection makes no more pieces in a row, so that other clients need not wait for a large
/// batch.
const PIECES_AT_A_TIME: usize = 4;

/// The pieces of a body that is too large to be held in memory.
pub(in crate::server) trait Pieces: Send {
    /// The next piece, and whether it is the last one.
    fn next_piece(&mut self) -> (Vec<u8>, bool);
}

/// A body that is made as it is sent.
#[derive(Debug)]
pub(in crate::server) struct BodyInPieces<P> {
    /// None when all were made.
    pieces: Option<P>,
    /// How many were made since others had their turn.
    made: usize,
    /// The length of all, if it is known.
    length: Option<u64>,
    reservation: Option<Arc<Reservation>>,
}

impl<P> BodyInPieces<P> {
    /// A body of this length, if that is known.
    pub(in crate::server) fn new(
        pieces: P,
        length: Option<u64>,
        reservation: Option<Arc<Reservation>>,
    ) -> Self {
        Self { pieces: Some(pieces), made: 0, length, reservation }
    }
}

impl<P: Pieces + Unpin> HttpBody for BodyInPieces<P> {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let body = self.get_mut();
        let Some(pieces) = &mut body.pieces else { return Poll::Ready(None) };
        if body.made == PIECES_AT_A_TIME {
            body.made = 0;
            context.waker().wake_by_ref();
            return Poll::Pending;
        }
        body.made += 1;
        let (piece, is_last) = pieces.next_piece();
        let piece = kept(piece, body.reservation.clone());
        if is_last {
            (body.pieces, body.reservation) = (None, None);
        }
        Poll::Ready(Some(Ok(Frame::data(piece))))
    }

    fn is_end_stream(&self) -> bool {
        self.pieces.is_none()
    }

    fn size_hint(&self) -> SizeHint {
        self.length
            .filter(|_| self.pieces.is_some())
            .map_or_else(SizeHint::default, SizeHint::with_exact)
    }
}

/// Bytes that keep the memory that they take reserved, until the kernel has them.
pub(in crate::server) fn kept<T>(bytes: T, reservation: Option<Arc<Reservation>>) -> Bytes
where
    T: AsRef<[u8]> + Into<Bytes> + Send + 'static,
{
    struct Kept<T> {
        bytes: T,
        _reservation: Arc<Reservation>,
    }
    impl<T: AsRef<[u8]>> AsRef<[u8]> for Kept<T> {
        fn as_ref(&self) -> &[u8] {
            self.bytes.as_ref()
        }
    }
    match reservation {
        Some(_reservation) => Bytes::from_owner(Kept { bytes, _reservation }),
        None => bytes.into(),
    }
}

/// Headers of every response but IDs, whose headers cost as much as the ID: those are digits and
/// letters, whatever a browser takes them for.
const FOR_BROWSERS: [(HeaderName, HeaderValue); 2] = [
    // Some responses quote the request.
    (header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff")),
    (header::REFERRER_POLICY, HeaderValue::from_static("no-referrer")),
];

/// A response that caches may keep.
pub(in crate::server) fn response(
    content_type: &'static str,
    bytes: impl AsRef<[u8]> + Into<Bytes> + Send + 'static,
    reservation: Option<Arc<Reservation>>,
) -> Response {
    let body = kept(bytes, reservation);
    (FOR_BROWSERS, [(header::CONTENT_TYPE, content_type)], body).into_response()
}

/// A JSON response that caches may keep.
pub(in crate::server) fn json(value: &impl Serialize) -> Response {
    response("application/json", json_bytes(value), None)
}

/// A JSON response that no cache keeps.
pub(in crate::server) fn uncached_json(status: StatusCode, value: &impl Serialize) -> Response {
    uncached(status, json(value))
}

/// The JSON of a value.
pub(in crate::server) fn json_bytes(value: &impl Serialize) -> Vec<u8> {
    serde_json::to_vec(value).expect("texts and numbers are always JSON")
}

/// The same response with this status, which no cache keeps.
pub(in crate::server) fn uncached(status: StatusCode, mut response: Response) -> Response {
    *response.status_mut() = status;
    response.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}
