//! Bounds the memory of decoded heads of HTTP/2, over all connections.
//!
//! A few hundred bytes on the wire can decode to 40 KiB of headers. Before h2 hands over a request,
//! it decodes every head that it can read. Therefore `versioned_stream` lets a connection read only
//! a few KiB in a poll of its task, and only while [`HeadBudget::poll_room`] finds room.
//!
//! The budget is charged for a head when h2 hands over the request, and for all heads of one poll
//! by the end of the poll. So all heads together exceed the budget by at most what each worker
//! thread decodes in one poll. A head is released when the handler has read it. No client can delay
//! that; only a request on a spare place waits for a few seconds first. Tests: below, and
//! tests/faults/overload/heads.rs.

use std::{
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    task::{Context, Poll, ready},
};

use axum::http::HeaderMap;
use tokio::sync::{Notify, futures::OwnedNotified};

use super::connection::LARGEST_HEADER_LIST;

/// Bytes of one header: its entry in a [`HeaderMap`], and the allocation of its name.
const OF_HEADER: u64 = 104 + 48;

/// The budget of memory for decoded heads; clones share it.
#[derive(Clone, Debug)]
pub(in crate::server) struct HeadBudget(Arc<Budget>);

#[derive(Debug)]
struct Budget {
    /// In bytes.
    size: u64,
    used: AtomicU64,
    /// Wakes the connections that wait, when there is room again.
    freed: Arc<Notify>,
}

/// A connection's wait for room, from one poll to the next.
#[derive(Debug, Default)]
pub(super) struct WaitForRoom(Option<Pin<Box<OwnedNotified>>>);

/// A head's part of the budget, released on drop; stored as an extension of the request.
#[derive(Debug)]
pub(super) struct DecodedHead {
    budget: Arc<Budget>,
    /// In bytes.
    size: u64,
}

impl HeadBudget {
    /// Creates a budget of this many bytes.
    pub(in crate::server) fn new(size: u64) -> Self {
        Self(Arc::new(Budget { size, used: 0.into(), freed: Arc::default() }))
    }

    /// Charges a head, even beyond the budget, because it is decoded already.
    pub(super) fn charge(&self, headers: &HeaderMap) -> Arc<DecodedHead> {
        let size = u64::from(LARGEST_HEADER_LIST) + headers.capacity() as u64 * OF_HEADER;
        self.0.used.fetch_add(size, Relaxed);
        Arc::new(DecodedHead { budget: Arc::clone(&self.0), size })
    }

    /// Resolves when the budget has room, so that more may be read.
    pub(super) fn poll_room(&self, wait: &mut WaitForRoom, context: &mut Context<'_>) -> Poll<()> {
        while self.is_used_up() {
            let freed = || Box::pin(Arc::clone(&self.0.freed).notified_owned());
            let freed = wait.0.get_or_insert_with(freed);
            // Checked again after subscribing: room that was made in between sends no notice.
            if self.is_used_up() {
                ready!(freed.as_mut().poll(context));
            }
            wait.0 = None;
        }
        wait.0 = None;
        Poll::Ready(())
    }

    fn is_used_up(&self) -> bool {
        self.0.used.load(Relaxed) >= self.0.size
    }
}

impl Drop for DecodedHead {
    fn drop(&mut self) {
        let Budget { size, used, freed } = &*self.budget;
        let before = used.fetch_sub(self.size, Relaxed);
        if before >= *size && before - self.size < *size {
            freed.notify_waiters();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{
        sync::atomic::AtomicUsize,
        task::{Wake, Waker},
    };

    use axum::http::HeaderName;

    use super::*;

    #[derive(Default)]
    struct Wakes(AtomicUsize);

    impl Wake for Wakes {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Relaxed);
        }
    }

    #[test]
    fn a_connection_that_finds_no_room_is_woken_once_there_is_some() {
        let headers = HeaderMap::new();
        let budget = HeadBudget::new(u64::from(LARGEST_HEADER_LIST));
        let heads = [budget.charge(&headers), budget.charge(&headers)];
        let wakes = Arc::new(Wakes::default());
        let waker = Waker::from(Arc::clone(&wakes));
        let mut context = Context::from_waker(&waker);
        let mut waits = [WaitForRoom::default(), WaitForRoom::default()];
        for head in heads {
            for wait in &mut waits {
                assert_eq!(budget.poll_room(wait, &mut context), Poll::Pending);
            }
            assert_eq!(wakes.0.load(Relaxed), 0);
            drop(head);
        }
        assert_eq!(wakes.0.load(Relaxed), 2);
        // A connection that polls before the woken ones may use up the room first.
        let again = budget.charge(&headers);
        assert_eq!(budget.poll_room(&mut waits[0], &mut context), Poll::Pending);
        drop(again);
        for wait in &mut waits {
            assert_eq!(budget.poll_room(wait, &mut context), Poll::Ready(()));
        }
    }

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
