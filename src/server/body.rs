//! Bodies of responses.

use std::{
    convert::Infallible,
    mem,
    pin::Pin,
    task::{Context, Poll},
};

use axum::{
    body::{Bytes, HttpBody},
    http::{HeaderName, HeaderValue, Response, StatusCode, header},
};
use hyper::body::{Frame, SizeHint};
use serde::Serialize;

/// The body of a response.
#[derive(Debug)]
pub(super) enum ResponseBody {
    /// The whole body; empty once it was taken.
    Full(Bytes),
    /// An empty body of no known length: the response to HEAD must not say `content-length: 0`.
    UnknownLength,
}

impl<T: Into<Bytes>> From<T> for ResponseBody {
    fn from(bytes: T) -> Self {
        Self::Full(bytes.into())
    }
}

impl Default for ResponseBody {
    fn default() -> Self {
        Self::Full(Bytes::new())
    }
}

impl HttpBody for ResponseBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        match self.get_mut() {
            Self::Full(bytes) if !bytes.is_empty() => {
                Poll::Ready(Some(Ok(Frame::data(mem::take(bytes)))))
            }
            Self::Full(_) | Self::UnknownLength => Poll::Ready(None),
        }
    }

    fn is_end_stream(&self) -> bool {
        matches!(self, Self::Full(bytes) if bytes.is_empty())
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Full(bytes) => SizeHint::with_exact(bytes.len() as u64),
            Self::UnknownLength => SizeHint::default(),
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
