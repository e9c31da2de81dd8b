//! The types that stores take and return beside rows: scopes, records, surveys and new rows.
//!
//! Two arguments rest on them. A row that was created and is missing may have been in use: nodes
//! create it again with marks ahead of every lease. So the record says which rows were created
//! ([`CreatedRows`]), in parts, as nodes need them. And rows are created only while the premise of
//! that decision holds ([`NewRows`]): the same record, and not long after.
//!
//! The functions at the end sort and select rows for the engines that have no query language, in
//! the same order as the SQL statements do. Nothing here reads a clock or a store. Tests: below,
//! and tests/store/conformance.rs.

use std::{cmp::Reverse, ops::RangeInclusive, time::Duration};

use raindrop_core::{
    layout::Layout,
    lease::{HighWaterMarks, History, Row, RowExpiry, RowWrite, Token},
};

/// The longest lease: the present time plus this is within the range of every engine's timestamps.
const TTL_MAX: Duration = Duration::from_hours(24 * 365 * 100);

/// The number of parts that a mask has bits for.
const MOST_PARTS: u64 = u64::BITS as u64;

/// The rows that a node may use: those of one namespace and reserved value, within its range of
/// worker ids.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Scope {
    /// The namespace.
    pub namespace: String,
    /// Width and value of the reserved field, `1/0` for example.
    pub reserved_key: String,
    /// The smallest worker id.
    pub min_worker: u64,
    /// The largest worker id.
    pub max_worker: u64,
}

impl Scope {
    /// Creates the scope of a layout and a range of worker ids, both ends included.
    pub fn new(namespace: &str, layout: &Layout, min_worker: u64, max_worker: u64) -> Self {
        Self {
            namespace: namespace.to_owned(),
            reserved_key: layout.reserved_key(),
            min_worker,
            max_worker,
        }
    }

    /// Returns the name of a worker's row in errors.
    pub fn row_name(&self, worker: u64) -> String {
        format!("{} {} {worker}", self.namespace, self.reserved_key)
    }

    /// Returns the name of the scope in errors.
    #[cfg(any(feature = "kubernetes", feature = "redis", feature = "sql"))]
    pub(super) fn key(&self) -> String {
        format!("{} {}", self.namespace, self.reserved_key)
    }

    /// Returns the number of rows that the scope has when it is complete.
    pub const fn workers(&self) -> u64 {
        self.max_worker - self.min_worker + 1
    }
}

/// The layout record of a namespace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LayoutRecord {
    /// Fresh and random at every write of the record.
    pub token: Token,
    /// The canonical text of the layout.
    pub canonical: String,
    /// For each reserved key with rows, which of them were created; see [`Self::created_rows`].
    pub complete: Vec<String>,
    /// The first tick that IDs for a past time may have, whatever the configuration allows; 0 for
    /// a first layout. At this tick, an operator moved the namespace to this layout or restored its
    /// store from a backup. Before it, Raindrop may have issued equal IDs.
    pub since_tick: u64,
    /// The first tick that began after the record was created; 0 in segment mode. Before it,
    /// another system may have issued equal IDs, so an operator must open those ticks for backfill
    /// explicitly.
    pub first_tick: u64,
    /// The history of the store, by which nodes notice a fail-over or a restored backup.
    pub history: History,
}

/// Rows to create where they are missing, and the premise of that decision. If the process was
/// suspended since it decided, the rows must not be created: meanwhile one of them may have been
/// created, used and lost.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewRows {
    /// The high-water marks of the new rows.
    pub marks: HighWaterMarks,
    /// Fresh and random. The row of worker `w` is created with the token [`Self::token`] of `w`.
    pub seed: Token,
    /// The token that the namespace's record must still have; otherwise no row is created.
    pub record: Token,
    /// The creation fails if the store's clock is past this instant, in Unix ms.
    pub until_ms: i64,
}

impl NewRows {
    /// Returns the token of the new row of a worker id: the seed plus the worker id. A swap that
    /// was prepared for a lost row therefore cannot match the row that replaces it, because that
    /// has another seed.
    pub const fn token(&self, worker: u64) -> Token {
        self.seed.plus(worker)
    }
}

