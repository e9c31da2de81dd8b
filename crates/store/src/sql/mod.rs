//! SQL databases as stores: the logic that all engines share.
//!
//! An engine is two files: its statements (`mysql.sql`), and Rust for its connections, the set-up
//! of sessions and the classes of errors (`mysql.rs`); see [`engine::Engine`].
//!
//! Every write is one autocommitted statement. It compares the session and, where they matter,
//! tokens, the epoch and the server's identity. So a proxy that passes it to another server or
//! session makes it write nothing. Nothing is read first and then written in a transaction.
//!
//! Two details keep answers whole. Lists carry their number of rows ([`session::complete_rows`]),
//! because some proxies cut results short. A row that cannot be parsed does not hide the others.
//! Tests: tests/store/sql.rs, statements.rs, split.rs and poolers.rs.

mod connections;
mod engine;
mod idempotency;
#[cfg(any(feature = "mysql", feature = "postgres"))]
mod login;
#[cfg(feature = "mysql")]
pub(super) mod mysql;
#[cfg(feature = "postgres")]
pub(super) mod postgres;
mod schema;
mod segments;
mod session;
#[cfg(feature = "sqlite")]
pub(super) mod sqlite;

use std::{fmt, sync::atomic::AtomicBool, time::Duration};

use async_trait::async_trait;
use raindrop_core::lease::{Row, RowWrite, Token};

use self::{
    connections::Sessions,
    engine::{Engine, Statements},
    schema::WORKER_TABLES,
    session::Server,
};
use super::{
    Failover, LOSES_WRITES, LayoutRecord, ListedRow, NewRows, Result, Scope, Store, StoreError,
    StoreSettings, Survey, UnreleasedRow,
    pool::Pool,
    record::ttl_ms,
    renewed::Renewed,
    store_id::StoreIdCheck,
    value::{Reader, Value, readable, record_values, shortened, values, worker_rows},
};

/// The number of columns of a survey before those of the record.
const SURVEY_COLUMNS: usize = 5;
/// The most rows that one statement inserts, so that it stays short.
const ROWS_AT_ONCE: usize = 1_000;

/// Worker rows, layout records and segment codes in a SQL database.
pub(super) struct SqlStore<E: Engine> {
    settings: StoreSettings,
    pool: Pool<Renewed<Sessions<E>>>,
    sql: Statements,
    id_check: StoreIdCheck,
    /// Whether the table of idempotency keys is missing, and this account may not create it.
    lacks_keys: AtomicBool,
}

impl<E: Engine> fmt::Debug for SqlStore<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SqlStore").field("settings", &self.settings).finish_non_exhaustive()
    }
}

impl<E: Engine> SqlStore<E> {
    pub(super) fn new(settings: &StoreSettings) -> Result<Self> {
        let sql = engine::read_statements(E::SQL, settings);
        let statements = sql.clone();
        let sessions =
            Renewed::new(settings, move |settings| Sessions::new(settings, &statements))?;
        Ok(Self {
            settings: settings.clone(),
            pool: Pool::new(sessions, settings.max_connections, settings.timeout),
            sql,
            id_check: StoreIdCheck::default(),
            lacks_keys: AtomicBool::new(false),
        })
    }

    /// Reads a layout record from its columns, which are null if there is none.
    fn record_if_any(&self, namespace: &str, row: Vec<Value>) -> Result<Option<LayoutRecord>> {
        let is_there = row.first().is_some_and(|token| *token != Value::Null);
        let table = format!("{}_layout", self.settings.worker_table);
        is_there.then(|| Reader::new(&table, namespace, row).layout_record()).transpose()
    }

    /// Returns whether every row of a scope exists.
    async fn is_complete(&self, scope: &Scope) -> Result<bool> {
        Ok(self.count(&self.sql["count_rows"], &in_scope(scope)).await? >= scope.workers())
    }

