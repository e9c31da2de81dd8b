//! Ends connections: those whose clients are too slow or idle, and those that must make room.
//!
//! A connection is stalled if its client reads nothing of a response, and idle if the next step is
//! the client's. Stalled and idle ones end after a time-out, at a tick. If no place is free, the
//! connections that wait for their clients can be evicted, but not within their grace periods
//! ([`Activity::is_evictable`]).
//!
//! This module records nothing: it reads what `activity` has recorded. An ended connection loses
//! its open requests, so only a client that reads nothing is ended while a request is being
//! answered. Tests: tests/http/connection_limits.rs and unread.rs, and
//! tests/faults/overload/slow.rs.

use std::{sync::Arc, time::Duration};

use tokio::{
    task::AbortHandle,
    time::{Instant, sleep_until},
};

use super::{
    Server,
    activity::{Activity, CoarseClock, TICK},
    places::Places,
};
use crate::server::metrics::Dropped;

/// How long a client may read nothing of a response.
const STALLED: Duration = Duration::from_secs(30);

/// The same while memory for responses is scarce.
const STALLED_WHILE_SCARCE: Duration = Duration::from_secs(5);

/// How long a connection without a request may delay the stop of the service.
const IDLE_AT_STOP: Duration = Duration::from_secs(1);

/// A search evicts one in this many of the evictable connections, and at most this many. It looks
/// at every connection, so it should not run for each new client.
const EVICTED: usize = 64;

/// The open connections of a listener.
#[derive(Debug)]
pub(super) struct OpenConnections {
    pub(super) clock: CoarseClock,
    pub(super) places: Arc<Places>,
    server: Arc<Server>,
    /// When the next tick of `clock` is due.
    next_tick: Instant,
    idle_timeout: Duration,
    all: Vec<Entry>,
}

/// An open connection.
#[derive(Debug)]
struct Entry {
    activity: Arc<Activity>,
    task: AbortHandle,
    is_evicted: bool,
}

impl OpenConnections {
    pub(super) fn new(server: &Arc<Server>) -> Self {
        Self {
            clock: CoarseClock::start(),
            places: Arc::new(Places::new(server.max_connections, server.metrics.open.clone())),
            next_tick: Instant::now() + TICK,
            idle_timeout: server.idle_timeout,
            server: Arc::clone(server),
            all: Vec::new(),
        }
    }

    pub(super) fn add(&mut self, activity: Arc<Activity>, task: AbortHandle) {
        self.all.push(Entry { activity, task, is_evicted: false });
    }

    /// Ends connections that are idle for [`IDLE_AT_STOP`] from now on: some would never end by
    /// themselves.
    pub(super) fn stop(&mut self) {
        self.idle_timeout = self.idle_timeout.min(IDLE_AT_STOP);
    }

    /// Ends the connections of slow and idle clients, tick after tick.
    pub(super) async fn cut_off_slow(&mut self) -> ! {
        loop {
            sleep_until(self.next_tick).await;
            self.tick();
        }
    }

    fn tick(&mut self) {
        // Counts one tick, however late it is. After a suspension of the process, the clients'
        // requests wait in the kernel, so their connections must not look idle.
        self.next_tick = Instant::now() + TICK;
        self.clock.tick();
        let (stalled, reason) = match self.server.unsent_budget.is_scarce() {
            true => (STALLED_WHILE_SCARCE, Dropped::Unsent),
            false => (STALLED, Dropped::Stalled),
        };
        self.all.retain(|Entry { activity, task, .. }| {
            if task.is_finished() {
                return false;
            }
            let stalled_for = activity.stalled_for();
            let must_end = match stalled_for {
                Some(time) => time >= stalled,
                None => activity.waits_for_client() && activity.idle_for() >= self.idle_timeout,
            };
            if must_end {
                task.abort();
                if stalled_for.is_some() {
                    self.server.metrics.dropped(reason);
                }
            }
            !must_end
        });
        if self.places.are_wanted() {
            self.make_room();
        }
    }

    /// Evicts connections that wait for their clients: first those that never had an admitted
    /// request of a client, then those whose last one is longest ago.
    pub(super) fn make_room(&mut self) {
        if Instant::now() >= self.next_tick {
            self.tick();
        }
        let waiting =
            self.all.iter().enumerate().filter(|(_, entry)| entry.activity.is_evictable());
        // Among equals, those that were accepted first.
        let mut waiting: Vec<_> =
            waiting.map(|(index, entry)| (entry.activity.last_admitted(), index)).collect();
        let count = EVICTED.min(waiting.len().div_ceil(EVICTED));
        if let Some(last) = count.checked_sub(1) {
            waiting.select_nth_unstable(last);
        }
        for (_, index) in &waiting[..count] {
            self.all[*index].task.abort();
            self.all[*index].is_evicted = true;
            self.server.metrics.dropped(Dropped::Room);
        }
        if count > 0 {
            let waiting = waiting.len();
            tracing::debug!(count, waiting, "idle connections evicted: new ones need their places");
        }
        self.all.retain(|entry| !entry.is_evicted);
    }
}