impl LayoutRecord {
    /// Creates the record of a namespace that has issued nothing yet.
    pub fn new(
        canonical: impl Into<String>,
        token: Token,
        first_tick: u64,
        history: History,
    ) -> Self {
        let (canonical, complete) = (canonical.into(), Vec::new());
        Self { token, canonical, complete, since_tick: 0, first_tick, history }
    }

    /// Returns which rows of a reserved key were created; `None` before the first. A created row
    /// that is missing may have been in use, so it is created again with marks ahead of every
    /// lease.
    pub fn created_rows(&self, reserved_key: &str) -> Option<CreatedRows> {
        let mut entries = self.complete.iter().filter_map(|entry| CreatedRows::read(entry));
        entries.find(|(key, _)| *key == reserved_key).map(|(_, created)| created)
    }

    /// Sets which rows of a reserved key were created.
    pub fn set_created_rows(&mut self, reserved_key: &str, created: CreatedRows) {
        let is_other =
            |entry: &String| CreatedRows::read(entry).is_none_or(|(key, _)| key != reserved_key);
        let at = self.complete.iter().position(|entry| !is_other(entry));
        self.complete.retain(is_other);
        self.complete.insert(at.unwrap_or(self.complete.len()), created.entry(reserved_key));
    }
}

/// Which rows of one reserved key were created. A row that was never created was never leased, so
/// it may begin without marks. A row that was created and is missing may have been in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CreatedRows {
    /// The rows of every worker id.
    All,
    /// The rows of some parts.
    Parts {
        /// The number of worker ids in a part; the first part begins at 0.
        size: u64,
        /// A bit for each part, from the lowest on: 1 if its rows were created.
        parts: u64,
    },
}

impl CreatedRows {
    /// Returns the value for `workers` worker ids without any row. A part has `at_once` worker ids,
    /// or more if the mask has too few bits for so small parts.
    pub fn none(workers: u64, at_once: u64) -> Self {
        Self::Parts { size: at_once.max(workers.div_ceil(MOST_PARTS)).max(1), parts: 0 }
    }

    /// Returns whether the row of this worker was created.
    pub const fn contains(self, worker: u64) -> bool {
        match self {
            Self::All => true,
            Self::Parts { size, parts } => {
                let part = worker / size;
                part < MOST_PARTS && parts >> part & 1 == 1
            }
        }
    }

    /// Returns the disjoint ranges of workers, below `workers`, whose rows were created.
    pub fn ranges(self, workers: u64) -> Vec<RangeInclusive<u64>> {
        let created: Vec<u64> = (0..workers).filter(|worker| self.contains(*worker)).collect();
        let runs = created.chunk_by(|before, worker| before + 1 == *worker);
        runs.map(|run| run[0]..=run[run.len() - 1]).collect()
    }

    /// Counts the rows of a range that were created.
    pub fn count(self, range: &RangeInclusive<u64>) -> u64 {
        range.clone().filter(|worker| self.contains(*worker)).count() as u64
    }

    /// Returns the first part that has workers of the range and was not created, and the value once
    /// it is. There are `workers` worker ids.
    pub fn next(
        self,
        range: &RangeInclusive<u64>,
        workers: u64,
    ) -> Option<(RangeInclusive<u64>, Self)> {
        let Self::Parts { size, parts } = self else { return None };
        let mut wanted = range.start() / size..=range.end() / size;
        let part = wanted.find(|part| *part < MOST_PARTS && !self.contains(part * size))?;
        let with = Self::Parts { size, parts: parts | 1 << part };
        let is_whole = with.count(&(0..=workers - 1)) == workers;
        let created = if is_whole { Self::All } else { with };
        Some((part * size..=((part + 1) * size).min(workers) - 1, created))
    }

    /// Returns the entry of a reserved key in a record: `0/0` if all rows were created,
    /// `0/0:1024:5` if the first and the third part of 1024 were.
    pub(super) fn entry(self, key: &str) -> String {
        match self {
            Self::All => key.to_owned(),
            Self::Parts { size, parts } => format!("{key}:{size}:{parts:x}"),
        }
    }

