//! SQL databases as stores: the logic stands here once.
//!
//! An engine is one file: its connection, a few expressions, its migrations and what its errors
//! mean. See [`engine::Engine`].

mod connections;
mod engine;
#[cfg(feature = "mysql")]
mod mysql;
#[cfg(feature = "postgres")]
mod postgres;
mod schema;
mod segments;
#[cfg(feature = "sqlite")]
mod sqlite;
mod statements;

use std::sync::Arc;

use async_trait::async_trait;

use self::{
    connections::Connections,
    engine::{Arg, Engine},
    schema::Schema,
    segments::SegmentStatements,
    statements::{LAYOUT_COLUMNS, Statements, WORKER_COLUMNS},
};
use super::{
    LayoutRecord, ListedRow, NewRows, Scope, Store, StoreError, StoreSettings, Survey,
    value::{Reader, Value, shortened, whole_ms},
};
use crate::core::lease::{Row, RowExpiry, RowWrite, Token};

/// How many rows one statement inserts: SQLite joins at most 500 queries.
const ROWS_AT_ONCE: usize = 250;

#[cfg(feature = "mysql")]
pub(super) fn mysql(settings: &StoreSettings) -> Result<Arc<dyn Store>, StoreError> {
    Ok(Arc::new(SqlStore::new(mysql::MySqlEngine::new(settings)?, settings)))
}

#[cfg(feature = "postgres")]
pub(super) fn postgres(settings: &StoreSettings) -> Result<Arc<dyn Store>, StoreError> {
    Ok(Arc::new(SqlStore::new(postgres::PostgresEngine::new(settings)?, settings)))
}

#[cfg(feature = "sqlite")]
pub(super) fn sqlite(settings: &StoreSettings) -> Result<Arc<dyn Store>, StoreError> {
    Ok(Arc::new(SqlStore::new(sqlite::SqliteEngine::new(settings)?, settings)))
}

/// Worker rows and layout records in a SQL database.
#[derive(Debug)]
struct SqlStore<E: Engine> {
    connections: Connections<E>,
    statements: Statements,
    segments: SegmentStatements,
    worker_table: String,
    segment_table: String,
}

impl<E: Engine> SqlStore<E> {
    fn new(engine: E, settings: &StoreSettings) -> Self {
        Self {
            connections: Connections::new(engine, settings.max_connections, settings.timeout),
            statements: Statements::new(&E::DIALECT, &settings.worker_table),
            segments: SegmentStatements::new(&E::DIALECT, &settings.segment_table),
            worker_table: settings.worker_table.clone(),
            segment_table: settings.segment_table.clone(),
        }
    }

    /// The rows that a query answers.
    async fn rows(
        &self,
        scope: &Scope,
        sql: &str,
        args: &[Arg<'_>],
    ) -> Result<Vec<Result<Row, StoreError>>, StoreError> {
        let key = format!("{} {}", scope.namespace, scope.reserved_key);
        let rows = self.connections.fetch(sql, args).await?;
        Ok(rows.into_iter().map(|row| self.reader(&key, row).worker_row(&key)).collect())
    }

    /// Whether every row of a scope is there.
    async fn is_complete(&self, scope: &Scope) -> Result<bool, StoreError> {
        let sql = &self.statements.count_rows;
        let rows = self.connections.fetch(sql, &in_scope(scope)).await?;
        let present = rows.into_iter().next().unwrap_or_default();
        Ok(self.reader("", present).count("worker_id")? >= scope.workers())
    }

    fn reader(&self, row: &str, values: Vec<Value>) -> Reader<'_> {
        Reader::new(&self.worker_table, row, values)
    }
}

#[async_trait]
impl<E: Engine> Store for SqlStore<E> {
    fn clock_is_local(&self) -> bool {
        E::CLOCK_IS_LOCAL
    }

    async fn prepare(&self) -> Result<Vec<String>, StoreError> {
        let Self { connections, worker_table, .. } = self;
        connections.engine().allow_creation();
        let layout_table = format!("{worker_table}_layout");
        let tables = vec![(worker_table.clone(), WORKER_COLUMNS), (layout_table, LAYOUT_COLUMNS)];
        Schema::new(connections, worker_table, tables, E::MIGRATIONS).prepare().await?;
        connections.durability_warnings().await
    }

    async fn create_record(
        &self,
        namespace: &str,
        record: &LayoutRecord,
    ) -> Result<LayoutRecord, StoreError> {
        let mut stored = self.read_record(namespace).await?;
        if stored.is_none() {
            let (token, complete) = (record.token.to_string(), record.complete.join(","));
            let mut args = record_args(record, &token, &complete).to_vec();
            args.push(Arg::Text(namespace));
            self.connections.execute(&self.statements.insert_layout, &args).await?;
            stored = self.read_record(namespace).await?;
        }
        stored.ok_or_else(|| {
            StoreError::Refused("the layout record vanished while it was being written".into())
        })
    }

    async fn read_record(&self, namespace: &str) -> Result<Option<LayoutRecord>, StoreError> {
        let sql = &self.statements.layout_of;
        let rows = self.connections.fetch(sql, &[Arg::Text(namespace)]).await?;
        let Some(row) = rows.into_iter().next() else { return Ok(None) };
        let table = format!("{}_layout", self.worker_table);
        Reader::new(&table, namespace, row).layout_record().map(Some)
    }

