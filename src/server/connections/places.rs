//! The places that connections take: clients' up to `http.max_connections`, and a few more, so that
//! probes and scrapes are answered when clients have taken every other.

use std::{sync::Arc, time::Duration};

use prometheus::IntGauge;
use tokio::{
    sync::{Notify, OwnedSemaphorePermit, Semaphore, futures::Notified},
    time::{Instant, timeout},
};

use crate::server::metrics::Counted;

/// How long to wait between attempts to evict a connection.
const EVICT_AGAIN: Duration = Duration::from_millis(10);

/// Enough for probes, scrapes and people; a quarter of the clients' places if those are few, since
/// each is an open file.
pub(super) const SPARE_PLACES: usize = 64;

/// How long a client with a spare place waits between attempts.
const ASK_AGAIN: Duration = Duration::from_millis(100);

/// The part of the spare places, as its divisor, in which no client may wait.
const FOR_PROBES: usize = 4;

/// How long a client may wait: connections that were idle for that long can be evicted.
const PATIENCE: Duration = Duration::from_secs(11);

/// The places of a listener.
#[derive(Debug)]
pub(super) struct Places {
    most: usize,
    clients: Arc<Semaphore>,
    most_spare: usize,
    spare: Arc<Semaphore>,
    wanted: Notify,
    /// Counts the places that are taken.
    open: IntGauge,
}

/// A connection's place, until it is dropped.
#[derive(Debug)]
pub(super) struct Place {
    // Dropped before the permit: otherwise whoever takes the place next would be counted beside it.
    _open: Counted,
    places: Arc<Places>,
    permit: OwnedSemaphorePermit,
    is_spare: bool,
}

impl Places {
    pub(super) fn new(most: usize, open: IntGauge) -> Self {
        let most_spare = (most / 4).clamp(8, SPARE_PLACES);
        let semaphore = |permits| Arc::new(Semaphore::new(permits));
        let (clients, spare) = (semaphore(most), semaphore(most_spare));
        Self { most, clients, most_spare, spare, wanted: Notify::new(), open }
    }

    /// The number of clients' places that are taken.
    pub(super) fn taken(&self) -> usize {
        self.most - self.clients.available_permits()
    }

    /// Resolves when a connection needs the place of another.
    pub(super) fn wanted(&self) -> Notified<'_> {
        self.wanted.notified()
    }

    /// Takes a place; while there is none, `evict` is called to make room.
    pub(super) async fn take(self: &Arc<Self>, mut evict: impl FnMut()) -> Place {
        let place = |permit, is_spare| {
            let _open = Counted::new(self.open.clone());
            Place { _open, places: Arc::clone(self), permit, is_spare }
        };
        if let Ok(permit) = Arc::clone(&self.clients).try_acquire_owned() {
            return place(permit, false);
        }
        loop {
            evict();
            let client = timeout(EVICT_AGAIN, Arc::clone(&self.clients).acquire_owned()).await;
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
    pub(super) fn is_spare(&self) -> bool {
        self.is_spare
    }

    /// Changes a spare place for a client's. Returns whether that was possible.
    pub(super) async fn change(&mut self) -> bool {
        let deadline = Instant::now() + PATIENCE;
        let for_probes = self.places.most_spare / FOR_PROBES;
        if self.is_spare && self.places.spare.available_permits() < for_probes {
            return false;
        }
        while self.is_spare && Instant::now() < deadline {
            self.places.wanted.notify_one();
            let clients = Arc::clone(&self.places.clients);
            if let Ok(Ok(permit)) = timeout(ASK_AGAIN, clients.acquire_owned()).await {
                (self.permit, self.is_spare) = (permit, false);
            }
        }
        !self.is_spare
    }
}
