//! Bodies of responses.

use std::sync::Arc;

use axum::{
    body::Bytes,
    http::{HeaderName, HeaderValue, StatusCode, header},
    response::{IntoResponse as _, Response},
};
use serde::Serialize;

use super::unsent::Reservation;

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

/// A small JSON response that no cache keeps: its memory is not reserved.
pub(in crate::server) fn uncached_json(status: StatusCode, value: &impl Serialize) -> Response {
    uncached(status, response("application/json", json_bytes(value), None))
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
