//! Bodies of responses.

use std::{
    convert::Infallible,
    fmt, mem,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use axum::{
    body::{Bytes, HttpBody},
    http::{HeaderName, HeaderValue, Response, StatusCode, header},
};
use hyper::body::{Frame, SizeHint};
use serde::Serialize;

use super::unsent::Reservation;

/// A connection makes no more pieces in a row, so that other clients need not wait for a large
/// batch.
const PIECES_AT_A_TIME: usize = 4;

/// The body of a response.
#[derive(Debug, Default)]
pub(super) struct ResponseBody {
    content: Content,
    /// The memory that the content takes, until the connection has all of it.
    reservation: Option<Arc<Reservation>>,
}

enum Content {
    /// The whole body; empty once it was taken.
    Full(Bytes),
    /// Pieces that are made as they are sent.
    Pieces {
        pieces: Box<dyn Pieces>,
        /// How many were made since others had their turn.
        made: usize,
        /// The length of all, if it is known.
        length: Option<u64>,
    },
    /// An empty body of no known length: the response to HEAD must not say `content-length: 0`.
    UnknownLength,
}

/// The pieces of a body that is too large to be held in memory.
pub(super) trait Pieces: Send {
    /// The next piece, and whether it is the last one.
    fn next_piece(&mut self) -> (Bytes, bool);
}

impl ResponseBody {
    /// A body of this length, if that is known.
    pub(super) fn in_pieces(pieces: impl Pieces + 'static, length: Option<u64>) -> Self {
        let content = Content::Pieces { pieces: Box::new(pieces), made: 0, length };
        Self { content, reservation: None }
    }

    pub(super) fn of_unknown_length() -> Self {
        Self { content: Content::UnknownLength, reservation: None }
    }

    /// Keeps the memory that it takes reserved.
    pub(super) fn keep(&mut self, reservation: Option<Arc<Reservation>>) {
        self.reservation = reservation;
    }

    /// The memory that it takes.
    pub(super) fn reservation(&self) -> Option<&Arc<Reservation>> {
        self.reservation.as_ref()
    }

    /// The length in bytes, if it is held in memory.
    pub(super) fn length(&self) -> Option<usize> {
        match &self.content {
            Content::Full(bytes) => Some(bytes.len()),
            Content::Pieces { .. } | Content::UnknownLength => None,
        }
    }
}

impl<T: Into<Bytes>> From<T> for ResponseBody {
    fn from(bytes: T) -> Self {
        Self { content: Content::Full(bytes.into()), reservation: None }
    }
}

impl Default for Content {
    fn default() -> Self {
        Self::Full(Bytes::new())
    }
}

impl fmt::Debug for Content {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Full(_) => "Full",
            Self::Pieces { .. } => "Pieces",
            Self::UnknownLength => "UnknownLength",
        })
    }
}

impl HttpBody for ResponseBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let body = self.get_mut();
        let data = match &mut body.content {
            Content::Full(bytes) => mem::take(bytes),
            Content::Pieces { made, .. } if *made == PIECES_AT_A_TIME => {
                *made = 0;
                context.waker().wake_by_ref();
                return Poll::Pending;
            }
            Content::Pieces { pieces, made, .. } => {
                *made += 1;
                let (piece, is_last) = pieces.next_piece();
                if is_last {
                    body.content = Content::default();
                }
                piece
            }
            Content::UnknownLength => Bytes::new(),
        };
        if body.is_end_stream() {
            body.reservation = None;
        }
        Poll::Ready((!data.is_empty()).then(|| Ok(Frame::data(data))))
    }

    fn is_end_stream(&self) -> bool {
        matches!(&self.content, Content::Full(bytes) if bytes.is_empty())
    }

    fn size_hint(&self) -> SizeHint {
        match &self.content {
            Content::Full(bytes) => SizeHint::with_exact(bytes.len() as u64),
            Content::Pieces { length: Some(length), .. } => SizeHint::with_exact(*length),
            Content::Pieces { .. } | Content::UnknownLength => SizeHint::default(),
        }
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
pub(super) fn response(
    content_type: &'static str,
    body: impl Into<ResponseBody>,
) -> Response<ResponseBody> {
    let mut response = Response::new(body.into());
    let content_type = HeaderValue::from_static(content_type);
    response.headers_mut().extend(FOR_BROWSERS);
    response.headers_mut().insert(header::CONTENT_TYPE, content_type);
    response
}

/// A JSON response that caches may keep.
pub(super) fn json(value: &impl Serialize) -> Response<ResponseBody> {
    let json = serde_json::to_vec(value).expect("texts and numbers are always JSON");
    response("application/json", json)
}

/// A JSON response that no cache keeps.
pub(super) fn uncached_json(status: StatusCode, value: &impl Serialize) -> Response<ResponseBody> {
    let mut response = json(value);
    *response.status_mut() = status;
    response.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}
