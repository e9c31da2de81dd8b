//! The cursors of a grant by code: a bounded, sharded hash table.
//!
//! A look-up takes the read lock of one shard. A full table evicts: it closes the cursors that
//! stand lowest, below the present tick, a sixteenth of the table at a time. An evicted code may
//! come back, so each eviction first raises the *floor* to the evicted position, and a new cursor
//! starts at the floor or above. The order matters: [`Table::cursor`] reads the floor under the
//! lock of the shard, and [`Table::seal`] reads it last. A new cursor must not start at a reading
//! of the clock, because the thread may have slept since it read it. `models/eviction.rs` finds a
//! change of any of these.

use std::{
    collections::HashMap,
    fmt,
    hash::{BuildHasher, BuildHasherDefault, DefaultHasher},
};

use hashbrown::HashTable;

use super::{cursor::Cursor, planted};
use crate::sync::{
    Arc, AtomicU64, AtomicUsize, HashState, Mutex, MutexGuard, Ordering, PoisonError, RwLock,
    RwLockReadGuard, RwLockWriteGuard,
};

const SHARDS: usize = if cfg!(feature = "loom") { 2 } else { 64 };

/// An eviction walks over the whole table and frees one part in this many, so that many insertions
/// share its cost.
const EVICTED_PART: usize = 16;

#[derive(Debug)]
pub(crate) struct Table {
    shards: Box<[RwLock<Shard>]>,
    hasher: HashState,
    len: AtomicUsize,
    max: usize,
    evicting: Mutex<()>,
    new_codes: Mutex<NewCodes>,
    /// The highest position of an evicted cursor. New cursors start here or above.
    floor: AtomicU64,
    start: u64,
    /// An eviction found no cursor below this position. Cursors only rise, so another eviction
    /// below it would find none either. Insertions reset it to 0.
    none_below: AtomicU64,
}

#[derive(Debug, Default)]
struct Shard {
    entries: HashTable<Entry>,
    sealed: bool,
}

#[derive(Debug)]
struct Entry {
    code: Box<str>,
    cursor: Arc<Cursor>,
}

impl Shard {
    fn find(&self, hash: u64, code: &str) -> Option<&Arc<Cursor>> {
        self.entries.find(hash, |entry| *entry.code == *code).map(|entry| &entry.cursor)
    }

    fn cursors(&self) -> impl Iterator<Item = &Arc<Cursor>> {
        self.entries.iter().map(|entry| &entry.cursor)
    }
}

/// Why a code gets no cursor.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum TableError {
    /// Every cursor is in use in the present tick.
    Full,
    /// The client has had its share of new codes.
    ShareUsed,
    /// The grant was sealed.
    Sealed,
}

impl Table {
    /// Makes an empty table for at most `max` codes, whose cursors start at `start` or above.
    pub(crate) fn new(start: u64, max: usize) -> Self {
        Self {
            shards: (0..SHARDS).map(|_| RwLock::default()).collect(),
            hasher: HashState::default(),
            len: AtomicUsize::new(0),
            max,
            evicting: Mutex::new(()),
            new_codes: Mutex::default(),
            floor: AtomicU64::new(0),
            start,
            none_below: AtomicU64::new(0),
        }
    }

    /// Returns the number of codes that have a cursor.
    pub(crate) fn len(&self) -> usize {
        self.len.load(Ordering::Relaxed)
    }

    /// Returns the cursor of a code, or a new cursor if it has none and the client's share allows
    /// one. To make room, evicts cursors below `evict_below`, the first position of the present
    /// tick.
    pub(crate) fn cursor(
        &self,
        code: &str,
        share: Option<Share<'_>>,
        evict_below: u64,
    ) -> Result<Arc<Cursor>, TableError> {
        let hash = self.hasher.hash_one(code);
        let lock = &self.shards[self.shard_of(hash)];
        if let Some(cursor) = read(lock).find(hash, code) {
            return Ok(Arc::clone(cursor));
        }
        if self.len() >= self.max && evict_below > self.none_below.load(Ordering::Relaxed) {
            self.evict(evict_below);
        }
        let client_and_max = share.map(|share| ((share.client)(), share.max));
        let mut shard = write(lock);
        if shard.sealed {
            return Err(TableError::Sealed);
        }
        if let Some(cursor) = shard.find(hash, code) {
            return Ok(Arc::clone(cursor));
        }
        if self.len.fetch_add(1, Ordering::Relaxed) >= self.max {
            self.len.fetch_sub(1, Ordering::Relaxed);
            return Err(TableError::Full);
        }
        if let Some((client, max)) = client_and_max
            && !self.new_codes().count(client, max, evict_below)
        {
            self.len.fetch_sub(1, Ordering::Relaxed);
            return Err(TableError::ShareUsed);
        }
        // If this code had a cursor before, an eviction raised the floor to it and removed it under
        // this lock. A reading of the clock would be wrong: this thread may have slept since.
        let first = self.start.max(self.floor.load(Ordering::Acquire));
        let cursor = Arc::new(Cursor::new(planted::first_position(first, evict_below)));
        let new = Entry { code: code.into(), cursor: Arc::clone(&cursor) };
        shard.entries.insert_unique(hash, new, |entry| self.hasher.hash_one(&*entry.code));
        self.none_below.store(0, Ordering::Relaxed);
        Ok(cursor)
    }

