//! A store in the memory of one process: for tests, simulations, and worker ids that the operator
//! assigns.
//!
//! It has the semantics of the other engines, and the same conformance suite (tests/store) runs on
//! it. The simulation uses this store. It persists nothing: after a restart, only the premise of
//! the assigned worker id and the clock keep IDs unique, as the service warns at its start.
//!
//! Under the feature `simulation` it can lose writes like a server that crashes (`tests/crash.rs`)
//! and delay or drop calls (`tests/intercept.rs`).

#[cfg(any(test, feature = "simulation"))]
#[path = "tests/crash.rs"]
mod crash;

use std::{
    collections::BTreeMap,
    ops::RangeInclusive,
    sync::{Arc, Mutex, MutexGuard},
    time::Duration,
};

use async_trait::async_trait;
use raindrop_core::{
    clock::Clock,
    instant::millis,
    lease::{History, Row, RowWrite, Token},
    planted::{Bug, planted},
    segment::CodeRow,
};

#[cfg(any(test, feature = "simulation"))]
pub use self::crash::Snapshot;
use super::{
    CodeState, IdempotencyStore, KEYS_AT_ONCE, KeyState, KeyText, LayoutRecord, ListedRow,
    ListedSegment, ManagedCode, NewRows, NewSegment, Reservation, Reserved, Result, Scope,
    SegmentStore, Store, Survey, Undo, UnreleasedRow, UnusedNumbers, lock,
    record::{keep_free, keep_newest, unreleased, unwritten, written},
};

/// Rows in memory, with the semantics of the other engines. They are lost when the process ends.
///
/// Its clock is passed in, so that tests can give the store a clock that differs from the node's.
#[derive(Debug)]
pub struct MemoryStore {
    clock: Arc<dyn Clock>,
    clock_is_local: bool,
    tables: Mutex<Tables>,
}

#[derive(Clone, Debug, Default)]
struct Tables {
    /// The identity of the simulated server.
    identity: String,
    records: BTreeMap<String, LayoutRecord>,
    /// By namespace, reserved key and worker. `free` is computed when a row is read.
    rows: BTreeMap<(String, String, u64), Row>,
    /// By namespace and code, each with its token.
    segments: BTreeMap<(String, String), (ListedSegment, Token)>,
    /// By namespace and code.
    managed: BTreeMap<(String, String), ManagedCode>,
    /// By namespace, code and idempotency key.
    keys: BTreeMap<(String, String, String), StoredKey>,
}

/// An idempotency key.
#[derive(Clone, Debug)]
struct StoredKey {
    owner: Token,
    /// Empty until it is written once.
    text: String,
    created_ms: i64,
    /// When its owner last claimed it.
    claimed_ms: i64,
}

impl StoredKey {
    fn state(&self, owner: Token) -> KeyState {
        if !self.text.is_empty() {
            KeyState::Finished(self.text.clone())
        } else if self.owner == owner {
            KeyState::Owned
        } else {
            KeyState::Busy
        }
    }
}

impl Tables {
    /// Returns whether this server has the identity in a history.
    fn is_continued_by(&self, history: &History) -> bool {
        history.identity.is_empty()
            || history.identity == self.identity
            || planted(Bug::IdentityIgnored)
    }

    /// Returns whether a namespace's record has this epoch, and this server the identity in the
    /// record.
    fn is_in_epoch(&self, namespace: &str, epoch: Token) -> bool {
        let record = self.records.get(namespace);
        record.is_some_and(|record| {
            record.history.epoch() == epoch && self.is_continued_by(&record.history)
        })
    }

    fn code(&self, namespace: &str, code: &str, epoch: Token) -> CodeState {
        if !self.is_in_epoch(namespace, epoch) {
            return CodeState::OtherEpoch;
        }
        let segment = self.segments.get(&(namespace.to_owned(), code.to_owned()));
        segment.map_or(CodeState::Missing, |(segment, _)| CodeState::Row(segment.row()))
    }

    fn listed(
        &self,
        (key, (segment, _)): (&(String, String), &(ListedSegment, Token)),
    ) -> ListedSegment {
        let settings = self.managed.get(key).map(|managed| managed.settings.clone());
        ListedSegment { settings, ..segment.clone() }
    }
}

