//! The line of the log for each claim of a strict code. It explains a gap: who took the number, and
//! whether the response went out.
//!
//! It does not say whether the client received the response: no server knows that.

use std::{
    pin::Pin,
    task::{Context, Poll},
};

use axum::{
    Error,
    body::{Body, Bytes, HttpBody},
    http::HeaderValue,
    response::Response,
};
use hyper::body::{Frame, SizeHint};

use super::request::IdRequest;
use crate::{
    core::{id::Id, segment::Numbers},
    keeper::IdempotencyKey,
};

/// What the line says about a claim with an idempotency key.
#[derive(Debug)]
pub(super) struct Repeatable {
    pub(super) key: IdempotencyKey,
    /// Whether an earlier request with the key got the number.
    pub(super) is_repeated: bool,
}

/// A claim that was made. When it is dropped, its line is written.
#[derive(Debug)]
pub(super) struct StrictClaim {
    namespace: String,
    code: String,
    first: String,
    last: String,
    count: usize,
    request_id: Option<HeaderValue>,
    repeatable: Option<Repeatable>,
    /// Whether the connection took the whole response.
    delivered: bool,
}

impl StrictClaim {
    pub(super) fn new(
        request: &IdRequest<'_>,
        numbers: &Numbers,
        request_id: Option<&HeaderValue>,
    ) -> Self {
        let text = |id: Id| text(request, id);
        let last = numbers.clone().ranges().last().map(|range| range.last);
        Self {
            namespace: request.issuer.namespace().to_owned(),
            code: request.code.to_owned(),
            first: numbers.clone().next().map(text).unwrap_or_default(),
            last: last.map(text).unwrap_or_default(),
            count: numbers.len(),
            request_id: request_id.cloned(),
            repeatable: None,
            delivered: false,
        }
    }

    /// The claim of a request with a key, which got this text.
    pub(super) fn of_key(
        request: &IdRequest<'_>,
        text: String,
        repeatable: Repeatable,
        request_id: Option<&HeaderValue>,
    ) -> Self {
        Self {
            namespace: request.issuer.namespace().to_owned(),
            code: request.code.to_owned(),
            first: text.clone(),
            last: text,
            count: 1,
            request_id: request_id.cloned(),
            repeatable: Some(repeatable),
            delivered: false,
        }
    }

    /// Writes the line once the connection has taken the response, or dropped it.
    pub(super) fn follow(self, response: Response) -> Response {
        response.map(|body| Body::new(Followed { body, claim: self }))
    }
}

impl Drop for StrictClaim {
    fn drop(&mut self) {
        let Self { namespace, code, first, last, count, request_id, repeatable, delivered } = self;
        let request_id = request_id.as_ref().and_then(|id| id.to_str().ok());
        let key = repeatable.as_ref().map(|repeatable| repeatable.key.to_string());
        let repeated = repeatable.as_ref().map(|repeatable| repeatable.is_repeated);
        tracing::info!(
            namespace,
            code,
            first,
            last,
            count,
            request_id,
            key,
            repeated,
            delivered,
            "strict claim"
        );
    }
}

/// Returns a number as the client gets it by default.
pub(super) fn text(request: &IdRequest<'_>, id: Id) -> String {
    match &request.texts.form {
        Some(form) => form.write(id.get()),
        None => format!("{}{id}", request.prefix),
    }
}

/// The body of the response to a claim.
struct Followed {
    body: Body,
    claim: StrictClaim,
}

impl HttpBody for Followed {
    type Data = Bytes;
    type Error = Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Error>>> {
        let polled = Pin::new(&mut self.body).poll_frame(context);
        if let Poll::Ready(frame) = &polled {
            self.claim.delivered = match frame {
                Some(frame) => frame.is_ok() && self.body.is_end_stream(),
                None => true,
            };
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
