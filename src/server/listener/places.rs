//! The places that connections take: a bound on open connections that leaves room for probes.
//!
//! `http.max_connections` places are for clients. A connection of HTTP/2 takes several, in
//! proportion to its memory. When they are used up and eviction makes no room within 10 ms, a new
//! connection takes one of a few spare places, on which probes and scrapes are answered. The first
//! request of a client on a spare place waits for a place of the clients ([`Place::leave_spare`]),
//! and is refused if it gets none. [`PerAddress`] also bounds the connections of each address,
//! which is counted before a place is taken.
//!
//! This module evicts nothing: [`Places::take`] calls `make_room`, and [`Places::are_wanted`] tells
//! `open` that a connection waits. Two bounds keep waiting connections from using up the places:
//! [`FOR_PROBES`] and [`FOR_WAITING`]. Tests: below, tests/http/connection_limits.rs and
//! tests/http/http2.rs.

use std::{
    collections::HashMap,
    net::IpAddr,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    time::Duration,
};

use ipnet::IpNet;
use prometheus::IntGauge;
use tokio::{
    sync::{Mutex as AsyncMutex, OwnedSemaphorePermit, Semaphore},
    time::timeout,
};

use crate::{
    config::HttpConfig,
    server::{clients, memory::HTTP2_PLACES, metrics::Counted},
};

/// How long to wait for a place after connections were evicted.
const PLACE_WITHIN: Duration = Duration::from_millis(10);

/// The most spare places: enough for probes, scrapes and people. Each is an open file, so there are
/// only a quarter as many as clients' places if those are few, but at least 8.
pub(in crate::server) const SPARE_PLACES: usize = 64;

/// Divisor of the share of spare places that stays for probes. While fewer spare places than that
/// are free, no client waits on one.
const FOR_PROBES: usize = 4;

/// Divisor of the share of the clients' places whose connections may wait for the additional places
/// of HTTP/2. If waiting connections held all places, none of them would get more.
const FOR_WAITING: usize = 32;
/// The most connections that may wait for additional places.
const MOST_WAITING: usize = 64;

/// How long a client may wait for clients' places. Longer than the grace period of a served
/// connection (`activity`), so that the service can evict one meanwhile.
const PATIENCE: Duration = Duration::from_secs(3);

/// Returns the number of places that a connection of HTTP/2 takes, given how many there are.
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
    /// Counts the connections that wait for clients' places: each holds a clone.
    waiting: Arc<()>,
    /// A permit for each connection of HTTP/2 that may wait for more places.
    may_wait: Semaphore,
    /// The metric of open connections.
    open: IntGauge,
}

/// The place of a connection, until this is dropped. One of HTTP/2 holds several in one permit.
#[derive(Debug)]
pub(super) struct Place {
    // Declared first, so that it is dropped before the permit: otherwise the next connection could
    // take the place while this one is still counted as open.
    _open: Counted,
    permit: AsyncMutex<OwnedSemaphorePermit>,
    is_spare: AtomicBool,
    places: Arc<Places>,
}

/// Why a connection on a spare place got no place of the clients.
#[derive(Debug, Eq, PartialEq)]
pub(in crate::server) enum NoPlace {
    /// No place of the clients became free in time, or too few spare places are left for probes.
    UsedUp,
    /// Another request of the connection waits already.
    AlreadyWaiting,
}

impl Places {
    pub(super) fn new(most: usize, open: IntGauge) -> Self {
        let most_spare = (most / 4).clamp(8, SPARE_PLACES);
        let semaphore = |permits| Arc::new(Semaphore::new(permits));
        let (clients, spare) = (semaphore(most), semaphore(most_spare));
        let may_wait = Semaphore::new((most / FOR_WAITING).clamp(1, MOST_WAITING));
        Self { most, clients, most_spare, spare, waiting: Arc::default(), may_wait, open }
    }

