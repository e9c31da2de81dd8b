//! Bounds the memory of the heads of HTTP/2 that are decoded at the same time, over all connections.
//!
//! HTTP/2 decodes every head that has arrived before it hands over the first one, and a few hundred
//! bytes on the wire can decode to 40 KiB. So a connection reads only while there is room for what
//! others have decoded, and little at a time: what is decoded is at most the budget and what each
//! thread reads at once. Heads are dropped when their handlers have read them, whatever their
//! clients do, so a connection that finds no room only has to let other tasks run.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering::Relaxed},
};

use axum::http::HeaderMap;

use super::connection::LARGEST_HEADER_LIST;

/// The bytes of a header in a [`HeaderMap`], and of the allocation of a name.
const OF_HEADER: u64 = 104 + 48;

/// The memory that decoded heads may use; clones share it.
#[derive(Clone, Debug)]
pub(in crate::server) struct HeadBudget {
    /// In bytes.
    size: u64,
    used: Arc<AtomicU64>,
}

/// A part of the budget, until it is dropped with the head whose extension it is.
#[derive(Debug)]
pub(super) struct DecodedHead {
    used: Arc<AtomicU64>,
    /// In bytes.
    size: u64,
}

impl HeadBudget {
    /// A budget of this many bytes.
    pub(in crate::server) fn new(size: u64) -> Self {
        Self { size, used: Arc::default() }
    }

    /// Counts a head, even beyond the budget: it is decoded already.
    pub(super) fn charge(&self, headers: &HeaderMap) -> Arc<DecodedHead> {
        let size = u64::from(LARGEST_HEADER_LIST) + headers.capacity() as u64 * OF_HEADER;
        self.used.fetch_add(size, Relaxed);
        Arc::new(DecodedHead { used: Arc::clone(&self.used), size })
    }

    /// Whether no more may be decoded.
    pub(super) fn is_used_up(&self) -> bool {
        self.used.load(Relaxed) >= self.size
    }
}

impl Drop for DecodedHead {
    fn drop(&mut self) {
        self.used.fetch_sub(self.size, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderName;

    use super::*;

    #[test]
    fn a_head_counts_by_the_room_of_its_headers_until_it_is_dropped() {
        let budget = HeadBudget::new(64 * 1024);
        let mut headers = HeaderMap::new();
        drop(budget.charge(&headers));
        assert!(!budget.is_used_up());
        for number in 0..236 {
            let name = HeaderName::try_from(format!("x{number}")).expect("a name");
            headers.append(name, "".parse().expect("a value"));
        }
        let first = budget.charge(&headers);
        assert!(budget.is_used_up(), "{first:?}");
        drop(first);
        assert!(!budget.is_used_up());
    }
}