impl MemoryStore {
    /// Creates an empty store whose clock is the node's own.
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        Self {
            clock,
            clock_is_local: true,
            tables: Mutex::new(Tables { identity: "memory".to_owned(), ..Tables::default() }),
        }
    }

    /// Creates an empty store that stands for a server with its own clock.
    pub fn with_own_clock(clock: Arc<dyn Clock>) -> Self {
        Self { clock_is_local: false, ..Self::new(clock) }
    }

    fn tables(&self) -> MutexGuard<'_, Tables> {
        lock(&self.tables)
    }

    /// Returns the time and the scope's rows as they are now.
    fn rows(&self, scope: &Scope) -> (i64, Vec<Row>) {
        let now_ms = self.clock.now_ms();
        let tables = self.tables();
        let range = tables.rows.range(key(scope, scope.min_worker)..=key(scope, scope.max_worker));
        (now_ms, range.map(|(_, row)| read(row, now_ms)).collect())
    }

    /// Lowers a code's next number, and replaces the token of its reservation by a fresh one.
    /// Changes nothing if another process has written the code since, or in another epoch.
    fn lower(
        &self,
        namespace: &str,
        code: &str,
        epoch: Token,
        [reserved, fresh]: [Token; 2],
        lowered: impl FnOnce(u64) -> u64,
    ) -> Result<bool> {
        let updated_ms = self.clock.now_ms();
        let key = (namespace.to_owned(), code.to_owned());
        let mut tables = self.tables();
        if !tables.is_in_epoch(namespace, epoch) {
            return Ok(false);
        }
        let segment = tables.segments.get_mut(&key).filter(|(_, token)| *token == reserved);
        let Some((segment, present)) = segment else { return Ok(false) };
        (segment.next, segment.updated_ms, *present) = (lowered(segment.next), updated_ms, fresh);
        Ok(true)
    }
}

fn read(row: &Row, now_ms: i64) -> Row {
    Row { free: row.expires_ms <= now_ms, ..row.clone() }
}

fn key(scope: &Scope, worker: u64) -> (String, String, u64) {
    (scope.namespace.clone(), scope.reserved_key.clone(), worker)
}

fn listed(key: &(String, String), row: CodeRow, updated_ms: i64, created_ms: i64) -> ListedSegment {
    let (namespace, code) = key.clone();
    let CodeRow { next, step, epoch } = row;
    ListedSegment { namespace, code, next, step, updated_ms, created_ms, epoch, settings: None }
}

#[async_trait]
impl Store for MemoryStore {
    fn clock_is_local(&self) -> bool {
        self.clock_is_local
    }

    fn is_verified(&self) -> bool {
        true
    }

    async fn prepare(&self) -> Result<Vec<String>> {
        Ok(Vec::new())
    }

    async fn create_record(&self, namespace: &str, record: &LayoutRecord) -> Result<LayoutRecord> {
        let mut tables = self.tables();
        let stored = tables.records.entry(namespace.to_owned());
        Ok(stored.or_insert_with(|| record.clone()).clone())
    }

    async fn read_record(&self, namespace: &str) -> Result<Option<LayoutRecord>> {
        Ok(self.tables().records.get(namespace).cloned())
    }

    async fn swap_record(
        &self,
        namespace: &str,
        expected: Token,
        record: &LayoutRecord,
    ) -> Result<bool> {
        let mut tables = self.tables();
        let fits = tables.is_continued_by(&record.history);
        let present = tables.records.get_mut(namespace).filter(|record| record.token == expected);
        let Some(present) = present.filter(|_| fits) else { return Ok(false) };
        *present = record.clone();
        Ok(true)
    }

    async fn create_rows(&self, scope: &Scope, new: &NewRows) -> Result<bool> {
        let now_ms = self.clock.now_ms();
        let mut tables = self.tables();
        let record = tables.records.get(&scope.namespace);
        let holds = record.is_some_and(|record| {
            record.token == new.record && tables.is_continued_by(&record.history)
        });
        let holds = (holds && now_ms <= new.until_ms) || planted(Bug::StaleBirth);
        for worker in scope.min_worker..=scope.max_worker {
            if !holds && !tables.rows.contains_key(&key(scope, worker)) {
                return Ok(false);
            }
            let unwritten = || unwritten(worker, new.token(worker), new.marks.clone());
            tables.rows.entry(key(scope, worker)).or_insert_with(unwritten);
        }
        Ok(true)
    }