    /// Returns how many of the clients' places are in use.
    pub(super) fn taken(&self) -> usize {
        self.most - self.clients.available_permits()
    }

    /// Returns whether a connection waits for clients' places.
    pub(super) fn are_wanted(&self) -> bool {
        Arc::strong_count(&self.waiting) > 1
    }

    /// Takes a place of the clients, or a spare one if eviction makes no room in time. Calls
    /// `make_room` whenever the clients' places are used up.
    pub(super) async fn take(self: &Arc<Self>, mut make_room: impl FnMut()) -> Place {
        let place = |permit, is_spare| Place {
            _open: Counted::new(self.open.clone()),
            permit: AsyncMutex::new(permit),
            is_spare: AtomicBool::new(is_spare),
            places: Arc::clone(self),
        };
        if let Ok(permit) = Arc::clone(&self.clients).try_acquire_owned() {
            return place(permit, false);
        }
        loop {
            make_room();
            let client = timeout(PLACE_WITHIN, Arc::clone(&self.clients).acquire_owned()).await;
            // `acquire_owned` fails only on a closed semaphore, and these are never closed.
            if let Ok(Ok(permit)) = client {
                return place(permit, false);
            }
            if let Ok(permit) = Arc::clone(&self.spare).try_acquire_owned() {
                return place(permit, true);
            }
        }
    }

    /// Waits for this many more of the clients' places. Returns `None` if they do not become free
    /// in time, or if too many connections wait already.
    async fn wait_for_more(&self, count: u32) -> Option<OwnedSemaphorePermit> {
        let _may_wait = self.may_wait.try_acquire().ok()?;
        let _waiting = Arc::clone(&self.waiting);
        let taken = Arc::clone(&self.clients).acquire_many_owned(count);
        timeout(PATIENCE, taken).await.ok()?.ok()
    }
}

impl Place {
    /// Takes the additional places of HTTP/2, and returns false if there are none. On a spare place
    /// it does not wait for more spare ones.
    pub(super) async fn take_http2_places(&self) -> bool {
        let places = &self.places;
        // At most half of the spare places. If fewer stayed for probes than `leave_spare` requires,
        // it would refuse every client.
        let most = if self.is_spare() { places.most_spare / 2 } else { places.most };
        let count = http2_places(most) - 1;
        let mut permit = self.permit.lock().await;
        let free = Arc::clone(permit.semaphore()).try_acquire_many_owned(count).ok();
        let taken = match free {
            None if !self.is_spare() => places.wait_for_more(count).await,
            free => free,
        };
        let Some(taken) = taken else { return false };
        permit.merge(taken);
        true
    }

    /// Returns whether it is a spare place, for probes and scrapes only.
    pub(super) fn is_spare(&self) -> bool {
        self.is_spare.load(Relaxed)
    }

    /// Moves the connection from its spare place to a clients' place, unless another request has
    /// done so. Only one request of a connection waits, because each waiting request keeps its head
    /// in memory.
    pub(super) async fn leave_spare(&self) -> Result<(), NoPlace> {
        let places = &self.places;
        let permit = self.permit.try_lock();
        // Another request may have moved the connection since the caller looked.
        if !self.is_spare() {
            return Ok(());
        }
        let Ok(mut permit) = permit else { return Err(NoPlace::AlreadyWaiting) };
        if places.spare.available_permits() < places.most_spare / FOR_PROBES {
            return Err(NoPlace::UsedUp);
        }
        let _waiting = Arc::clone(&places.waiting);
        let is_http2 = permit.num_permits() > 1;
        let count = if is_http2 { http2_places(places.most) } else { 1 };
        let clients = Arc::clone(&places.clients).acquire_many_owned(count);
        let Ok(Ok(clients)) = timeout(PATIENCE, clients).await else {
            return Err(NoPlace::UsedUp);
        };
        *permit = clients;
        self.is_spare.store(false, Relaxed);
        Ok(())
    }
}

