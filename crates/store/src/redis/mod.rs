//! One Redis 6.2+ primary as a store.
//!
//! Rows and layout records are hashes; sorted sets beside them find the free rows. Every operation
//! is one script, so that nothing changes between a read and the write that depends on it.
//!
//! Redis acknowledges a write before replicas have it, and may lose it at a fail-over. So the
//! replication id of the server is its identity, which every write compares with the record's:
//! after a promotion or a restart, an epoch begins. `docs/guides/store-settings.md` lists the
//! settings that keep acknowledged writes; [`trust`] checks them. The primary is one of several
//! hosts, or the one that Sentinels name. Cluster is refused, because no script reaches all keys
//! there. Tests: tests/store/redis.rs.

mod address;
mod idempotency;
mod keys;
mod scripts;
mod segments;
mod server;
mod trust;

use std::{fmt, time::Duration};

use async_trait::async_trait;
use raindrop_core::lease::{Row, RowWrite, Token};
use redis::{FromRedisValue, ParsingError, RedisWrite, ToRedisArgs};

use self::keys::{WorkerId, worker_id};
use super::{
    Failover, LayoutRecord, ListedRow, NewRows, Result, Scope, Store, StoreSettings, Survey,
    UnreleasedRow,
    pool::Pool,
    record::ttl_ms,
    renewed::Renewed,
    store_id::StoreIdCheck,
    value::{Reader, Value, readable, record_values, shortened, values, worker_rows},
};

/// The most rows that one script creates: while it runs, the server does nothing else.
const ROWS_AT_ONCE: usize = 500;

/// Worker rows, layout records and segment codes in Redis.
pub(super) struct RedisStore {
    settings: StoreSettings,
    pool: Pool<Renewed<address::Address>>,
    id_check: StoreIdCheck,
}

impl fmt::Debug for RedisStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RedisStore").field("settings", &self.settings).finish_non_exhaustive()
    }
}

#[async_trait]
impl Store for RedisStore {
    fn clock_is_local(&self) -> bool {
        false
    }

    fn is_verified(&self) -> bool {
        self.pool.connector.first.is_verified
    }

    fn longest_call(&self) -> Duration {
        self.settings.longest_call()
    }

    async fn prepare(&self) -> Result<Vec<String>> {
        self.id_check.run(self, &self.settings).await?;
        let warnings = trust::check(self).await?;
        // Fails if the key has another type, so that another application uses its name.
        self.command::<u64>("SCARD", &self.scopes_key()).await?;
        Ok(warnings)
    }

    async fn create_record(&self, namespace: &str, record: &LayoutRecord) -> Result<LayoutRecord> {
        let keys = [self.layout_key(namespace)];
        let args = record_values(record);
        let stored = self.run(&scripts::CREATE_RECORD, &keys, &args).await?;
        Reader::new(&keys[0].name, namespace, stored).layout_record()
    }

    async fn read_record(&self, namespace: &str) -> Result<Option<LayoutRecord>> {
        let keys = [self.layout_key(namespace)];
        let stored = self.run(&scripts::READ_RECORD, &keys, &[]).await?;
        record_if_any(&keys[0].name, namespace, stored)
    }

    async fn swap_record(
        &self,
        namespace: &str,
        expected: Token,
        record: &LayoutRecord,
    ) -> Result<bool> {
        let keys = [self.layout_key(namespace)];
        let args = [&values![expected][..], &record_values(record), &[self.is_compared()]].concat();
        self.run(&scripts::SWAP_RECORD, &keys, &args).await
    }