    async fn survey(&self, scope: &Scope) -> Result<Survey> {
        let (now_ms, rows) = self.rows(scope);
        let tables = self.tables();
        let held = rows.iter().filter(|row| !row.free);
        Ok(Survey {
            now_ms,
            identity: Some(tables.identity.clone()),
            record: tables.records.get(&scope.namespace).cloned(),
            held: held.clone().count() as u64,
            free: rows.iter().filter(|row| row.free).count() as u64,
            next_expiry_ms: held.map(|row| row.expires_ms).min(),
        })
    }

    async fn unreleased_rows(&self, namespace: &str, limit: u32) -> Result<Vec<UnreleasedRow>> {
        let tables = self.tables();
        let of_namespace = tables.rows.iter().filter(|((of, ..), _)| of == namespace);
        let rows =
            of_namespace.filter_map(|((_, reserved_key, _), row)| unreleased(reserved_key, row));
        let mut rows = rows.collect();
        keep_newest(&mut rows, limit);
        Ok(rows)
    }

    async fn free_rows(&self, scope: &Scope, holder: Option<&str>, limit: u32) -> Result<Vec<Row>> {
        let (_, mut rows) = self.rows(scope);
        keep_free(&mut rows, holder, limit);
        Ok(rows)
    }

    async fn read_row(&self, scope: &Scope, worker: u64) -> Result<Option<Row>> {
        let now_ms = self.clock.now_ms();
        Ok(self.tables().rows.get(&key(scope, worker)).map(|row| read(row, now_ms)))
    }

    async fn swap_row(
        &self,
        scope: &Scope,
        worker: u64,
        expected: Token,
        write: &RowWrite,
    ) -> Result<bool> {
        let now_ms = self.clock.now_ms();
        let mut tables = self.tables();
        let is_present = tables.is_in_epoch(&scope.namespace, write.epoch)
            || planted(Bug::IdentityCheckedBefore);
        let row = tables.rows.get_mut(&key(scope, worker)).filter(|row| row.token == expected);
        let Some(row) = row.filter(|_| is_present) else { return Ok(false) };
        *row = written(worker, write, now_ms);
        Ok(true)
    }

    async fn list_rows(&self) -> Result<Vec<ListedRow>> {
        let now_ms = self.clock.now_ms();
        let tables = self.tables();
        let rows = tables.rows.iter().map(|((namespace, reserved_key, _), row)| ListedRow {
            namespace: namespace.clone(),
            reserved_key: reserved_key.clone(),
            row: read(row, now_ms),
        });
        Ok(rows.collect())
    }

    async fn close(&self) {}
}

#[async_trait]
impl SegmentStore for MemoryStore {
    fn segment_table(&self) -> &str {
        "memory"
    }

    async fn prepare_segments(&self) -> Result<()> {
        Ok(())
    }

    async fn create_segments(&self, namespace: &str, codes: &[NewSegment]) -> Result<()> {
        let now_ms = self.clock.now_ms();
        let mut tables = self.tables();
        for new in codes {
            let key = (namespace.to_owned(), new.code.clone());
            let segment = listed(&key, CodeRow::missing(new.first), now_ms, now_ms);
            tables.segments.entry(key).or_insert((segment, Token::UNUSED));
        }
        Ok(())
    }

    async fn reserve(
        &self,
        namespace: &str,
        code: &str,
        reservation: &Reservation,
    ) -> Result<Reserved> {
        let updated_ms = self.clock.now_ms();
        let mut tables = self.tables();
        let raised = match reservation.decide(tables.code(namespace, code, reservation.epoch)) {
            Ok(raised) => raised,
            Err(refused) => return Ok(refused),
        };
        let key = (namespace.to_owned(), code.to_owned());
        let present = tables.segments.get(&key);
        let created_ms = present.map_or(updated_ms, |(segment, _)| segment.created_ms);
        let segment = listed(&key, raised, updated_ms, created_ms);
        tables.segments.insert(key, (segment, reservation.token));
        Ok(Reserved::From(raised.next - reservation.by))
    }

    async fn read_segments(
        &self,
        namespace: &str,
        codes: &[&str],
        epoch: Token,
    ) -> Result<Vec<Result<CodeState>>> {
        let tables = self.tables();
        Ok(codes.iter().map(|code| Ok(tables.code(namespace, code, epoch))).collect())
    }