    /// Runs a statement that counts rows.
    async fn count(&self, sql: &str, args: &[Value]) -> Result<u64> {
        let row = self.read(sql, args).await?.pop().unwrap_or_default();
        self.reader(row).get("count")
    }

    /// Returns warnings about settings under which acknowledged writes may be lost.
    async fn durability_warnings(&self) -> Result<Vec<String>> {
        let warning = |row: Vec<Value>| match row.as_slice() {
            [Value::Text(name), Value::Text(value), Value::Text(wanted)] if value != wanted => {
                Some(format!("{name} is {value}, not {wanted}: the database {LOSES_WRITES}"))
            }
            _ => None,
        };
        let settings = self.read(&self.sql["durability"], &[]).await?;
        Ok(settings.into_iter().filter_map(warning).collect())
    }

    fn reader(&self, row: Vec<Value>) -> Reader<'_> {
        Reader::new(&self.settings.worker_table, "", row)
    }
}

#[async_trait]
impl<E: Engine> Store for SqlStore<E> {
    fn clock_is_local(&self) -> bool {
        E::CLOCK_IS_LOCAL
    }

    fn is_verified(&self) -> bool {
        self.pool.connector.first.address.is_verified
    }

    fn longest_call(&self) -> Duration {
        self.settings.longest_call()
    }

    async fn prepare(&self) -> Result<Vec<String>> {
        self.id_check.run(self, &self.settings).await?;
        self.engine().allow_creation();
        self.prepare_tables(&self.settings.worker_table, WORKER_TABLES, E::MIGRATIONS).await?;
        let mut warnings = self.durability_warnings().await?;
        warnings.extend(self.engine().warning().map(str::to_owned));
        Ok(warnings)
    }

    async fn create_record(&self, namespace: &str, record: &LayoutRecord) -> Result<LayoutRecord> {
        let mut stored = self.read_record(namespace).await?;
        if stored.is_none() {
            self.write(&self.sql["create_record"], |server| {
                [&record_values(record)[..], &values![namespace, &server.session]].concat()
            })
            .await?;
            stored = self.read_record(namespace).await?;
        }
        stored.ok_or_else(|| {
            StoreError::Refused("the layout record vanished while it was being written".into())
        })
    }

    async fn read_record(&self, namespace: &str) -> Result<Option<LayoutRecord>> {
        let row = self.read(&self.sql["read_record"], &values![namespace]).await?.pop();
        row.map_or(Ok(None), |row| self.record_if_any(namespace, row))
    }

    async fn swap_record(
        &self,
        namespace: &str,
        expected: Token,
        record: &LayoutRecord,
    ) -> Result<bool> {
        let new_identity = &record.history.identity;
        let swap = |Server { session, identity }: &Server| {
            let server = values![new_identity, identity, identity, session];
            [&record_values(record)[..], &values![namespace, expected], &server].concat()
        };
        Ok(self.write(&self.sql["swap_record"], swap).await?.matched == 1)
    }

