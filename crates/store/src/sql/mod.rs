//! SQL databases as stores: the logic that they share.
//!
//! An engine is one file: its connection, a few expressions, its migrations and the classes of its
//! errors. See [`engine::Engine`].

mod connections;
mod engine;
mod foreign;
#[cfg(feature = "mysql")]
pub(super) mod mysql;
#[cfg(feature = "postgres")]
pub(super) mod postgres;
mod schema;
mod segments;
mod session;
#[cfg(feature = "sqlite")]
pub(super) mod sqlite;
mod statements;

use std::{fmt, time::Duration};

use async_trait::async_trait;
use raindrop_core::lease::{Row, RowWrite, Token};

use self::{
    engine::{Answer, Engine},
    statements::{LAYOUT_COLUMNS, Statements, WORKER_COLUMNS},
};
use super::{
    Counts, Failover, LOSES_WRITES, LayoutRecord, ListedRow, NewRows, Result, Scope, Store,
    StoreError, StoreSettings, Survey,
    pool::Pool,
    record::ttl_ms,
    value::{Reader, Value, readable, record_values, shortened, values, worker_rows},
};

/// How many columns of a survey come before those of the record.
const SURVEY_COLUMNS: usize = 5;
/// How many rows one statement inserts. SQLite needs more than 1 KiB for each while it prepares the
/// statement, and joins at most 500 queries.
const ROWS_AT_ONCE: usize = 100;

/// Worker rows, layout records and segment codes in a SQL database.
pub(super) struct SqlStore<E: Engine> {
    settings: StoreSettings,
    pool: Pool<E>,
    statements: Statements,
}

impl<E: Engine> fmt::Debug for SqlStore<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SqlStore").field("settings", &self.settings).finish_non_exhaustive()
    }
}

impl<E: Engine> SqlStore<E> {
    pub(super) fn new(settings: &StoreSettings) -> Result<Self> {
        Ok(Self {
            settings: settings.clone(),
            pool: Pool::new(E::new(settings)?, settings.max_connections, settings.timeout),
            statements: Statements::new(&E::DIALECT, settings),
        })
    }

    /// Fills the placeholders of a statement and runs it.
    async fn run(&self, sql: &str, args: &[Value]) -> Result<Answer> {
        self.execute(&self.statements.fill(sql), args).await
    }

    /// Returns the identity of the server, if it is compared. A server that has none takes no writes.
    fn compared(&self, server: Option<String>) -> Result<Option<String>> {
        if server.as_deref() == Some(session::NOT_SET_UP) {
            return Err(session::pooled("a statement ran in a server session that was not set up"));
        }
        match self.settings.failover {
            Failover::Lossless => Ok(None),
            Failover::Auto => server.map(Some).ok_or_else(|| {
                let reason = "the server that answers reads is read-only: store.url must reach the \
                              one that accepts writes";
                StoreError::Unavailable(reason.into())
            }),
        }
    }

    /// Reads a layout record from its columns, which are null where there is none.
    fn record_if_any(&self, namespace: &str, row: Vec<Value>) -> Result<Option<LayoutRecord>> {
        if row.first().is_none_or(|token| *token == Value::Null) {
            return Ok(None);
        }
        let table = format!("{}_layout", self.settings.worker_table);
        Reader::new(&table, namespace, row).layout_record().map(Some)
    }

    /// Whether every row of a scope is there.
    async fn is_complete(&self, scope: &Scope) -> Result<bool> {
        let sql = "SELECT COUNT(*) FROM {worker} WHERE {in_scope}";
        let row = self.run(sql, &in_scope(scope)).await?.into_row();
        Ok(self.reader(row).get::<u64>("worker_id")? >= scope.workers())
    }

