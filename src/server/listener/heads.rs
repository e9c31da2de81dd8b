//! Bounds the memory of the heads of HTTP/2 that are decoded at the same time, over all connections.
//!
//! HTTP/2 decodes every head that it can read before it hands over the first one, and reads again
//! before it hands over the next; a few hundred bytes on the wire can decode to 40 KiB. So a
//! connection reads little in a turn, which is one poll of its task, and only while there is room for
//! what all have decoded. All heads of a turn are counted when it ends, so that decoded heads never
//! exceed the budget by more than what each thread decodes in one turn. Heads are dropped when their
//! handlers have read them, which no client can delay, and after a few seconds on a spare place.

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

/// The bytes of a header in a [`HeaderMap`], and of the allocation of a name.
const OF_HEADER: u64 = 104 + 48;

/// The memory that decoded heads may use; clones share it.
#[derive(Clone, Debug)]
pub(in crate::server) struct HeadBudget(Arc<Budget>);

#[derive(Debug)]
struct Budget {
    /// In bytes.
    size: u64,
    used: AtomicU64,
    /// Tells those that wait that there is room again.
    freed: Arc<Notify>,
}

/// A connection's wait for room, from one poll to the next.
#[derive(Debug, Default)]
pub(super) struct WaitForRoom(Option<Pin<Box<OwnedNotified>>>);

/// A part of the budget, until it is dropped with the head whose extension it is.
#[derive(Debug)]
pub(super) struct DecodedHead {
    budget: Arc<Budget>,
    /// In bytes.
    size: u64,
}

impl HeadBudget {
    /// A budget of this many bytes.
    pub(in crate::server) fn new(size: u64) -> Self {
        Self(Arc::new(Budget { size, used: 0.into(), freed: Arc::default() }))
    }

    /// Counts a head, even beyond the budget: it is decoded already.
    pub(super) fn charge(&self, headers: &HeaderMap) -> Arc<DecodedHead> {
        let size = u64::from(LARGEST_HEADER_LIST) + headers.capacity() as u64 * OF_HEADER;
        self.0.used.fetch_add(size, Relaxed);
        Arc::new(DecodedHead { budget: Arc::clone(&self.0), size })
    }

    /// Waits until more may be decoded.
    pub(super) fn poll_room(&self, wait: &mut WaitForRoom, context: &mut Context<'_>) -> Poll<()> {
        while self.is_used_up() {
            let freed = || Box::pin(Arc::clone(&self.0.freed).notified_owned());
            let freed = wait.0.get_or_insert_with(freed);
            // Room that was made before the notice was asked for must not be missed.
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
        // Who comes before those that were woken has its turn first.
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
