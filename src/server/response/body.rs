//! Bodies of responses, and a bound on the memory of those that their clients have not read yet.
//!
//! A response reserves the memory that it will hold before any ID is claimed for it, so that no ID
//! is lost to a refusal. It keeps the reservation until the kernel has taken its last byte
//! ([`reserved_bytes`]). Clients that send requests and never read thus cost at most
//! `http.max_unsent`, however many they are; then responses are refused with 503. `listener::open`
//! ends those connections, sooner while the budget is scarce. Responses below a few KiB reserve
//! nothing; the number of connections bounds them. Tests: tests/http/unread.rs.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

use axum::{
    body::Bytes,
    http::{HeaderName, HeaderValue, StatusCode, Version, header},
    response::{IntoResponse as _, Response},
};
use serde::Serialize;

use super::problem::{Problem, ProblemCode};

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

/// Responses up to this size in bytes reserve nothing: a connection of HTTP/1 holds at most three
/// times this much of them, which is less than its read buffer.
const FREE: usize = 4 * 1024;

/// The same over HTTP/2, where each stream of a connection holds one such response.
const FREE_OVER_HTTP2: usize = 512;

/// Divisor of the share of the budget that clients leave to scrapes and operators.
const OPERATORS_PART: u64 = 16;

/// The budget of memory for unsent responses; clones share it.
#[derive(Clone, Debug)]
pub(in crate::server) struct UnsentBudget {
    /// In bytes.
    size: u64,
    used: Arc<AtomicU64>,
}

/// A part of the budget, released when this is dropped.
#[derive(Debug)]
pub(in crate::server) struct Reservation {
    used: Arc<AtomicU64>,
    /// In bytes.
    size: u64,
}

impl UnsentBudget {
    /// Creates a budget of this many bytes.
    pub(in crate::server) fn new(size: u64) -> Self {
        Self { size, used: Arc::default() }
    }

    /// Reserves memory for a response of this many bytes, and none for a small one. With
    /// `is_for_clients`, the last part of the budget is left to operators.
    pub(in crate::server) fn reserve(
        &self,
        bytes: usize,
        version: Version,
        is_for_clients: bool,
    ) -> Result<Option<Arc<Reservation>>, Problem> {
        let free = if version == Version::HTTP_2 { FREE_OVER_HTTP2 } else { FREE };
        if bytes <= free {
            return Ok(None);
        }
        let size = bytes as u64;
        let most = self.size - if is_for_clients { self.size / OPERATORS_PART } else { 0 };
        let reserved = self
            .used
            .try_update(Relaxed, Relaxed, |used| Some(used + size).filter(|it| *it <= most));
        reserved.map_err(|_| {
            let kib = self.size / 1024;
            let detail = format!(
                "responses that clients have not read yet use up http.max_unsent ({kib} KiB)"
            );
            Problem::passing(ProblemCode::Overloaded, detail, Duration::from_secs(1))
        })?;
        let used = Arc::clone(&self.used);
        Ok(Some(Arc::new(Reservation { used, size })))
    }

    /// Returns the whole budget in bytes.
    pub(in crate::server) fn size(&self) -> u64 {
        self.size
    }

    /// Returns whether this many bytes and all reservations together are at most a quarter of the
    /// budget.
    pub(in crate::server) fn has_plenty(&self, bytes: usize) -> bool {
        self.used() + bytes as u64 <= self.size / 4
    }

    /// Returns how many bytes are reserved.
    pub(in crate::server) fn used(&self) -> u64 {
        self.used.load(Relaxed)
    }

    /// Returns whether less than a quarter of the budget is free.
    pub(in crate::server) fn is_scarce(&self) -> bool {
        self.used() > self.size - self.size / 4
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        self.used.fetch_sub(self.size, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_responses_share_the_budget() {
        let budget = UnsentBudget::new(64 * 1024);
        assert!(budget.reserve(FREE, Version::HTTP_11, true).expect("small").is_none());
        let over_http2 = budget.reserve(FREE, Version::HTTP_2, true).expect("room");
        assert_eq!(over_http2.expect("not free").size, FREE as u64);
        let first = budget.reserve(40_001, Version::HTTP_11, true).expect("room").expect("large");
        assert_eq!((first.size, budget.used(), budget.is_scarce()), (40_001, 40_001, false));
        let second = budget.reserve(18_000, Version::HTTP_11, true).expect("room");
        assert!(budget.is_scarce());
        assert!(!budget.has_plenty(0));
        let refused = budget.reserve(5_000, Version::HTTP_11, true).expect_err("full");
        assert_eq!(refused.code(), ProblemCode::Overloaded);
        drop(budget.reserve(5_000, Version::HTTP_11, false).expect("room for operators"));
        drop(first);
        assert!(budget.reserve(5_000, Version::HTTP_11, true).expect("room again").is_some());
        drop(second);
        assert!(budget.reserve(60 * 1024 + 1, Version::HTTP_11, true).is_err());
        assert_eq!((budget.used(), budget.is_scarce()), (0, false));
        assert!(budget.has_plenty(16 * 1024) && !budget.has_plenty(16 * 1024 + 1));
    }
}
