//! Watches what clients of HTTP/2 take of their responses, and gives their requests a `Host`.
//!
//! Over HTTP/1 the stream sees progress, because it carries nothing but responses. A connection of
//! HTTP/2 also carries other frames, so each response reports progress: [`WatchedBody`] cuts the
//! body into pieces of 16 KiB, and h2 drops a piece once it has written it.
//!
//! h2 takes up to `connection::SEND_BUFFER` bytes of a response before the client's window has room
//! for them. A dropped piece is progress; a piece that h2 keeps is a client that does not read.
//! Ending such a connection is up to `open`. Tests: tests/http/http2.rs and tests/http/unread.rs.

use std::{
    pin::Pin,
    sync::{Arc, atomic::AtomicU32},
    task::{Context, Poll, ready},
};

use axum::{
    Error,
    body::{Body, Bytes, HttpBody},
    http::{HeaderValue, Request, header},
};
use hyper::body::{Frame, SizeHint};

use super::activity::Activity;

/// The bytes in a piece of a response; taking one is progress.
const PIECE: usize = 16 * 1024;

/// The body of a response, which reports what the client takes of it.
#[derive(Debug)]
pub(super) struct WatchedBody {
    body: Body,
    /// The part of the body's last frame that was not sent yet.
    rest: Bytes,
    activity: Arc<Activity>,
    /// When the client last took a part of it, in ticks.
    taken: Arc<AtomicU32>,
}

/// Bytes that h2 holds until they are sent.
#[derive(Debug)]
struct Piece {
    bytes: Bytes,
    has_more: bool,
    activity: Arc<Activity>,
    taken: Arc<AtomicU32>,
}

impl WatchedBody {
    /// Wraps a body. An empty one is returned as it is: the client has nothing to take.
    pub(super) fn watch(body: Body, activity: &Arc<Activity>) -> Body {
        if body.is_end_stream() {
            return body;
        }
        let (activity, taken) = (Arc::clone(activity), activity.begin_response());
        Body::new(Self { body, rest: Bytes::new(), activity, taken })
    }
}

impl HttpBody for WatchedBody {
    type Data = Bytes;
    type Error = Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Error>>> {
        if self.rest.is_empty() {
            let frame = ready!(Pin::new(&mut self.body).poll_frame(context));
            match frame.map(|frame| frame.map(Frame::into_data)) {
                Some(Ok(Ok(bytes))) => self.rest = bytes,
                Some(Ok(Err(trailers))) => return Poll::Ready(Some(Ok(trailers))),
                Some(Err(error)) => return Poll::Ready(Some(Err(error))),
                None => return Poll::Ready(None),
            }
        }
        let size = self.rest.len().min(PIECE);
        let bytes = self.rest.split_to(size);
        let has_more = !self.is_end_stream();
        let (activity, taken) = (Arc::clone(&self.activity), Arc::clone(&self.taken));
        let piece = Piece { bytes, has_more, activity, taken };
        Poll::Ready(Some(Ok(Frame::data(Bytes::from_owner(piece)))))
    }

    fn is_end_stream(&self) -> bool {
        self.rest.is_empty() && self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        let (rest, hint) = (self.rest.len() as u64, self.body.size_hint());
        let mut size = SizeHint::new();
        size.set_lower(hint.lower() + rest);
        if let Some(upper) = hint.upper() {
            size.set_upper(upper + rest);
        }
        size
    }
}

impl AsRef<[u8]> for Piece {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Drop for Piece {
    fn drop(&mut self) {
        self.activity.note_part_taken(&self.taken, self.has_more);
    }
}

/// Copies `:authority` of HTTP/2 to the header `Host`, which every later check reads.
pub(super) fn name_host<B>(request: &mut Request<B>) {
    let host = request.uri().authority().and_then(|it| HeaderValue::try_from(it.as_str()).ok());
    if let (Some(host), false) = (host, request.headers().contains_key(header::HOST)) {
        request.headers_mut().insert(header::HOST, host);
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use futures_util::{FutureExt as _, stream};
    use http_body_util::BodyExt as _;

    use super::{super::activity::CoarseClock, *};

    #[test]
    fn responses_are_sent_in_pieces_and_unsent_until_the_last_is_taken() {
        let activity = Arc::new(Activity::new(CoarseClock::start()));
        drop(activity.begin_answer(axum::http::Version::HTTP_2));
        let chunk = || Ok::<_, Infallible>(Bytes::from(vec![7; 16_000]));
        for (body, sizes) in [
            (Body::from(vec![7; 40_000]), &[PIECE, PIECE, 40_000 - 2 * PIECE][..]),
            (Body::from_stream(stream::iter([chunk(), chunk()])), &[16_000, 16_000]),
        ] {
            let hint = body.size_hint().exact();
            let mut body = WatchedBody::watch(body, &activity);
            assert_eq!(body.size_hint().exact(), hint);
            let mut taken = Vec::new();
            while let Some(frame) = body.frame().now_or_never().expect("ready") {
                taken.push(frame.expect("no error").into_data().expect("data"));
            }
            assert!(taken.iter().map(Bytes::len).eq(sizes.iter().copied()));
            drop(body);
            assert!(activity.stalled_for().is_some());
            drop(taken);
            assert!(activity.stalled_for().is_none());
        }
    }
}
