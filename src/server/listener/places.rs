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

/// Connections of HTTP/2 that wait for more places may hold one place in this many, and
/// [`MOST_WAITING`] at most: if all places were theirs, none of them would get more.
const FOR_WAITING: usize = 32;
const MOST_WAITING: usize = 64;

/// How long a client may wait for a place of the clients, or for more of them. Longer than a served
/// connection is safe, so that one can be closed for it meanwhile.
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
    /// Each client that waits for places holds a clone.
    waiting: Arc<()>,
    /// The connections of HTTP/2 that may wait for more places.
    widening: Semaphore,
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

/// Why a spare place was not changed for a client's.
#[derive(Debug, Eq, PartialEq)]
pub(in crate::server) enum NoPlace {
    /// No client's place became free, or too few spare places are left to wait on.
    UsedUp,
    /// Another request of the connection waits for one.
    AskedFor,
}

impl Places {
    pub(super) fn new(most: usize, open: IntGauge) -> Self {
        let most_spare = (most / 4).clamp(8, SPARE_PLACES);
        let semaphore = |permits| Arc::new(Semaphore::new(permits));
        let (clients, spare) = (semaphore(most), semaphore(most_spare));
        let widening = Semaphore::new((most / FOR_WAITING).clamp(1, MOST_WAITING));
        Self { most, clients, most_spare, spare, waiting: Arc::default(), widening, open }
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

    /// Waits for so many more of the clients' places; `None` if that takes too long, or if too many
    /// connections wait already.
    async fn wait_for_more(&self, more: u32) -> Option<OwnedSemaphorePermit> {
        let _of_few = self.widening.try_acquire().ok()?;
        let _waiting = Arc::clone(&self.waiting);
        let more = Arc::clone(&self.clients).acquire_many_owned(more);
        timeout(PATIENCE, more).await.ok()?.ok()
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
        let free = Arc::clone(permit.semaphore()).try_acquire_many_owned(more).ok();
        let more = match free {
            None if !self.is_spare() => places.wait_for_more(more).await,
            free => free,
        };
        let Some(more) = more else { return false };
        permit.merge(more);
        true
    }

    /// Whether it is for probes and scrapes alone.
    pub(in crate::server) fn is_spare(&self) -> bool {
        self.is_spare.load(Relaxed)
    }

    /// Changes a spare place for a client's, unless that was done already. One request of a connection
    /// waits, since those that wait keep their heads in memory.
    pub(in crate::server) async fn change(&self) -> Result<(), NoPlace> {
        let places = &self.places;
        let permit = self.permit.try_lock();
        // Another request may just have changed it.
        if !self.is_spare() {
            return Ok(());
        }
        let Ok(mut permit) = permit else { return Err(NoPlace::AskedFor) };
        if places.spare.available_permits() < places.most_spare / FOR_PROBES {
            return Err(NoPlace::UsedUp);
        }
        let _waiting = Arc::clone(&places.waiting);
        let is_wide = permit.num_permits() > 1;
        let count = if is_wide { http2_places(places.most) } else { 1 };
        let clients = Arc::clone(&places.clients).acquire_many_owned(count);
        let Ok(Ok(clients)) = timeout(PATIENCE, clients).await else {
            return Err(NoPlace::UsedUp);
        };
        *permit = clients;
        self.is_spare.store(false, Relaxed);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use futures_util::{FutureExt as _, future::join_all};
    use tokio::time::Instant;

    use super::*;

    fn places(most: usize) -> Arc<Places> {
        Arc::new(Places::new(most, IntGauge::new("open", "open").expect("a gauge")))
    }

    #[tokio::test(start_paused = true)]
    async fn connections_of_http2_do_not_wait_for_each_other() {
        let places = places(32);
        let began = Instant::now();
        let taken = join_all((0..32).map(|_| places.take(|| {}))).await;
        let widened = join_all(taken.into_iter().map(async |place| {
            // One that gets no more gives its place back, so that others get theirs.
            place.widen().await.then_some(place)
        }));
        let wide: Vec<_> = widened.await.into_iter().flatten().collect();
        assert_eq!(began.elapsed(), Duration::ZERO);
        assert_eq!((wide.len(), places.taken()), (4, 32));
    }

    #[tokio::test(start_paused = true)]
    async fn one_request_of_a_connection_changes_its_spare_place() {
        let places = places(1);
        let client = places.take(|| {}).await;
        let spare = places.take(|| {}).await;
        assert!(spare.is_spare());
        let mut first = Box::pin(spare.change());
        assert_eq!((&mut first).now_or_never(), None);
        assert_eq!(spare.change().now_or_never(), Some(Err(NoPlace::AskedFor)));
        drop(client);
        assert_eq!(first.await, Ok(()));
        // It saw a spare place before.
        assert_eq!(spare.change().now_or_never(), Some(Ok(())));
        assert_eq!(places.taken(), 1);
        let other = places.take(|| {}).await;
        assert_eq!(other.change().await, Err(NoPlace::UsedUp));
    }
}
