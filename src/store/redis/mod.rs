//! One Redis 6.2+ primary.
//!
//! A row is a hash, so is a layout record; sorted sets beside them find what is free. Every
//! operation is one script, so that a row is never read and written later.
//!
//! # What must be set so that an acknowledged write is not lost
//!
//! - `appendonly yes` and `appendfsync always`. Otherwise a crash of Redis, or a power failure,
//!   forgets the last writes. They are read and warned about.
//! - `maxmemory-policy noeviction`, or rows vanish under live nodes. Any other is refused where
//!   `CONFIG GET` is allowed.
//! - No fail-over. Replication of Redis is asynchronous: a replica that becomes the primary lacks
//!   the last acknowledged writes. That is why Cluster and Sentinel are not supported.

mod keys;
mod scripts;
mod segments;
mod server;
mod trust;

use std::sync::Arc;

use async_trait::async_trait;

use self::{
    keys::{Key, Keys, SegmentKeys, worker_id},
    server::Server,
};
use super::{
    LayoutRecord, ListedRow, NewRows, Scope, Store, StoreError, StoreSettings, Survey,
    value::{Reader, Value, shortened, whole_ms},
};
use crate::core::lease::{Row, RowExpiry, RowWrite, Token};

/// How many rows one script creates: it keeps others waiting.
const ROWS_AT_ONCE: usize = 500;

/// The server's clock, and rows: worker id, token, holder, lane, marks, heartbeat, expiry.
type Rows = (i64, Vec<Vec<Option<Vec<u8>>>>);

pub(super) fn store(settings: &StoreSettings) -> Result<Arc<dyn Store>, StoreError> {
    Ok(Arc::new(RedisStore {
        server: Server::new(settings)?,
        keys: Keys::new(&settings.worker_table),
        segments: SegmentKeys::new(&settings.segment_table),
        worker_table: settings.worker_table.clone(),
        segment_table: settings.segment_table.clone(),
    }))
}

/// Worker rows and layout records in Redis.
#[derive(Debug)]
struct RedisStore {
    server: Server,
    keys: Keys,
    segments: SegmentKeys,
    worker_table: String,
    segment_table: String,
}

impl RedisStore {
    fn free_keys(&self, scope: &Scope) -> [Key; 2] {
        [self.keys.unused(scope), self.keys.expiry(scope)]
    }

    fn read(&self, scope: &Scope, (now_ms, rows): Rows) -> Vec<Result<Row, StoreError>> {
        let key = format!("{} {}", scope.namespace, scope.reserved_key);
        rows.into_iter()
            .map(|row| {
                let values = columns(now_ms, row);
                Reader::new(&self.worker_table, key.as_str(), values).worker_row(&key)
            })
            .collect()
    }
}

#[async_trait]
impl Store for RedisStore {
    fn clock_is_local(&self) -> bool {
        false
    }

    async fn prepare(&self) -> Result<Vec<String>, StoreError> {
        let warnings = trust::check(&self.server).await?;
        // Fails when the name is somebody else's.
        self.server.command::<u64>("SCARD", &self.keys.scopes()).await?;
        Ok(warnings)
    }

    async fn create_record(
        &self,
        namespace: &str,
        record: &LayoutRecord,
    ) -> Result<LayoutRecord, StoreError> {
        let keys = [self.keys.layout(namespace)];
        let fields = fields_of(record);
        let args = fields.each_ref().map(String::as_str);
        let stored: Vec<Option<Vec<u8>>> =
            self.server.run(&scripts::CREATE_RECORD, &keys, &args).await?;
        record_of(&keys[0], namespace, stored)
    }

    async fn read_record(&self, namespace: &str) -> Result<Option<LayoutRecord>, StoreError> {
        let keys = [self.keys.layout(namespace)];
        let record: Vec<Option<Vec<u8>>> =
            self.server.run(&scripts::READ_RECORD, &keys, &[]).await?;
        if record.is_empty() {
            return Ok(None);
        }
        record_of(&keys[0], namespace, record).map(Some)
    }

    async fn swap_record(
        &self,
        namespace: &str,
        expected: Token,
        record: &LayoutRecord,
    ) -> Result<bool, StoreError> {
        let keys = [self.keys.layout(namespace)];
        let (expected, fields) = (expected.to_string(), fields_of(record));
        let mut args = vec![expected.as_str()];
        args.extend(fields.iter().map(String::as_str));
        self.server.run(&scripts::SWAP_RECORD, &keys, &args).await
    }

