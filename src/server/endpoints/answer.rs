//! The answers of `/id` and `/ids`, apart from the IDs.

use std::{
    convert::Infallible,
    pin::Pin,
    task::{Context, Poll},
};

use axum::{
    body::{Body, Bytes, HttpBody},
    http::{HeaderValue, header},
    response::Response,
};
use hyper::body::Frame;

use super::asked::{Asked, Form};

pub(super) fn answer(form: Form, body: impl Into<Body>) -> Response {
    let mut response = Response::new(body.into());
    let content_type = match form {
        Form::Text => "text/plain; charset=utf-8",
        Form::String | Form::Number | Form::Range => "application/json",
    };
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

/// Answers HEAD: the request was checked, and nothing is claimed.
pub(in crate::server) async fn head<const MANY: bool>(asked: Asked<MANY>) -> Response {
    answer(asked.form, Body::new(UnknownLength))
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
