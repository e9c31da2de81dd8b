//! Bounds of a request: its size, and how long it may take.

use std::{
    future::poll_fn,
    pin::{Pin, pin},
    task::Poll,
    time::Duration,
};

use axum::{
    BoxError,
    body::{Bytes, HttpBody},
    http::{HeaderMap, Method, Uri, header, request::Parts},
};
use http_body_util::{BodyExt, LengthLimitError, Limited};
use tokio::time::timeout;

use super::{
    problem::{Problem, ProblemCode},
    route::{Kind, Route},
};
use crate::keeper::catch_panic;

/// The longest address in bytes; the longest useful one has a few hundred.
const LONGEST_URI: usize = 4096;

/// The largest body in bytes; no request needs one.
const LARGEST_BODY: usize = 64 * 1024;

/// Refuses an address that is too long.
pub(super) fn check_length(uri: &Uri) -> Result<(), Problem> {
    let length = uri.path_and_query().map_or(0, |uri| uri.as_str().len());
    if length <= LONGEST_URI {
        return Ok(());
    }
    let detail = format!("the request target has {length} bytes: must be at most {LONGEST_URI}");
    Err(Problem::new(ProblemCode::UriTooLong, detail))
}

/// Refuses a body that the route would ignore, or would misread.
pub(super) fn check_content(route: &Route, head: &Parts, has_body: bool) -> Result<(), Problem> {
    if !has_body || head.method == Method::GET || head.method == Method::HEAD {
        return Ok(());
    }
    let detail = if route.kind == Kind::Claim {
        "a body is not read: ask by the query, as in POST /ids/order?n=3"
    } else if route.body.is_none() {
        "this request has no body"
    } else if is_json(&head.headers) {
        return Ok(());
    } else {
        "the header Content-Type must be application/json"
    };
    Err(Problem::new(ProblemCode::UnsupportedMediaType, detail))
}

fn is_json(headers: &HeaderMap) -> bool {
    let content_type = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok());
    let media_type = content_type.map(|text| text.split(';').next().unwrap_or_default().trim());
    media_type.is_some_and(|media_type| media_type.eq_ignore_ascii_case("application/json"))
}

/// Reads a body to its end, whether or not it is used: the response may have to wait for that.
pub(super) async fn read_body<B>(body: B) -> Result<Bytes, Problem>
where
    B: HttpBody + Unpin,
    B::Error: Into<BoxError>,
{
    let too_large = || {
        let detail = format!("the body must have at most {LARGEST_BODY} bytes");
        let problem = Problem::new(ProblemCode::PayloadTooLarge, detail);
        // What is left of the body is not read, even where it has arrived already.
        problem.with_header(header::CONNECTION, "close")
    };
    if body.size_hint().lower() > LARGEST_BODY as u64 {
        return Err(too_large());
    }
    let read = Limited::new(body, LARGEST_BODY).collect().await;
    let read = read.map_err(|error| {
        if error.is::<LengthLimitError>() {
            return too_large();
        }
        let detail = format!("cannot read the body: {error}");
        Problem::new(ProblemCode::InvalidParameter, detail)
    })?;
    Ok(read.to_bytes())
}

/// Ends a response that takes longer than `limit`, and one that panics. Keeps the result of `waiting`
/// while one that is not ready at once is waited for.
pub(super) async fn within<T, W>(
    limit: Duration,
    answer: Pin<&mut impl Future<Output = T>>,
    waiting: impl FnOnce() -> W,
) -> Result<T, Problem> {
    let mut answer = pin!(catch_panic(answer));
    // Most responses are ready at once, and a timer costs more than many of them.
    let first = poll_fn(|context| Poll::Ready(answer.as_mut().poll(context))).await;
    if let Poll::Ready(answer) = first {
        return answer.map_err(panicked);
    }
    let _waiting = waiting();
    // Boxed, so that a response that is ready at once carries less.
    let answer = Box::pin(timeout(limit, answer)).await.map_err(|_| {
        let detail = format!("no answer within {limit:?}");
        Problem::new(ProblemCode::RequestTimeout, detail)
    })?;
    answer.map_err(panicked)
}

fn panicked(panic: String) -> Problem {
    tracing::error!(panic, "handler panicked");
    let detail = "internal error; see the service's log";
    Problem::new(ProblemCode::Internal, detail)
}