/// The open connections by client address.
#[derive(Debug, Default)]
pub(in crate::server) struct PerAddress {
    /// `None` without a limit: then nothing is counted.
    most: Option<usize>,
    /// Trusted proxies: their connections are not limited, since each carries many clients.
    proxies: Vec<IpNet>,
    open: Mutex<HashMap<IpAddr, usize>>,
}

/// A counted connection of an address, until this is dropped.
#[derive(Debug)]
pub(super) struct OfAddress {
    all: Arc<PerAddress>,
    subscriber: IpAddr,
}

/// The address has reached its limit.
#[derive(Debug)]
pub(super) struct TooMany;

impl PerAddress {
    pub(in crate::server) fn new(http: &HttpConfig) -> Self {
        let most = http.max_connections_per_ip.map(|most| most.get() as usize);
        Self { most, proxies: http.trusted_proxies.clone(), open: Mutex::default() }
    }

    /// Counts a connection. Returns `None` if connections from this address have no limit.
    pub(super) fn begin(self: &Arc<Self>, peer: IpAddr) -> Result<Option<OfAddress>, TooMany> {
        let Some(most) = self.most else { return Ok(None) };
        if clients::is_in(peer.to_canonical(), &self.proxies) {
            return Ok(None);
        }
        let subscriber = clients::subscriber(peer);
        let mut open = self.open();
        let count = open.entry(subscriber).or_default();
        if *count >= most {
            return Err(TooMany);
        }
        *count += 1;
        Ok(Some(OfAddress { all: Arc::clone(self), subscriber }))
    }

    fn open(&self) -> MutexGuard<'_, HashMap<IpAddr, usize>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for OfAddress {
    fn drop(&mut self) {
        let mut open = self.all.open();
        if let Some(count) = open.get_mut(&self.subscriber) {
            *count -= 1;
            if *count == 0 {
                open.remove(&self.subscriber);
            }
        }
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
        let taken_more = join_all(taken.into_iter().map(async |place| {
            // A connection that gets no more places gives its own back, so that others get theirs.
            place.take_http2_places().await.then_some(place)
        }));
        let has_more: Vec<_> = taken_more.await.into_iter().flatten().collect();
        assert_eq!(began.elapsed(), Duration::ZERO);
        assert_eq!((has_more.len(), places.taken()), (4, 32));
    }

    #[tokio::test(start_paused = true)]
    async fn few_places_do_not_keep_http2_out() {
        for most in 1..=64 {
            let places = places(most);
            let first = places.take(|| {}).await;
            assert!(first.take_http2_places().await, "{most} places");
            let rest = join_all((places.taken()..most).map(|_| places.take(|| {}))).await;
            // All places are taken: the next connection waits on spare ones until others end.
            let next = places.take(|| {}).await;
            assert!(next.is_spare() && next.take_http2_places().await, "{most} places");
            let mut leaving = Box::pin(next.leave_spare());
            assert_eq!((&mut leaving).now_or_never(), None, "{most} places");
            drop((first, rest));
            assert_eq!(leaving.await, Ok(()), "{most} places");
            assert_eq!(places.taken(), http2_places(most) as usize);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn one_request_of_a_connection_leaves_its_spare_place() {
        let places = places(1);
        let client = places.take(|| {}).await;
        let spare = places.take(|| {}).await;
        assert!(spare.is_spare());
        let mut first = Box::pin(spare.leave_spare());
        assert_eq!((&mut first).now_or_never(), None);
        assert_eq!(spare.leave_spare().now_or_never(), Some(Err(NoPlace::AlreadyWaiting)));
        drop(client);
        assert_eq!(first.await, Ok(()));
        // Acts like a request that found a spare place before the first one was done.
        assert_eq!(spare.leave_spare().now_or_never(), Some(Ok(())));
        assert_eq!(places.taken(), 1);
        let other = places.take(|| {}).await;
        assert_eq!(other.leave_spare().await, Err(NoPlace::UsedUp));
    }
}
