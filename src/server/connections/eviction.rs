//! Which connections are ended: those whose clients take too long, and one when the limit is reached
//! and another client connects.

use std::{collections::VecDeque, sync::Arc, time::Duration};

use tokio::{task::AbortHandle, time::Instant};

use super::activity::{CoarseClock, ConnectionActivity, Phase, TICK};

/// How long a new connection is safe from eviction before its first request.
const GRACE: Duration = Duration::from_secs(1);

/// The open connections, in two queues.
#[derive(Debug)]
pub(super) struct OpenConnections {
    pub(super) clock: CoarseClock,
    /// When the clock's next tick is due.
    pub(super) next_tick: Instant,
    /// When slow readers were last evicted.
    pub(super) relieved: Instant,
    /// Connections that had no authorised request yet, as far as is known; the oldest first.
    newcomers: VecDeque<Entry>,
    /// Connections of clients.
    clients: VecDeque<Entry>,
    /// When none of them could be evicted.
    clients_looked_at: Option<u32>,
}

/// An open connection.
#[derive(Debug)]
struct Entry {
    activity: Arc<ConnectionActivity>,
    task: AbortHandle,
    since: Instant,
}

impl OpenConnections {
    pub(super) fn new(clock: CoarseClock) -> Self {
        let ((newcomers, clients), now) = (Default::default(), Instant::now());
        let next_tick = now + TICK;
        Self { clock, next_tick, relieved: now, newcomers, clients, clients_looked_at: None }
    }

    /// Counts one tick, however late it is: a process that was suspended has requests to read. Ends
    /// the connections whose clients take too long, and tells in which phase.
    pub(super) fn tick(&mut self, mut cut_off: impl FnMut(Phase)) {
        self.next_tick = Instant::now() + TICK;
        self.clock.tick();
        for entry in self.newcomers.iter().chain(&self.clients) {
            if let Some(phase) = entry.activity.overdue()
                && !entry.task.is_finished()
            {
                entry.task.abort();
                cut_off(phase);
            }
        }
    }

    /// Adds a new connection.
    pub(super) fn add(&mut self, activity: Arc<ConnectionActivity>, task: AbortHandle) {
        push(&mut self.newcomers, Entry { activity, task, since: Instant::now() });
    }

    /// Ends one connection that waits for its client: a newcomer if possible, or else a client's
    /// that is idle. Returns `false` when every client is being answered or has just connected.
    pub(super) fn evict_one(&mut self) -> bool {
        for _ in 0..self.newcomers.len() {
            let Some(entry) = self.newcomers.pop_front() else { break };
            if entry.task.is_finished() {
                continue;
            }
            if entry.activity.is_of_client() {
                push(&mut self.clients, entry);
            } else if entry.activity.phase() == Phase::Answering {
                self.newcomers.push_back(entry);
            } else if entry.activity.had_empty_read() && entry.since.elapsed() >= GRACE {
                entry.task.abort();
                return true;
            } else {
                self.newcomers.push_front(entry);
                break;
            }
        }
        // Whether a client waits changes with the clock alone, and looking at all takes long.
        if self.clients_looked_at == Some(self.clock.now()) {
            return false;
        }
        for _ in 0..self.clients.len() {
            let Some(entry) = self.clients.pop_front() else { break };
            if entry.task.is_finished() {
                continue;
            }
            if entry.activity.waits_for_client() {
                entry.task.abort();
                return true;
            }
            self.clients.push_back(entry);
        }
        self.clients_looked_at = Some(self.clock.now());
        false
    }

    /// Ends the connections whose clients read their responses slowest, until that frees this many
    /// bytes. Returns how many.
    pub(super) fn evict_slow_readers(&self, bytes: u64) -> u64 {
        let now = Instant::now();
        let all = self.newcomers.iter().chain(&self.clients);
        let mut slowest: Vec<_> = all
            .filter_map(|entry| {
                let (size, slowness) = entry.activity.slow_reading(now)?;
                Some((slowness, size, entry))
            })
            .collect();
        slowest.sort_unstable_by_key(|(slowness, ..)| std::cmp::Reverse(*slowness));
        let (mut freed, mut evicted) = (0, 0);
        for (_, size, entry) in slowest {
            if freed >= bytes {
                break;
            }
            entry.activity.begin_eviction();
            entry.task.abort();
            (freed, evicted) = (freed + size, evicted + 1);
        }
        evicted
    }
}

/// Drops the ended ones before a queue grows, so that each costs little on average.
fn push(entries: &mut VecDeque<Entry>, entry: Entry) {
    if entries.len() == entries.capacity() {
        entries.retain(|entry| !entry.task.is_finished());
    }
    entries.push_back(entry);
}