    async fn create_rows(&self, scope: &Scope, new: &NewRows) -> Result<bool> {
        let keys = [
            self.layout_key(&scope.namespace),
            self.scopes_key(),
            self.workers_key(scope),
            self.unused_key(scope),
            self.expiry_key(scope),
        ];
        let name = scope_name(scope);
        for first in (scope.min_worker..=scope.max_worker).step_by(ROWS_AT_ONCE) {
            let last = scope.max_worker.min(first + ROWS_AT_ONCE as u64 - 1);
            let prefix = self.row_prefix(scope);
            let mut args = values![prefix, &name, &new.marks, new.record, new.until_ms].to_vec();
            args.push(self.is_compared());
            let row = |worker| values![worker_id(worker), new.token(worker)];
            args.extend((first..=last).flat_map(row));
            if !self.run(&scripts::CREATE_ROWS, &keys, &args).await? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    async fn survey(&self, scope: &Scope) -> Result<Survey> {
        let layout = self.layout_key(&scope.namespace);
        let keys = [layout, self.workers_key(scope), self.expiry_key(scope)];
        let (min_worker, max_worker) = (worker_id(scope.min_worker), worker_id(scope.max_worker));
        let args = values![min_worker, max_worker, self.is_compared()];
        let (now_ms, server, held, free, next_expiry, record): (_, String, _, i64, String, Vec<_>) =
            self.run(&scripts::SURVEY, &keys, &args).await?;
        Ok(Survey {
            now_ms,
            identity: (self.settings.failover == Failover::Auto).then_some(server),
            record: record_if_any(&keys[0].name, &scope.namespace, record)?,
            held,
            // Below 0 only after an operator deleted a key.
            free: u64::try_from(free).unwrap_or(0),
            next_expiry_ms: next_expiry.parse().ok(),
        })
    }

    async fn unreleased_rows(&self, namespace: &str, limit: u32) -> Result<Vec<UnreleasedRow>> {
        let [rows, expiries, unused] =
            ["row", "expiry", "unused"].map(|what| self.of_key(namespace, what, ""));
        let keys = [self.scopes_key(), self.layout_key(namespace)];
        let args = values![namespace, rows, expiries, unused, i64::from(limit)];
        let rows: Vec<Vec<Value>> = self.run(&scripts::UNRELEASED_ROWS, &keys, &args).await?;
        let read = |row: Vec<Value>| {
            // Errors name the set of this reserved key.
            let reserved_key = row.first().map(Value::to_string).unwrap_or_default();
            let expiries = self.of_key(namespace, "expiry", &reserved_key);
            Reader::new(&expiries, "", row).unreleased_row::<WorkerId>(namespace)
        };
        rows.into_iter().map(read).collect()
    }

    async fn free_rows(&self, scope: &Scope, holder: Option<&str>, limit: u32) -> Result<Vec<Row>> {
        let mut args = values![
            self.row_prefix(scope),
            worker_id(scope.min_worker),
            worker_id(scope.max_worker),
            i64::from(limit),
        ]
        .to_vec();
        args.extend(holder.map(|holder| shortened(holder).into()));
        let keys = [self.unused_key(scope), self.workers_key(scope)];
        let rows = self.run(&scripts::FREE_ROWS, &keys, &args).await?;
        Ok(readable(scope, worker_rows(&self.settings.worker_table, scope, rows)))
    }

    async fn read_row(&self, scope: &Scope, worker: u64) -> Result<Option<Row>> {
        let keys = [self.row_key(scope, worker)];
        let found = self.run(&scripts::READ_ROW, &keys, &values![worker_id(worker)]).await?;
        worker_rows(&self.settings.worker_table, scope, found).next().transpose()
    }

    async fn swap_row(
        &self,
        scope: &Scope,
        worker: u64,
        expected: Token,
        write: &RowWrite,
    ) -> Result<bool> {
        let keys = [
            self.row_key(scope, worker),
            self.unused_key(scope),
            self.expiry_key(scope),
            self.layout_key(&scope.namespace),
            self.workers_key(scope),
            self.scopes_key(),
        ];
        let args = values![
            worker_id(worker),
            expected,
            write.token,
            shortened(&write.holder),
            write.lane as u64,
            &write.marks,
            ttl_ms(write),
            write.epoch,
            self.is_compared(),
            scope_name(scope),
        ];
        self.run(&scripts::SWAP_ROW, &keys, &args).await
    }

    async fn list_rows(&self) -> Result<Vec<ListedRow>> {
        let names: Vec<String> = self.command("SMEMBERS", &self.scopes_key()).await?;
        let mut keys: Vec<_> = names
            .iter()
            .filter_map(|name| name.split_once(' '))
            .map(|(reserved_key, namespace)| (namespace, reserved_key))
            .collect();
        keys.sort_unstable();
        let mut listed = Vec::new();
        for (namespace, reserved_key) in keys {
            let scope = Scope {
                namespace: namespace.to_owned(),
                reserved_key: reserved_key.to_owned(),
                min_worker: 0,
                max_worker: u64::MAX,
            };
            let workers = [self.workers_key(&scope)];
            let args = values![self.row_prefix(&scope)];
            let rows: Vec<Vec<Value>> = self.run(&scripts::LIST_ROWS, &workers, &args).await?;
            for row in rows {
                let columns = [&values![namespace, reserved_key][..], &row].concat();
                listed.push(Reader::new(&self.settings.worker_table, "", columns).listed_row()?);
            }
        }
        Ok(listed)
    }

    async fn close(&self) {
        self.pool.close().await;
    }
}

impl RedisStore {
    /// Returns the argument that tells scripts whether identities are compared.
    fn is_compared(&self) -> Value {
        Value::from(if self.settings.failover == Failover::Auto { "1" } else { "" })
    }
}

/// Returns the member of the set of scopes for a scope.
fn scope_name(scope: &Scope) -> String {
    format!("{} {}", scope.reserved_key, scope.namespace)
}

/// Reads a layout record from its fields; no fields mean that there is no record.
fn record_if_any(key: &str, namespace: &str, fields: Vec<Value>) -> Result<Option<LayoutRecord>> {
    let is_there = !fields.is_empty();
    is_there.then(|| Reader::new(key, namespace, fields).layout_record()).transpose()
}

impl FromRedisValue for Value {
    fn from_redis_value(value: redis::Value) -> Result<Self, ParsingError> {
        Ok(match value {
            redis::Value::Nil => Self::Null,
            redis::Value::BulkString(bytes) => String::from_utf8_lossy(&bytes).as_ref().into(),
            other => Self::Integer(i64::from_redis_value(other)?),
        })
    }
}

impl ToRedisArgs for Value {
    fn write_redis_args<W: ?Sized + RedisWrite>(&self, out: &mut W) {
        match self {
            Self::Null => out.write_arg(b""),
            Self::Integer(integer) => out.write_arg_fmt(integer),
            Self::Text(text) => out.write_arg(text.as_bytes()),
        }
    }
}
