//! The answers of `/id` and `/ids`, apart from the IDs.

use std::{
    convert::Infallible,
    pin::Pin,
    task::{Context, Poll},
};

use axum::{
    body::{Body, Bytes, HttpBody},
    http::{HeaderMap, HeaderValue, header},
    response::Response,
};
use hyper::body::Frame;

use super::asked::Form;

/// IDs that are written.
#[derive(Debug)]
pub(in crate::server) struct Answer {
    pub(super) form: Form,
    pub(super) body: Vec<u8>,
}

impl Answer {
    /// The response; `headers` may be used ones, whose memory serves again.
    pub(in crate::server) fn into_response(self, mut headers: HeaderMap) -> Response<Bytes> {
        headers.clear();
        describe(self.form, &mut headers);
        let mut response = Response::new(Bytes::from(self.body));
        *response.headers_mut() = headers;
        response
    }
}

/// The response to HEAD: nothing was claimed.
pub(super) fn without_ids(form: Form) -> Response {
    let mut response = Response::new(Body::new(UnknownLength));
    describe(form, response.headers_mut());
    response
}

fn describe(form: Form, headers: &mut HeaderMap) {
    let content_type = match form {
        Form::Text => "text/plain; charset=utf-8",
        Form::String | Form::Number | Form::Range => "application/json",
    };
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
}

/// An empty body that claims no length: a HEAD answer must not say `content-length: 0`.
struct UnknownLength;

impl HttpBody for UnknownLength {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        Poll::Ready(None)
    }
}
