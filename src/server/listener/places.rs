//! The places that connections take: clients' up to `http.max_connections`, and a few more, so that
//! probes and scrapes are answered when clients have taken every other.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    time::Duration,
};

use prometheus::IntGauge;
use tokio::{
    sync::{Mutex, OwnedSemaphorePermit, Semaphore},
    time::timeout,
};

use crate::server::{memory::HTTP2_PLACES, metrics::Counted};

/// How long to wait for a place that was just made.
const PLACE_WITHIN: Duration = Duration::from_millis(10);

/// Enough for probes, scrapes and people; a quarter of the clients' places if those are few, since
/// each is an open file.
pub(in crate::server) const SPARE_PLACES: usize = 64;

/// The part of the spare places, as its divisor, in which no client may wait.
const FOR_PROBES: usize = 4;

/// How long a client may wait on a spare place: longer than another is safe.
const PATIENCE: Duration = Duration::from_secs(3);

/// The places that a connection of HTTP/2 takes of so many.
fn http2_places(most: usize) -> u32 {
    u32::try_from(HTTP2_PLACES.min(most as u64)).expect("few")
}

/// The places of a listener.
#[derive(Debug)]
pub(super) struct Places {
    most: usize,
    clients: Arc<Semaphore>,
    most_spare: usize,
    spare: Arc<Semaphore>,
    /// Each client that waits on a spare place holds a clone.
    waiting: Arc<()>,
    /// Counts the places that are taken.
    open: IntGauge,
}

/// A connection's place, until it is dropped.
#[derive(Debug)]
pub(in crate::server) struct Place {
    // Dropped before the permit: otherwise whoever takes the place next would be counted beside it.
    _open: Counted,
    permit: Mutex<OwnedSemaphorePermit>,
    is_spare: AtomicBool,
    places: Arc<Places>,
}

impl Places {
    pub(super) fn new(most: usize, open: IntGauge) -> Self {
        let most_spare = (most / 4).clamp(8, SPARE_PLACES);
        let semaphore = |permits| Arc::new(Semaphore::new(permits));
        let (clients, spare) = (semaphore(most), semaphore(most_spare));
        Self { most, clients, most_spare, spare, waiting: Arc::default(), open }
    }

    /// The number of clients' places that are taken.
    pub(super) fn taken(&self) -> usize {
        self.most - self.clients.available_permits()
    }

    /// Whether a client waits for a place.
    pub(super) fn are_wanted(&self) -> bool {
        Arc::strong_count(&self.waiting) > 1
    }

    /// Takes a place; while there is none, calls `make_room`.
    pub(super) async fn take(self: &Arc<Self>, mut make_room: impl FnMut()) -> Place {
        let place = |permit, is_spare| Place {
            _open: Counted::new(self.open.clone()),
            permit: Mutex::new(permit),
            is_spare: AtomicBool::new(is_spare),
            places: Arc::clone(self),
        };
        if let Ok(permit) = Arc::clone(&self.clients).try_acquire_owned() {
            return place(permit, false);
        }
        loop {
            make_room();
            let client = timeout(PLACE_WITHIN, Arc::clone(&self.clients).acquire_owned()).await;
            // The semaphores are never closed.
            if let Ok(Ok(permit)) = client {
                return place(permit, false);
            }
            if let Ok(permit) = Arc::clone(&self.spare).try_acquire_owned() {
                return place(permit, true);
            }
        }
    }
}

impl Place {
    /// Takes as many more places as the buffers and requests of HTTP/2 need; a spare place only if
    /// they are free. Returns whether that was possible.
    pub(super) async fn widen(&self) -> bool {
        let places = &self.places;
        let most = if self.is_spare() { places.most_spare } else { places.most };
        let more = http2_places(most) - 1;
        let mut permit = self.permit.lock().await;
        let semaphore = Arc::clone(permit.semaphore());
        let more = if self.is_spare() {
            semaphore.try_acquire_many_owned(more).ok()
        } else {
            let _waiting = Arc::clone(&places.waiting);
            timeout(PATIENCE, semaphore.acquire_many_owned(more)).await.ok().and_then(Result::ok)
        };
        let Some(more) = more else { return false };
        permit.merge(more);
        true
    }

    /// Whether it is for probes and scrapes alone.
    pub(in crate::server) fn is_spare(&self) -> bool {
        self.is_spare.load(Relaxed)
    }

    /// Changes a spare place for a client's. Returns whether that was possible: one request of a
    /// connection waits, since those that wait keep their heads in memory.
    pub(in crate::server) async fn change(&self) -> bool {
        let places = &self.places;
        let Ok(mut permit) = self.permit.try_lock() else { return false };
        if places.spare.available_permits() < places.most_spare / FOR_PROBES {
            return false;
        }
        let _waiting = Arc::clone(&places.waiting);
        let is_wide = permit.num_permits() > 1;
        let count = if is_wide { http2_places(places.most) } else { 1 };
        let clients = Arc::clone(&places.clients).acquire_many_owned(count);
        let Ok(Ok(clients)) = timeout(PATIENCE, clients).await else { return false };
        *permit = clients;
        self.is_spare.store(false, Relaxed);
        true
    }
}