    /// Warns about settings under which acknowledged writes may be lost.
    async fn durability_warnings(&self) -> Result<Vec<String>> {
        let Some(sql) = E::DIALECT.durability else { return Ok(Vec::new()) };
        let rows = match self.execute(sql, &[]).await {
            Ok(answer) => answer.rows,
            // A relative of the engine without these settings.
            Err(StoreError::Refused(_)) => {
                return Ok(vec!["the database does not report its durability settings".to_owned()]);
            }
            Err(error) => return Err(error),
        };
        let warning = |row: Vec<Value>| match row.as_slice() {
            [Value::Text(name), Value::Text(value), Value::Text(wanted)] if value != wanted => {
                Some(format!("{name} is {value}, not {wanted}: the database {LOSES_WRITES}"))
            }
            _ => None,
        };
        Ok(rows.into_iter().filter_map(warning).collect())
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
        self.pool.connector.is_verified()
    }

    fn longest_call(&self) -> Duration {
        self.settings.longest_call()
    }

    async fn prepare(&self) -> Result<Vec<String>> {
        self.pool.connector.allow_creation();
        let worker_table = &self.settings.worker_table;
        let layout_table = format!("{worker_table}_layout");
        let tables = [(worker_table.as_str(), WORKER_COLUMNS), (&layout_table, LAYOUT_COLUMNS)];
        self.prepare_tables(worker_table, &tables, E::MIGRATIONS).await?;
        self.durability_warnings().await
    }

    async fn create_record(&self, namespace: &str, record: &LayoutRecord) -> Result<LayoutRecord> {
        let mut stored = self.read_record(namespace).await?;
        if stored.is_none() {
            let sql = "{clock}INSERT INTO {layout} ({record}, namespace, created_at) \
                 VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, {now}) {or_keep}";
            let args = [&record_values(record)[..], &values![namespace]].concat();
            self.run(sql, &args).await?;
            stored = self.read_record(namespace).await?;
        }
        stored.ok_or_else(|| {
            StoreError::Refused("the layout record vanished while it was being written".into())
        })
    }

    async fn read_record(&self, namespace: &str) -> Result<Option<LayoutRecord>> {
        let sql = "SELECT {record} FROM {layout} WHERE namespace = ?";
        let rows = self.run(sql, &values![namespace]).await?.rows;
        let Some(row) = rows.into_iter().next() else { return Ok(None) };
        self.record_if_any(namespace, row)
    }

    async fn swap_record(
        &self,
        namespace: &str,
        expected: Token,
        record: &LayoutRecord,
    ) -> Result<bool> {
        let sql = "UPDATE {layout} SET token = ?, words = ?, complete = ?, since_tick = ?, \
             first_tick = ?, identity = ?, epoch = ?, history = ? \
             WHERE namespace = ? AND token = ? AND {is_server}";
        let identity = &record.history.identity;
        let wanted = values![namespace, expected, identity, identity];
        let args = [&record_values(record)[..], &wanted].concat();
        Ok(self.run(sql, &args).await?.matched == 1)
    }