    async fn create_rows(&self, scope: &Scope, new: &NewRows) -> Result<bool> {
        for min_worker in (scope.min_worker..=scope.max_worker).step_by(ROWS_AT_ONCE) {
            let max_worker = scope.max_worker.min(min_worker + ROWS_AT_ONCE as u64 - 1);
            let chunk = Scope { min_worker, max_worker, ..scope.clone() };
            // Nodes that start together insert the same rows, so most of them exist already.
            if self.is_complete(&chunk).await? {
                continue;
            }
            let rows = (min_worker..=max_worker).map(|it| format!("[{it},\"{}\"]", new.token(it)));
            let rows = format!("[{}]", rows.collect::<Vec<_>>().join(","));
            let Scope { namespace, reserved_key, .. } = scope;
            self.write(&self.sql["create_rows"], |Server { session, identity }| {
                let of_rows = values![namespace, reserved_key, &new.marks, rows];
                let of_record = values![namespace, new.record, identity, identity];
                [&of_rows[..], &of_record, &values![new.until_ms, session]].concat()
            })
            .await?;
            if !self.is_complete(&chunk).await? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    async fn survey(&self, scope: &Scope) -> Result<Survey> {
        let args = [&in_scope(scope)[..], &values![&scope.namespace]].concat();
        let (answer, server) = self.read_on(&self.sql["survey"], |_| args).await?;
        let mut row = answer.into_row();
        let record = row.split_off(SURVEY_COLUMNS.min(row.len()));
        let mut reader = self.reader(row);
        let now_ms = reader.get("now")?;
        server.check_session(&reader.get::<String>("session")?)?;
        let (held, free) = (reader.get("held")?, reader.get("free")?);
        let next_expiry_ms = reader.get("expires_at")?;
        let record = self.record_if_any(&scope.namespace, record)?;
        let identity = (self.settings.failover == Failover::Auto).then_some(server.identity);
        Ok(Survey { now_ms, identity, record, held, free, next_expiry_ms })
    }

    async fn unreleased_rows(&self, namespace: &str, limit: u32) -> Result<Vec<UnreleasedRow>> {
        let args = values![namespace, i64::from(limit)].to_vec();
        let (answer, server) = self.read_on(&self.sql["unreleased_rows"], |_| args).await?;
        let mut unreleased = Vec::new();
        for row in answer.rows {
            // If there are none, a single row has only the session.
            let is_there = row.last().is_some_and(|heartbeat| *heartbeat != Value::Null);
            let mut reader = self.reader(row);
            server.check_session(&reader.get::<String>("session")?)?;
            if is_there {
                unreleased.push(reader.unreleased_row::<u64>(namespace)?);
            }
        }
        Ok(unreleased)
    }

    async fn free_rows(&self, scope: &Scope, holder: Option<&str>, limit: u32) -> Result<Vec<Row>> {
        let mut args = in_scope(scope).to_vec();
        args.extend(holder.map(|holder| shortened(holder).into()));
        args.push(i64::from(limit).into());
        let sql = match holder {
            None => &self.sql["free_rows"],
            Some(_) => &self.sql["free_rows_of_holder"],
        };
        let rows = self.read(sql, &args).await?;
        Ok(readable(scope, worker_rows(&self.settings.worker_table, scope, rows)))
    }

    async fn read_row(&self, scope: &Scope, worker: u64) -> Result<Option<Row>> {
        let args = values![&scope.namespace, &scope.reserved_key, worker];
        let rows = self.read(&self.sql["read_row"], &args).await?;
        worker_rows(&self.settings.worker_table, scope, rows).next().transpose()
    }

    async fn swap_row(
        &self,
        scope: &Scope,
        worker: u64,
        expected: Token,
        write: &RowWrite,
    ) -> Result<bool> {
        let Scope { namespace, reserved_key, .. } = scope;
        let swap = |Server { session, identity }: &Server| {
            let new = values![
                write.token,
                write.epoch,
                shortened(&write.holder),
                write.lane as u64,
                &write.marks,
                ttl_ms(write),
            ];
            let row = values![namespace, reserved_key, worker, expected];
            let record = values![namespace, write.epoch, identity, identity];
            [&new[..], &row, &record, &values![session]].concat()
        };
        Ok(self.write(&self.sql["swap_row"], swap).await?.matched == 1)
    }

    async fn list_rows(&self) -> Result<Vec<ListedRow>> {
        let rows = self.read(&self.sql["list_rows"], &[]).await?;
        let rows = session::complete_rows(rows, &self.settings.worker_table)?;
        rows.into_iter().map(|row| self.reader(row).listed_row()).collect()
    }

    async fn close(&self) {
        self.pool.close().await;
    }
}

/// Returns the arguments that select the rows of a scope.
fn in_scope(scope: &Scope) -> [Value; 4] {
    values![&scope.namespace, &scope.reserved_key, scope.min_worker, scope.max_worker]
}
