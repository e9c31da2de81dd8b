//! The successful response to a request for IDs.
//!
//! A response up to 64 KiB is written as a whole. A larger one is written in pieces, as the client
//! reads them: its IDs are claimed at once, but only a piece of their text is in memory. While
//! memory is plenty, up to 256 KiB are written as a whole, which is faster.

use std::{
    convert::Infallible,
    mem,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use axum::{
    body::{Body, Bytes, HttpBody},
    http::{HeaderValue, header},
    response::Response,
};
use futures_util::stream;
use hyper::body::{Frame, SizeHint};
use serde_json::json;

use super::{
    request::{IdRequest, refuse_unsafe},
    schemas::Ids,
    writer::{Batch, BodyFormat, Texts},
};
use crate::{
    keeper::NamespaceIssuer,
    server::{
        request_log::IssuedCount,
        response::{Problem, Reservation, body::reserved_bytes},
    },
};

/// The largest response in bytes that is always written as a whole.
const ALWAYS_WHOLE: usize = 64 * 1024;

/// The largest response in bytes that is written as a whole while memory is plenty. One large write
/// to the kernel takes half the time of many small ones. 10 000 decimal IDs fit.
const LARGEST_WHOLE: usize = 256 * 1024;

/// The size in bytes of a piece.
const PIECE: usize = 16 * 1024;

/// The bytes that a response in pieces holds: a piece that waits to be sent, and the next one.
const IN_PIECES: usize = 2 * PIECE;

/// The pieces that a connection writes in a row before other tasks run, so that other clients do
/// not wait for a large batch.
const PIECES_AT_A_TIME: usize = 4;

/// How a response is sent.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sending {
    /// Whether the response is written as a whole; otherwise in pieces, as the client reads them.
    is_whole: bool,
    /// The most bytes that the response holds in memory until it is sent.
    pub(super) memory: usize,
}