    /// Parses an entry.
    pub(super) fn read(entry: &str) -> Option<(&str, Self)> {
        let (key, created) = match entry.split_once(':') {
            None => (entry, Self::All),
            Some((key, parts)) => {
                let (size, parts) = parts.split_once(':')?;
                let size = size.parse().ok().filter(|size| *size > 0)?;
                (key, Self::Parts { size, parts: u64::from_str_radix(parts, 16).ok()? })
            }
        };
        let is_number =
            |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        let (width, value) = key.split_once('/')?;
        // Only the exact text is valid, because a change of the record compares it.
        (is_number(width) && is_number(value) && created.entry(key) == entry)
            .then_some((key, created))
    }
}

/// The store's clock and the state of a scope.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Survey {
    /// The store's clock, Unix ms.
    pub now_ms: i64,
    /// The identity of the server, as [`History::identity`] has it; `None` if identities are not
    /// compared.
    pub identity: Option<String>,
    /// The namespace's layout record, if there is one.
    pub record: Option<LayoutRecord>,
    /// How many rows are held.
    pub held: u64,
    /// How many rows are free.
    pub free: u64,
    /// When the first held row expires unless it is renewed, Unix ms of the store's clock.
    pub next_expiry_ms: Option<i64>,
}

/// A row that was written and not released: its process is running, or crashed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnreleasedRow {
    /// Its reserved key.
    pub reserved_key: String,
    /// Its worker id, or why the stored one cannot be read: where it is, its value, and the way
    /// out. No node can lease or release such a row.
    pub worker: Result<u64, String>,
    /// When it was last written, Unix ms of the store's clock; 0 if that cannot be read.
    pub heartbeat_ms: i64,
}

/// A row with its namespace and reserved key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListedRow {
    /// Its namespace.
    pub namespace: String,
    /// Its reserved key.
    pub reserved_key: String,
    /// The row.
    pub row: Row,
}

/// Describes a row of a reserved key; `None` if it was released or never written.
pub(super) fn unreleased(reserved_key: &str, row: &Row) -> Option<UnreleasedRow> {
    let Row { worker, heartbeat_ms, expires_ms, .. } = *row;
    let reserved_key = reserved_key.to_owned();
    (expires_ms != 0).then_some(UnreleasedRow { reserved_key, worker: Ok(worker), heartbeat_ms })
}

/// Sorts the last written rows first, and keeps at most `limit`.
pub(super) fn keep_newest(rows: &mut Vec<UnreleasedRow>, limit: u32) {
    rows.sort_by_cached_key(|row| {
        (Reverse(row.heartbeat_ms), row.worker.clone(), row.reserved_key.clone())
    });
    rows.truncate(limit as usize);
}

/// Keeps at most `limit` free rows, longest unused first; with a holder, only the rows that it
/// wrote last, the most recent one first. See [`Store::free_rows`](super::Store::free_rows).
pub(super) fn keep_free(rows: &mut Vec<Row>, holder: Option<&str>, limit: u32) {
    rows.retain(|row| row.free && holder.is_none_or(|holder| row.holder == holder));
    rows.sort_by_key(|row| (row.heartbeat_ms, row.worker));
    if holder.is_some() {
        rows.reverse();
    }
    rows.truncate(limit as usize);
}

/// Returns for how long a write holds its row, in milliseconds; `None` if it releases the row.
pub(super) fn ttl_ms(write: &RowWrite) -> Option<i64> {
    match write.expiry {
        RowExpiry::Released => None,
        RowExpiry::After(ttl) => {
            let ms = ttl.min(TTL_MAX).as_millis();
            Some(i64::try_from(ms).expect("a hundred years of milliseconds fit"))
        }
    }
}

/// Returns a worker's row after a write at this time of the store's clock.
pub(super) fn written(worker: u64, write: &RowWrite, now_ms: i64) -> Row {
    let RowWrite { token, epoch, holder, lane, marks, .. } = write.clone();
    // 0, so that a released row is free whatever the clock does.
    let expires_ms = ttl_ms(write).map_or(0, |ttl_ms| now_ms.saturating_add(ttl_ms));
    let (heartbeat_ms, free) = (now_ms, false);
    Row { worker, token, epoch, holder, lane, marks, free, heartbeat_ms, expires_ms }
}