    async fn create_rows(&self, scope: &Scope, new: &NewRows) -> Result<bool, StoreError> {
        let keys = [
            self.keys.layout(&scope.namespace),
            self.keys.scopes(),
            self.keys.workers(scope),
            self.keys.unused(scope),
            self.keys.expiry(scope),
        ];
        let name = format!("{} {}", scope.reserved_key, scope.namespace);
        let (rows, marks) = (self.keys.rows(scope), new.marks.to_string());
        let (record, until_ms) = (new.record.to_string(), new.until_ms.to_string());
        let born: Vec<[String; 2]> = (scope.min_worker..=scope.max_worker)
            .zip(&new.tokens)
            .map(|(worker, token)| [worker_id(worker), token.to_string()])
            .collect();
        for born in born.chunks(ROWS_AT_ONCE) {
            let mut args = vec![rows.as_str(), &name, &marks, &record, &until_ms];
            args.extend(born.iter().flatten().map(String::as_str));
            if !self.server.run(&scripts::CREATE_ROWS, &keys, &args).await? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    async fn survey(&self, scope: &Scope) -> Result<Survey, StoreError> {
        let keys =
            [self.keys.layout(&scope.namespace), self.keys.workers(scope), self.keys.expiry(scope)];
        let range = [worker_id(scope.min_worker), worker_id(scope.max_worker)];
        let args = [range[0].as_str(), &range[1]];
        let (now_ms, words, held, free, next_expiry): (i64, String, u64, i64, String) =
            self.server.run(&scripts::SURVEY, &keys, &args).await?;
        Ok(Survey {
            now_ms,
            record: Some(words).filter(|words| !words.is_empty()),
            held,
            // Below 0 only when somebody deleted a key.
            free: u64::try_from(free).unwrap_or(0),
            next_expiry_ms: next_expiry.parse().ok(),
        })
    }

    async fn free_rows(&self, scope: &Scope, limit: u32) -> Result<Vec<Row>, StoreError> {
        let (rows, limit) = (self.keys.rows(scope), limit.to_string());
        let range = [worker_id(scope.min_worker), worker_id(scope.max_worker)];
        let args = [rows.as_str(), &range[0], &range[1], &limit];
        let found = self.server.run(&scripts::FREE_ROWS, &self.free_keys(scope), &args).await?;
        Ok(Reader::readable(self.read(scope, found)))
    }

    async fn free_row_of(&self, scope: &Scope, holder: &str) -> Result<Option<Row>, StoreError> {
        let rows = self.keys.rows(scope);
        let range = [worker_id(scope.min_worker), worker_id(scope.max_worker)];
        let args = [rows.as_str(), &range[0], &range[1], shortened(holder)];
        let found = self.server.run(&scripts::FREE_ROW_OF, &self.free_keys(scope), &args).await?;
        self.read(scope, found).into_iter().next().transpose()
    }

    async fn row(&self, scope: &Scope, worker: u64) -> Result<Option<Row>, StoreError> {
        let keys = [self.keys.row(scope, worker)];
        let found = self.server.run(&scripts::ROW, &keys, &[&worker_id(worker)]).await?;
        self.read(scope, found).into_iter().next().transpose()
    }

    async fn swap(
        &self,
        scope: &Scope,
        worker: u64,
        expected: Token,
        write: &RowWrite,
    ) -> Result<bool, StoreError> {
        let keys = [self.keys.row(scope, worker), self.keys.unused(scope), self.keys.expiry(scope)];
        let expiry = match write.expiry {
            RowExpiry::Released => String::new(),
            RowExpiry::After(ttl) => whole_ms(ttl).to_string(),
        };
        let args = [
            worker_id(worker),
            expected.to_string(),
            write.token.to_string(),
            shortened(&write.holder).to_owned(),
            write.lane.to_string(),
            write.marks.to_string(),
            expiry,
        ];
        self.server.run(&scripts::SWAP, &keys, &args.each_ref().map(String::as_str)).await
    }

    async fn list(&self) -> Result<Vec<ListedRow>, StoreError> {
        let names: Vec<String> = self.server.command("SMEMBERS", &self.keys.scopes()).await?;
        let mut names: Vec<_> = names
            .iter()
            .filter_map(|name| name.split_once(' '))
            .map(|(reserved_key, namespace)| (namespace, reserved_key))
            .collect();
        names.sort_unstable();
        let mut listed = Vec::new();
        for (namespace, reserved_key) in names {
            let scope = Scope {
                namespace: namespace.to_owned(),
                reserved_key: reserved_key.to_owned(),
                min_worker: 0,
                max_worker: u64::MAX,
            };
            let keys = [self.keys.workers(&scope)];
            let rows = self.server.run(&scripts::LIST, &keys, &[&self.keys.rows(&scope)]).await?;
            for row in self.read(&scope, rows) {
                let (namespace, reserved_key) =
                    (scope.namespace.clone(), scope.reserved_key.clone());
                listed.push(ListedRow { namespace, reserved_key, row: row? });
            }
        }
        Ok(listed)
    }

    async fn close(&self) {
        self.server.close().await;
    }
}

fn record_of(
    key: &Key,
    namespace: &str,
    record: Vec<Option<Vec<u8>>>,
) -> Result<LayoutRecord, StoreError> {
    let mut fields = record.into_iter().map(text);
    let mut next = || fields.next().unwrap_or(Value::Null);
    let values = vec![next(), next(), next(), integer(next()), integer(next())];
    Reader::new(&key.name, namespace, values).layout_record()
}

/// A record's fields in the scripts' order.
fn fields_of(record: &LayoutRecord) -> [String; 5] {
    [
        record.token.to_string(),
        record.words.clone(),
        record.complete.join(","),
        record.since_tick.to_string(),
        record.first_tick.to_string(),
    ]
}

/// A row's values in the reader's order.
fn columns(now_ms: i64, row: Vec<Option<Vec<u8>>>) -> Vec<Value> {
    let mut fields = row.into_iter().map(text);
    let mut next = || fields.next().unwrap_or(Value::Null);
    let (worker, token, holder, lane) = (integer(next()), next(), next(), integer(next()));
    let (marks, heartbeat, expires) = (next(), integer(next()), integer(next()));
    let free = match expires {
        Value::Integer(expires_ms) => Value::Integer((expires_ms <= now_ms).into()),
        ref unreadable => unreadable.clone(),
    };
    vec![worker, token, holder, lane, marks, free, heartbeat, expires]
}

fn text(bytes: Option<Vec<u8>>) -> Value {
    bytes.map_or(Value::Null, |bytes| Value::Text(String::from_utf8_lossy(&bytes).into_owned()))
}

/// What is no integer stays as it is, for the reader to complain about.
fn integer(value: Value) -> Value {
    match &value {
        Value::Text(text) => text.parse().map_or(value, Value::Integer),
        _ => value,
    }
}