    async fn swap_record(
        &self,
        namespace: &str,
        expected: Token,
        record: &LayoutRecord,
    ) -> Result<bool, StoreError> {
        let (token, complete) = (record.token.to_string(), record.complete.join(","));
        let expected = expected.to_string();
        let mut args = record_args(record, &token, &complete).to_vec();
        args.extend([Arg::Text(namespace), Arg::Text(&expected)]);
        Ok(self.connections.execute(&self.statements.swap_layout, &args).await? == 1)
    }

    async fn create_rows(&self, scope: &Scope, new: &NewRows) -> Result<bool, StoreError> {
        let Statements { insert_rows, inserted_row, if_recorded, .. } = &self.statements;
        let (marks, record) = (new.marks.to_string(), new.record.to_string());
        let born: Vec<(u64, String)> = (scope.min_worker..=scope.max_worker)
            .zip(new.tokens.iter().map(Token::to_string))
            .collect();
        for born in born.chunks(ROWS_AT_ONCE) {
            let (min_worker, max_worker) = (born[0].0, born[born.len() - 1].0);
            let chunk = Scope { min_worker, max_worker, ..scope.clone() };
            // Nodes that start together insert the same rows: most find them there.
            if self.is_complete(&chunk).await? {
                continue;
            }
            let mut args = Vec::new();
            for (worker, token) in born {
                args.extend([Arg::Text(&scope.namespace), Arg::Text(&scope.reserved_key)]);
                args.extend([integer(*worker), Arg::Text(&marks), Arg::Text(token)]);
            }
            let until = Arg::Integer(new.until_ms);
            args.extend([Arg::Text(&scope.namespace), Arg::Text(&record), until]);
            let rows = vec![*inserted_row; born.len()].join(" UNION ALL ");
            let sql = format!("{insert_rows}{rows}{if_recorded}");
            self.connections.execute(&sql, &args).await?;
            if !self.is_complete(&chunk).await? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    async fn survey(&self, scope: &Scope) -> Result<Survey, StoreError> {
        let mut args = vec![Arg::Text(&scope.namespace)];
        args.extend(in_scope(scope));
        let rows = self.connections.fetch(&self.statements.survey, &args).await?;
        let mut reader = self.reader("", rows.into_iter().next().unwrap_or_default());
        Ok(Survey {
            now_ms: reader.integer("now")?,
            record: reader.optional_text("words")?,
            held: reader.count("held")?,
            free: reader.count("free")?,
            next_expiry_ms: reader.optional_integer("expires_at")?,
        })
    }

    async fn free_rows(&self, scope: &Scope, limit: u32) -> Result<Vec<Row>, StoreError> {
        let mut args = in_scope(scope).to_vec();
        args.push(Arg::Integer(i64::from(limit)));
        Ok(Reader::readable(self.rows(scope, &self.statements.free_rows, &args).await?))
    }

    async fn free_row_of(&self, scope: &Scope, holder: &str) -> Result<Option<Row>, StoreError> {
        let mut args = in_scope(scope).to_vec();
        args.push(Arg::Text(shortened(holder)));
        let rows = self.rows(scope, &self.statements.free_row_of, &args).await?;
        rows.into_iter().next().transpose()
    }

    async fn row(&self, scope: &Scope, worker: u64) -> Result<Option<Row>, StoreError> {
        let key = [Arg::Text(&scope.namespace), Arg::Text(&scope.reserved_key), integer(worker)];
        let rows = self.rows(scope, &self.statements.row, &key).await?;
        rows.into_iter().next().transpose()
    }

    async fn swap(
        &self,
        scope: &Scope,
        worker: u64,
        expected: Token,
        write: &RowWrite,
    ) -> Result<bool, StoreError> {
        let token = write.token.to_string();
        let marks = write.marks.to_string();
        let expected = expected.to_string();
        let args = [
            Arg::Text(&token),
            Arg::Text(shortened(&write.holder)),
            integer(write.lane as u64),
            Arg::Text(&marks),
            match write.expiry {
                RowExpiry::Released => Arg::Null,
                RowExpiry::After(ttl) => Arg::Integer(whole_ms(ttl)),
            },
            Arg::Text(&scope.namespace),
            Arg::Text(&scope.reserved_key),
            integer(worker),
            Arg::Text(&expected),
        ];
        Ok(self.connections.execute(&self.statements.swap, &args).await? == 1)
    }

    async fn list(&self) -> Result<Vec<ListedRow>, StoreError> {
        let rows = self.connections.fetch(&self.statements.list, &[]).await?;
        rows.into_iter().map(|row| self.reader("", row).listed_row()).collect()
    }

    async fn close(&self) {
        self.connections.close().await;
    }
}

/// A record's columns in the statements' order.
fn record_args<'a>(record: &'a LayoutRecord, token: &'a str, complete: &'a str) -> [Arg<'a>; 5] {
    [
        Arg::Text(token),
        Arg::Text(&record.words),
        Arg::Text(complete),
        integer(record.since_tick),
        integer(record.first_tick),
    ]
}

fn in_scope(scope: &Scope) -> [Arg<'_>; 4] {
    [
        Arg::Text(&scope.namespace),
        Arg::Text(&scope.reserved_key),
        integer(scope.min_worker),
        integer(scope.max_worker),
    ]
}

/// No worker id, lane or number is beyond the end of the range.
fn integer(number: u64) -> Arg<'static> {
    Arg::Integer(i64::try_from(number).unwrap_or(i64::MAX))
}