/// Returns a worker's row before its first write.
pub(super) fn unwritten(worker: u64, token: Token, marks: HighWaterMarks) -> Row {
    Row {
        worker,
        token,
        epoch: Token::UNUSED,
        holder: String::new(),
        lane: 0,
        marks,
        free: true,
        heartbeat_ms: 0,
        expires_ms: 0,
    }
}

#[cfg(test)]
mod tests {
    use raindrop_core::lease::HighWaterMarks;

    use super::*;

    #[test]
    fn only_an_expiry_of_1970_releases_a_row() {
        let row = Row {
            worker: 5,
            token: Token::UNUSED,
            epoch: Token::UNUSED,
            holder: String::new(),
            lane: 0,
            marks: HighWaterMarks::all_at(0, 1),
            free: true,
            heartbeat_ms: 7,
            expires_ms: 0,
        };
        for (expires_ms, is_released) in [(0, true), (-1, false), (1, false), (i64::MIN, false)] {
            let found = unreleased("0/0", &Row { expires_ms, ..row.clone() });
            assert_eq!(found.is_none(), is_released, "{expires_ms}");
        }
    }

    #[test]
    fn parts_are_made_until_all_are() {
        let mut created = CreatedRows::none(2500, 1000);
        let (all, wide) = (0..=2499, 1..=2499);
        assert_eq!(
            (created.count(&all), created.contains(0), created.ranges(2500)),
            (0, false, vec![])
        );
        // A node with a single worker id needs one part.
        let (part, with) = created.next(&(1500..=1500), 2500).expect("a part");
        assert_eq!((part, with), (1000..=1999, CreatedRows::Parts { size: 1000, parts: 2 }));
        assert_eq!(with.next(&(1500..=1500), 2500), None);
        assert!(with.contains(1000) && with.contains(1999));
        assert!(!with.contains(999) && !with.contains(2000) && !with.contains(u64::MAX));
        assert_eq!((with.count(&all), with.count(&(1500..=2100))), (1000, 500));
        let both = with.next(&wide, 2500).expect("a part").1;
        assert_eq!((both.ranges(2500), both.count(&(999..=1000))), (vec![0..=1999], 2));
        created = with;
        let mut parts = Vec::new();
        while let Some((part, with)) = created.next(&wide, 2500) {
            parts.push(part);
            created = with;
        }
        assert_eq!((parts, created), (vec![0..=999, 2000..=2499], CreatedRows::All));
        assert_eq!((created.count(&wide), created.ranges(2500)), (2499, vec![all]));
    }

    #[test]
    fn a_mask_names_every_part() {
        for (workers, at_once, size) in [(1 << 16, 1024, 1024), (1 << 16, 1, 1024), (8, 0, 1)] {
            let mut created = CreatedRows::none(workers, at_once);
            assert_eq!(created, CreatedRows::Parts { size, parts: 0 });
            let mut count = 0;
            while let Some((part, with)) = created.next(&(0..=workers - 1), workers) {
                count += part.end() - part.start() + 1;
                created = with;
            }
            assert_eq!((count, created), (workers, CreatedRows::All));
        }
        // Parts smaller than any node creates: their mask does not reach all workers.
        let small = CreatedRows::Parts { size: 1, parts: u64::MAX };
        assert_eq!((small.next(&(0..=99), 100), small.contains(64)), (None, false));
        assert_eq!(
            CreatedRows::none(1024, 1024).next(&(5..=5), 1024),
            Some((0..=1023, CreatedRows::All))
        );
    }

    #[test]
    fn entries_are_read_as_they_were_written() {
        let some = CreatedRows::Parts { size: 1024, parts: 0x8000_0000_0000_0005 };
        for (key, created, entry) in
            [("0/0", CreatedRows::All, "0/0"), ("5/31", some, "5/31:1024:8000000000000005")]
        {
            assert_eq!(created.entry(key), entry);
            assert_eq!(CreatedRows::read(entry), Some((key, created)));
        }
        for wrong in [
            "", "0", "/", "0/", "a/0", "0/0:", "0/0:0:1", "0/0:1", "0/0:1:g", "0/0:01:1",
            "0/0:1:01",
        ] {
            assert_eq!(CreatedRows::read(wrong), None, "{wrong}");
        }
    }
}