    async fn give_back(&self, namespace: &str, code: &str, unused: &UnusedNumbers) -> Result<bool> {
        let UnusedNumbers { from, reserved, epoch, token } = *unused;
        self.lower(namespace, code, epoch, [reserved, token], |_| from)
    }

    async fn undo(&self, namespace: &str, code: &str, undo: &Undo) -> Result<bool> {
        let Undo { by, reserved, epoch, token } = *undo;
        self.lower(namespace, code, epoch, [reserved, token], |next| next.saturating_sub(by))
    }

    async fn list_managed_codes(&self, namespace: &str) -> Result<Vec<ManagedCode>> {
        let tables = self.tables();
        let of_namespace = tables.managed.iter().filter(|((of, _), _)| of == namespace);
        Ok(of_namespace.map(|(_, code)| code.clone()).collect())
    }

    async fn write_managed_code(
        &self,
        namespace: &str,
        expected: Option<Token>,
        code: &ManagedCode,
    ) -> Result<bool> {
        let mut tables = self.tables();
        let key = (namespace.to_owned(), code.code.clone());
        if tables.managed.get(&key).map(|present| present.token) != expected {
            return Ok(false);
        }
        tables.managed.insert(key, code.clone());
        Ok(true)
    }

    async fn count_segments(&self, namespace: &str) -> Result<u64> {
        let tables = self.tables();
        Ok(tables.segments.keys().filter(|(of, _)| of == namespace).count() as u64)
    }

    async fn list_segments(&self) -> Result<Vec<ListedSegment>> {
        let tables = self.tables();
        Ok(tables.segments.iter().map(|segment| tables.listed(segment)).collect())
    }

    async fn segments_in(
        &self,
        namespace: &str,
        codes: RangeInclusive<&str>,
        limit: u32,
    ) -> Result<Vec<ListedSegment>> {
        let tables = self.tables();
        let [first, last] =
            [codes.start(), codes.end()].map(|code| (namespace.to_owned(), (*code).to_owned()));
        let found = tables.segments.range(first..=last).take(limit as usize);
        Ok(found.map(|segment| tables.listed(segment)).collect())
    }
}

#[async_trait]
impl IdempotencyStore for MemoryStore {
    async fn claim_keys(
        &self,
        namespace: &str,
        code: &str,
        keys: &[&str],
        owner: Token,
        patience: Duration,
    ) -> Result<Vec<KeyState>> {
        let now_ms = self.clock.now_ms();
        let oldest_ms = now_ms.saturating_sub(millis(patience));
        let mut tables = self.tables();
        let claim = |key: &&str| {
            let name = (namespace.to_owned(), code.to_owned(), (*key).to_owned());
            let new =
                StoredKey { owner, text: String::new(), created_ms: now_ms, claimed_ms: now_ms };
            let stored = tables.keys.entry(name).or_insert(new);
            if stored.text.is_empty() && (stored.owner == owner || stored.claimed_ms < oldest_ms) {
                (stored.owner, stored.claimed_ms) = (owner, now_ms);
            }
            stored.state(owner)
        };
        Ok(keys.iter().map(claim).collect())
    }

    async fn finish_keys(
        &self,
        namespace: &str,
        code: &str,
        owner: Token,
        texts: &[KeyText],
    ) -> Result<Vec<KeyState>> {
        let mut tables = self.tables();
        let finish = |KeyText { key, text }: &KeyText| {
            let name = (namespace.to_owned(), code.to_owned(), key.clone());
            let Some(stored) = tables.keys.get_mut(&name) else { return KeyState::Busy };
            if stored.state(owner) == KeyState::Owned {
                stored.text.clone_from(text);
            }
            stored.state(owner)
        };
        Ok(texts.iter().map(finish).collect())
    }

    async fn delete_old_keys(&self, age: Duration) -> Result<u64> {
        let oldest_ms = self.clock.now_ms().saturating_sub(millis(age));
        let mut tables = self.tables();
        let old = tables.keys.iter().filter(|(_, key)| key.created_ms < oldest_ms);
        let old = old.zip(0..KEYS_AT_ONCE);
        let old: Vec<_> = old.map(|((name, _), _)| name.clone()).collect();
        for name in &old {
            tables.keys.remove(name);
        }
        Ok(old.len() as u64)
    }
}