impl IdRequest<'_> {
    /// Returns the response to HEAD, without a length: nothing was claimed, so it is unknown.
    pub(super) fn without_ids(&self) -> Response {
        self.response(Body::from_stream(stream::empty::<Result<Bytes, Infallible>>()))
    }

    /// Decides how the response will be sent. `has_plenty` tells whether memory is plenty for this
    /// many bytes.
    pub(super) fn sending(&self, has_plenty: impl FnOnce(usize) -> bool) -> Sending {
        // A claim by time has at most six ranges: part of a tick, whole ticks and a part, and that
        // twice if it passes the wrap of the timestamp.
        let is_few = self.texts.format == BodyFormat::Ranges && self.issuer.layout().is_some();
        let count = if is_few { 6 } else { self.count.most() };
        let length = self.texts.largest_length(self.prefix, count);
        let is_whole = length <= ALWAYS_WHOLE || length <= LARGEST_WHOLE && has_plenty(length);
        Sending { is_whole, memory: if is_whole { length } else { IN_PIECES } }
    }

    /// Returns whether the response says when the IDs were claimed.
    pub(super) fn tells_instant(&self) -> bool {
        self.texts.format == BodyFormat::Ranges
    }

    /// Returns the JSON before the ranges of a claim that was made at this instant.
    fn head(&self, ids: &impl Batch, issued_at_ms: i64) -> String {
        let layout = self.issuer.layout();
        let increment = ids.clone().next_range(1).filter(|_| layout.is_none());
        let increment = increment.map(|range| range.step);
        let empty = Ids::no_ranges(issued_at_ms, layout, increment, self.prefix);
        let mut head = serde_json::to_string(&empty).expect("texts and numbers are always JSON");
        head.truncate(head.len() - "]}".len());
        head
    }

    /// Writes the response for the IDs of a claim. `issued_at_ms` is set for ranges, which say when
    /// it was made.
    pub(super) fn write(
        &self,
        mut ids: impl Batch,
        issued_at_ms: Option<i64>,
        sending: Sending,
        reservation: Option<Arc<Reservation>>,
    ) -> Result<Response, Problem> {
        if self.texts.format == BodyFormat::Numbers
            && let Some(range) = ids.clone().into_ranges().last()
        {
            refuse_unsafe(range.last, self.issuer)?;
        }
        let writer = self.texts.writer(self.prefix, self.issuer.layout());
        let head = issued_at_ms.map(|ms| self.head(&ids, ms)).unwrap_or_default();
        let count = IssuedCount(ids.len());
        let body = if !self.is_batch {
            writer.one(ids.next().expect("a claim of one has one ID")).into()
        } else if sending.is_whole {
            let mut body = Vec::with_capacity(sending.memory);
            writer.begin(&head, &mut body);
            writer.all(&mut ids, &mut body);
            writer.end(&mut body);
            reserved_bytes(body, reservation).into()
        } else {
            Body::new(BatchInPieces {
                length: writer.exact_length(&ids),
                ids,
                issuer: self.issuer.clone(),
                texts: self.texts,
                prefix: self.prefix.into(),
                head: head.into(),
                made: 0,
                has_begun: false,
                is_complete: false,
                reservation,
            })
        };
        let mut response = self.response(body);
        if self.is_counted {
            response.extensions_mut().insert(count);
        }
        Ok(response)
    }

    /// Writes the response for one number whose text the store has.
    pub(super) fn write_text(&self, text: &str) -> Response {
        let body = match self.texts.format {
            BodyFormat::Lines => format!("{text}\n"),
            BodyFormat::Strings | BodyFormat::Numbers | BodyFormat::Ranges => {
                json!({ "id": text }).to_string()
            }
        };
        let mut response = self.response(body.into());
        if self.is_counted {
            response.extensions_mut().insert(IssuedCount(1));
        }
        response
    }

    fn response(&self, body: Body) -> Response {
        let content_type = match self.texts.format {
            BodyFormat::Lines => const { HeaderValue::from_static("text/plain; charset=utf-8") },
            BodyFormat::Strings | BodyFormat::Numbers | BodyFormat::Ranges => {
                const { HeaderValue::from_static("application/json") }
            }
        };
        let mut response = Response::new(body);
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, content_type);
        headers.insert(header::CACHE_CONTROL, const { HeaderValue::from_static("no-store") });
        response
    }
}

/// A response that is written piece by piece, as the client reads it.
struct BatchInPieces<B> {
    ids: B,
    issuer: NamespaceIssuer,
    texts: Texts,
    prefix: Box<str>,
    head: Box<str>,
    /// The length of the body in bytes, if it is known before all IDs are written.
    length: Option<u64>,
    /// The pieces written since other tasks last ran.
    made: usize,
    has_begun: bool,
    is_complete: bool,
    reservation: Option<Arc<Reservation>>,
}

impl<B: Batch> HttpBody for BatchInPieces<B> {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let batch = &mut *self;
        if batch.is_complete {
            return Poll::Ready(None);
        }
        if batch.made == PIECES_AT_A_TIME {
            batch.made = 0;
            context.waker().wake_by_ref();
            return Poll::Pending;
        }
        batch.made += 1;
        let writer = batch.texts.writer(&batch.prefix, batch.issuer.layout());
        let mut piece = Vec::with_capacity(PIECE);
        if !mem::replace(&mut batch.has_begun, true) {
            writer.begin(&batch.head, &mut piece);
        }
        batch.is_complete = writer.until(&mut batch.ids, &mut piece, PIECE);
        if batch.is_complete {
            writer.end(&mut piece);
        }
        Poll::Ready(Some(Ok(Frame::data(reserved_bytes(piece, batch.reservation.clone())))))
    }

    fn is_end_stream(&self) -> bool {
        self.is_complete
    }

    fn size_hint(&self) -> SizeHint {
        self.length.map_or_else(SizeHint::default, SizeHint::with_exact)
    }
}