    async fn create_rows(&self, scope: &Scope, new: &NewRows) -> Result<bool> {
        for min_worker in (scope.min_worker..=scope.max_worker).step_by(ROWS_AT_ONCE) {
            let max_worker = scope.max_worker.min(min_worker + ROWS_AT_ONCE as u64 - 1);
            let chunk = Scope { min_worker, max_worker, ..scope.clone() };
            // Nodes that start together insert the same rows: most find them there.
            if self.is_complete(&chunk).await? {
                continue;
            }
            let mut args = values![&scope.namespace, &scope.reserved_key, &new.marks].to_vec();
            args.extend((min_worker..=max_worker).flat_map(|it| values![it, new.token(it)]));
            args.extend(values![&scope.namespace, new.record, new.until_ms]);
            let more_rows = " UNION ALL SELECT ?, ?".repeat((min_worker..max_worker).count());
            // The names of the new values must not be those of columns.
            let sql = format!(
                "{{clock}}INSERT INTO {{worker}} \
                 (namespace, reserved_key, marks, worker_id, token, created_at, updated_at) \
                 SELECT ?, ?, ?, a, b, {{now}}, {{now}} \
                 FROM (SELECT ? AS a, ? AS b{more_rows}) AS new_rows WHERE EXISTS \
                 (SELECT 1 FROM {{layout}} WHERE namespace = ? AND token = ? AND {{continues}}\
                 {{for_share}}) \
                 AND {{now_ms}} <= ? {{or_keep}}"
            );
            self.run(&sql, &args).await?;
            if !self.is_complete(&chunk).await? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    async fn survey(&self, scope: &Scope, _counts: Counts) -> Result<Survey> {
        let sql = "{clock}SELECT {now_ms}, {server}, held_rows, free_rows, next_expiry, {record} \
             FROM (SELECT COUNT(CASE WHEN expires_at > {now} THEN 1 END) AS held_rows, \
             COUNT(CASE WHEN expires_at <= {now} THEN 1 END) AS free_rows, \
             {next_expiry_ms} AS next_expiry FROM {worker} WHERE {in_scope}) AS counted \
             LEFT JOIN {layout} ON namespace = ?";
        let args = [&in_scope(scope)[..], &values![&scope.namespace]].concat();
        let mut row = self.run(sql, &args).await?.into_row();
        let record = row.split_off(SURVEY_COLUMNS.min(row.len()));
        let mut reader = self.reader(row);
        let (now_ms, server) = (reader.get("now")?, reader.get("identity")?);
        let identity = self.compared(server)?;
        let (held, free) = (reader.get("held")?, reader.get("free")?);
        let next_expiry_ms = reader.get("expires_at")?;
        let record = self.record_if_any(&scope.namespace, record)?;
        Ok(Survey { now_ms, identity, record, held, free, next_expiry_ms })
    }

    async fn free_rows(&self, scope: &Scope, holder: Option<&str>, limit: u32) -> Result<Vec<Row>> {
        let mut args = in_scope(scope).to_vec();
        args.extend(holder.map(|holder| shortened(holder).into()));
        args.push(i64::from(limit).into());
        let order = match holder {
            None => "ORDER BY heartbeat_at, worker_id",
            Some(_) => "AND {exact_holder} = ? ORDER BY heartbeat_at DESC, worker_id DESC",
        };
        let sql = "{clock}SELECT {row} FROM {worker} WHERE {in_scope} AND expires_at <= {now}";
        let rows = self.run(&format!("{sql} {order} LIMIT ?"), &args).await?.rows;
        Ok(readable(scope, worker_rows(&self.settings.worker_table, scope, rows)))
    }

    async fn row(&self, scope: &Scope, worker: u64) -> Result<Option<Row>> {
        let sql = "{clock}SELECT {row} FROM {worker} \
             WHERE namespace = ? AND reserved_key = ? AND worker_id = ?";
        let args = values![&scope.namespace, &scope.reserved_key, worker];
        let rows = self.run(sql, &args).await?.rows;
        worker_rows(&self.settings.worker_table, scope, rows).next().transpose()
    }

    async fn swap(
        &self,
        scope: &Scope,
        worker: u64,
        expected: Token,
        write: &RowWrite,
    ) -> Result<bool> {
        let sql = "{clock}UPDATE {worker} SET token = ?, epoch = ?, holder = ?, lane = ?, \
             marks = ?, heartbeat_at = {now}, expires_at = COALESCE({now_plus}, {never}), \
             updated_at = {now} \
             WHERE namespace = ? AND reserved_key = ? AND worker_id = ? AND token = ? \
             AND {in_epoch}";
        let args = values![
            write.token,
            write.epoch,
            shortened(&write.holder),
            write.lane as u64,
            &write.marks,
            ttl_ms(write),
            &scope.namespace,
            &scope.reserved_key,
            worker,
            expected,
            &scope.namespace,
            write.epoch,
        ];
        Ok(self.run(sql, &args).await?.matched == 1)
    }

    async fn list(&self) -> Result<Vec<ListedRow>> {
        let sql = "{clock}SELECT namespace, reserved_key, {row}, (SELECT COUNT(*) FROM {worker}) \
             FROM {worker} ORDER BY namespace, reserved_key, worker_id";
        let rows = session::whole(self.run(sql, &[]).await?.rows, &self.settings.worker_table)?;
        rows.into_iter().map(|row| self.reader(row).listed_row()).collect()
    }

    async fn close(&self) {
        self.pool.close().await;
    }
}

/// Returns the arguments of `{in_scope}`.
fn in_scope(scope: &Scope) -> [Value; 4] {
    values![&scope.namespace, &scope.reserved_key, scope.min_worker, scope.max_worker]
}
