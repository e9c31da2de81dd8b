//! Bounds the memory of responses that their clients have not taken yet.
//!
//! A response reserves what it holds in memory before anything is claimed for it, and keeps that
//! until its last byte is handed to the kernel. Clients that ask and never read thus cost at most
//! `http.max_unsent`, however many they are.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

use axum::http::Version;

use super::problem::{Problem, ProblemCode};

/// Responses up to this size in bytes reserve nothing: a connection holds at most three times as many
/// bytes of them, and its read buffer is larger.
const FREE: usize = 4 * 1024;

/// The same over HTTP/2, where a connection holds as many of them as it has streams.
const FREE_OVER_HTTP2: usize = 512;

/// The part of the budget, as its divisor, that clients leave to scrapes and operators.
const OPERATORS_PART: u64 = 16;

/// The memory that unsent responses may use; clones share it.
#[derive(Clone, Debug)]
pub(in crate::server) struct UnsentBudget {
    /// In bytes.
    size: u64,
    used: Arc<AtomicU64>,
}

/// A part of the budget, until it is dropped.
#[derive(Debug)]
pub(in crate::server) struct Reservation {
    used: Arc<AtomicU64>,
    /// In bytes.
    size: u64,
}

impl UnsentBudget {
    /// A budget of this many bytes.
    pub(in crate::server) fn new(size: u64) -> Self {
        Self { size, used: Arc::default() }
    }

    /// Reserves memory for a response of this many bytes; none for a small one. The last part of
    /// the budget is for operators.
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

    /// The whole budget in bytes.
    pub(in crate::server) fn size(&self) -> u64 {
        self.size
    }

    /// Whether so many bytes and what is reserved are at most a quarter of the budget.
    pub(in crate::server) fn has_plenty(&self, bytes: usize) -> bool {
        self.used() + bytes as u64 <= self.size / 4
    }

    /// How many bytes are reserved.
    pub(in crate::server) fn used(&self) -> u64 {
        self.used.load(Relaxed)
    }

    /// Whether less than a quarter of the budget is free.
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