    fn new_codes(&self) -> MutexGuard<'_, NewCodes> {
        self.new_codes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns one past the last claimed position of any code, or the start.
    pub(crate) fn highest_next(&self) -> u64 {
        let highest_of =
            |shard: &RwLock<Shard>| read(shard).cursors().filter_map(|cursor| cursor.next()).max();
        let highest = self.shards.iter().filter_map(highest_of).max().unwrap_or(0);
        highest.max(self.start).max(self.floor.load(Ordering::Acquire))
    }

    /// Closes the table for new cursors and every cursor for claims. Returns one past the last
    /// claimed position of any code that ever had a cursor, or the start.
    pub(crate) fn seal(&self) -> u64 {
        let mut highest = planted::lowest_mark(self.start);
        for lock in &self.shards {
            let mut shard = write(lock);
            shard.sealed = true;
            let closed = shard.cursors().filter_map(|cursor| cursor.close()).max();
            highest = highest.max(closed.unwrap_or(0));
        }
        // Read the floor last: an eviction under way raised it before it closed cursors.
        highest.max(self.floor.load(Ordering::Acquire))
    }

    /// Evicts the lowest of the cursors that stand below `below`, at most a sixteenth of the table.
    fn evict(&self, below: u64) {
        let _one_at_a_time = self.evicting.lock().unwrap_or_else(PoisonError::into_inner);
        if self.len() < self.max {
            return;
        }
        let mut candidates: Vec<(u64, u64)> = Vec::new();
        for lock in &self.shards {
            candidates.extend(read(lock).entries.iter().filter_map(|Entry { code, cursor }| {
                let next = cursor.next().filter(|next| *next < below)?;
                Some((next, rank(code)))
            }));
        }
        let wanted = self.max.div_ceil(EVICTED_PART).min(candidates.len());
        let Some(last) = wanted.checked_sub(1) else {
            self.none_below.fetch_max(below, Ordering::Relaxed);
            return;
        };
        let (_, &mut (youngest, last_rank), _) = candidates.select_nth_unstable(last);
        let mut to_evict = wanted;
        for lock in &self.shards {
            write(lock).entries.retain(|Entry { code, cursor }| {
                let end = if rank(code) <= last_rank { youngest + 1 } else { youngest };
                let evicted = to_evict > 0
                    && cursor.close_below(end, |next| {
                        self.floor.fetch_max(planted::floor(next), Ordering::AcqRel);
                    });
                to_evict -= usize::from(evicted);
                !evicted
            });
        }
        self.len.fetch_sub(wanted - to_evict, Ordering::Relaxed);
    }

    /// Returns the index of the shard of a hash. It uses bits in the middle, because the hash table
    /// of the shard uses the lowest bits and the topmost seven.
    fn shard_of(&self, hash: u64) -> usize {
        let shard = (hash >> 20) % self.shards.len() as u64;
        usize::try_from(shard).expect("an index into a slice")
    }
}

/// Identifies a client and limits how many new codes it may have in a tick.
#[derive(Clone, Copy)]
pub(crate) struct Share<'a> {
    /// Returns a number for the client; called only for a new code.
    pub(crate) client: &'a (dyn Fn() -> u64 + Sync),
    pub(crate) max: usize,
}

/// Counts the new codes of each client in the present tick.
#[derive(Debug, Default)]
pub(crate) struct NewCodes {
    /// The first position of the tick.
    tick: u64,
    by_client: HashMap<u64, usize>,
}

impl NewCodes {
    /// Counts a new code of a client, or returns `false` if the client has had `max` already.
    pub(crate) fn count(&mut self, client: u64, max: usize, tick: u64) -> bool {
        if tick > self.tick {
            *self = Self { tick, by_client: HashMap::new() };
        }
        let count = self.by_client.entry(client).or_default();
        let has_left = *count < max;
        *count += usize::from(has_left);
        has_left
    }
}

impl fmt::Debug for Share<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Share").field("max", &self.max).finish_non_exhaustive()
    }
}

/// Orders cursors that stand at the same position. The order is the same in every process, so that
/// a simulation can be replayed.
fn rank(code: &str) -> u64 {
    BuildHasherDefault::<DefaultHasher>::default().hash_one(code)
}

fn read(shard: &RwLock<Shard>) -> RwLockReadGuard<'_, Shard> {
    shard.read().unwrap_or_else(PoisonError::into_inner)
}

fn write(shard: &RwLock<Shard>) -> RwLockWriteGuard<'_, Shard> {
    shard.write().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests;
