//! Bodies of responses.

use std::sync::Arc;

use axum::{
    body::Bytes,
    http::{HeaderName, HeaderValue, StatusCode, header},
    response::{IntoResponse as _, Response},
};
use serde::Serialize;

use super::unsent::Reservation;

/// Ties a reservation to the bytes that it is for: it is released when the kernel has taken them.
pub(in crate::server) fn reserved_bytes<T>(bytes: T, reservation: Option<Arc<Reservation>>) -> Bytes
where
    T: AsRef<[u8]> + Into<Bytes> + Send + 'static,
{
    struct Reserved<T> {
        bytes: T,
        _reservation: Arc<Reservation>,
    }
    impl<T: AsRef<[u8]>> AsRef<[u8]> for Reserved<T> {
        fn as_ref(&self) -> &[u8] {
            self.bytes.as_ref()
        }
    }
    match reservation {
        Some(_reservation) => Bytes::from_owner(Reserved { bytes, _reservation }),
        None => bytes.into(),
    }
}

/// Headers of every response except IDs, because headers cost as much as an ID. IDs are digits and
/// letters, which are harmless whatever type a browser guesses.
const FOR_BROWSERS: [(HeaderName, HeaderValue); 2] = [
    // Some responses quote the request: no browser must take that for a page or a script.
    (header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff")),
    (header::REFERRER_POLICY, HeaderValue::from_static("no-referrer")),
];

/// Returns a response that caches may store.
pub(in crate::server) fn response(
    content_type: &'static str,
    bytes: impl AsRef<[u8]> + Into<Bytes> + Send + 'static,
    reservation: Option<Arc<Reservation>>,
) -> Response {
    let body = reserved_bytes(bytes, reservation);
    (FOR_BROWSERS, [(header::CONTENT_TYPE, content_type)], body).into_response()
}

/// Returns a small JSON response that no cache may store; its memory is not reserved.
pub(in crate::server) fn uncached_json(status: StatusCode, value: &impl Serialize) -> Response {
    uncached(status, response("application/json", json_bytes(value), None))
}

/// Returns the JSON of a value.
pub(in crate::server) fn json_bytes(value: &impl Serialize) -> Vec<u8> {
    serde_json::to_vec(value).expect("texts and numbers are always JSON")
}

/// Returns the response with this status, and forbids caches to store it.
pub(in crate::server) fn uncached(status: StatusCode, mut response: Response) -> Response {
    *response.status_mut() = status;
    response.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}
