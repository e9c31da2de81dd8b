//! The trait by which a SQL engine completes the shared logic.
//!
//! An [`Engine`] opens sessions that are durable and independent of the server's defaults, finds
//! the identity of the server, and classifies errors. Its statements are in a file
//! ([`Statements`]), under the same names and with the same meaning on each engine. The classes
//! matter for safety in one place: [`Class::Retry`] may only contain errors after which the
//! statement certainly did not take place.
//!
//! [`RunSql`] runs statements with [`Value`]s, so that all engines share the code that reads and
//! writes rows. Tests: tests/store, on real servers of each engine.

use std::{collections::HashMap, sync::Arc};

use futures_util::{TryStreamExt as _, stream::BoxStream};
use sqlx::Arguments as _;
use sqlx::{
    AssertSqlSafe, ColumnIndex, Database, Decode, Either, Encode, Executor, IntoArguments, Row,
    Type, TypeInfo as _, ValueRef as _,
    error::DatabaseError,
    migrate::{Migrate, MigrateError},
};

use super::{schema::Migrations, session::Server};
use crate::{Result, StoreError, StoreSettings, error::Cause, hosts::Hosts, value::Value};

/// The statements of one engine by their names, with the tables' names filled in; clones share
/// them. Each engine has the statements that the shared logic uses, and some that only this engine
/// uses; a test compares them with the files.
pub(crate) type Statements = Arc<HashMap<&'static str, String>>;

/// Parses an engine's file. A statement follows a line with its name, and ends with a semicolon;
/// comments are dropped.
pub(super) fn read_statements(file: &'static str, settings: &StoreSettings) -> Statements {
    let statement = |part: &'static str| {
        let (name, rest) = part.split_once('\n')?;
        let (sql, _) = rest.split_once(";\n")?;
        let lines = sql.lines().filter(|line| !line.trim_start().starts_with("--"));
        let sql = lines.collect::<Vec<_>>().join("\n");
        let sql = sql.replace("{worker}", &settings.worker_table);
        Some((name, sql.replace("{segment}", &settings.segment_table)))
    };
    Arc::new(file.split("-- name: ").skip(1).filter_map(statement).collect())
}

/// The consequence of a database's error for the statement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Class {
    /// The statement certainly did not take place, because of concurrent work.
    Retry,
    /// The server cannot serve us now.
    Unavailable,
    /// A table is missing.
    Vanished,
    /// The statement ran in another session than the one that prepared it: a pooler switched
    /// sessions.
    #[cfg(any(feature = "mysql", feature = "postgres"))]
    OtherSession,
    /// The statement was refused for a cause that the operator can mend.
    RefusedFor(Cause),
    /// Anything else.
    Refused,
}

/// Why a connection or a statement failed.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
pub(crate) enum Failure {
    Sql(#[from] sqlx::Error),
    Store(#[from] StoreError),
}

impl From<MigrateError> for Failure {
    fn from(error: MigrateError) -> Self {
        match error {
            MigrateError::Execute(error) | MigrateError::ExecuteMigration(error, _) => {
                Self::Sql(error)
            }
            dirty @ MigrateError::Dirty(_) => Self::Sql(dirty.into()),
            other => Self::Store(StoreError::Unusable(other.to_string())),
        }
    }
}

/// A migration: its description and its SQL.
pub(crate) type MigrationFile = (&'static str, &'static str);

/// Defines the constants with an engine's migrations.
macro_rules! migrations {
    ($engine:literal) => {
        const MIGRATIONS: &'static [crate::sql::engine::MigrationFile] = &[
    ("worker", migrations!(@ $engine "/0001_worker.sql")),
    ("layout", migrations!(@ $engine "/0002_layout.sql")),
        ];
        const SEGMENT_MIGRATIONS: &'static [crate::sql::engine::MigrationFile] = &[
    ("segment", migrations!(@ $engine "/0001_segment.sql")),
    ("settings", migrations!(@ $engine "/0002_segment_settings.sql")),
    ("keys", migrations!(@ $engine "/0003_segment_keys.sql")),
        ];
    };
    (@ $engine:literal $file:literal) => {
        include_str!(concat!("../../../../migrations/", $engine, $file))
    };
}
pub(super) use migrations;

/// An engine, and the servers in the store's address.
pub(crate) struct Addressed<E> {
    pub(super) engine: E,
    /// Empty for an embedded database.
    pub(super) hosts: Hosts,
    /// Whether no other server on the network can pose as the database.
    pub(super) is_verified: bool,
}

/// One kind of SQL database.
pub(crate) trait Engine: Sized + Send + Sync + 'static {
    /// The driver's connection.
    type Connection: RunSql + Migrate;

    /// The quotation mark around identifiers.
    const QUOTE: char;
    /// The text of the file of the engine's statements.
    const SQL: &'static str;
    /// The migrations in order; `{table}` stands for the table's name. Each must be harmless when
    /// repeated, and a single statement on engines whose DDL is not transactional.
    const MIGRATIONS: &'static [MigrationFile];
    /// The migrations of the segment table.
    const SEGMENT_MIGRATIONS: &'static [MigrationFile];
    /// Whether the engine's clock is the node's own.
    const CLOCK_IS_LOCAL: bool;

    /// Parses the address, without connecting.
    fn new(settings: &StoreSettings, sql: &Statements) -> Result<Addressed<Self>>;

    /// Returns a warning for the operator about something that the engine's connections observed.
    fn warning(&self) -> Option<&'static str> {
        None
    }

    /// Allows connections to create a missing embedded database.
    fn allow_creation(&self) {}

    /// Checks that an embedded database is still the one that was opened before.
    fn check_file(&self) -> Result<()> {
        Ok(())
    }

    /// Opens a connection to a host, makes it durable and independent of the server's defaults, and
    /// finds the identity of the server. Fails if the server accepts no writes.
    fn open(
        &self,
        host: usize,
    ) -> impl Future<Output = Result<(Self::Connection, Server), Failure>> + Send;

    /// Runs the migrations one node at a time.
    fn migrate(
        &self,
        connection: &mut Self::Connection,
        migrations: &Migrations,
    ) -> impl Future<Output = Result<(), Failure>> + Send;

    /// Classifies an error of the database.
    fn class(error: &dyn DatabaseError) -> Class;

    /// Returns the text of a database error.
    fn text(error: &dyn DatabaseError) -> String {
        error.to_string()
    }
}

/// Classifies any error.
pub(super) fn classify<E: Engine>(error: &sqlx::Error) -> Class {
    match error {
        // Nodes that create tables or bookkeeping rows at the same moment collide like this.
        sqlx::Error::Database(error) if error.is_unique_violation() => Class::Retry,
        sqlx::Error::Database(error) => E::class(error.as_ref()),
        // Another node is migrating, or was cut short meanwhile.
        sqlx::Error::Migrate(_) => Class::Retry,
        sqlx::Error::Io(_)
        | sqlx::Error::Tls(_)
        | sqlx::Error::Protocol(_)
        | sqlx::Error::WorkerCrashed => Class::Unavailable,
        _ => Class::Refused,
    }
}

/// The result of a statement.
#[derive(Debug, Default)]
pub(crate) struct Answer {
    /// The number of rows that it matched, changed or not.
    pub(super) matched: u64,
    /// The rows that it returned.
    pub(super) rows: Vec<Vec<Value>>,
    /// The number that it raised, if the driver returns it without a row.
    pub(super) raised: Option<i64>,
}

impl Answer {
    /// Returns the first row, or one without values.
    pub(super) fn into_row(self) -> Vec<Value> {
        self.rows.into_iter().next().unwrap_or_default()
    }

    /// Returns the number that the statement raised, if a row matched.
    pub(super) fn raised(&self) -> Option<i64> {
        match self.rows.first().map(Vec::as_slice) {
            Some([Value::Integer(number)]) => Some(*number),
            _ => self.raised,
        }
    }
}

/// A connection that runs our statements.
pub(crate) trait RunSql: sqlx::Connection + 'static {
    /// Runs one statement.
    fn run(
        &mut self,
        sql: &str,
        args: &[Value],
    ) -> impl Future<Output = Result<Answer, sqlx::Error>> + Send;

    /// Runs statements without arguments in one round trip. Returns the rows of all of them, with
    /// every value as text.
    fn run_together(
        &mut self,
        sql: &str,
    ) -> impl Future<Output = Result<Answer, sqlx::Error>> + Send;
}

impl<C, D> RunSql for C
where
    C: sqlx::Connection<Database = D> + 'static,
    D: Database<Connection = C, QueryResult: Into<Answer>, Arguments: IntoArguments<D>>,
    for<'c> &'c mut C: Executor<'c, Database = D>,
    usize: ColumnIndex<D::Row>,
    i64: Type<D> + for<'v> Encode<'v, D> + for<'v> Decode<'v, D>,
    Option<i64>: for<'v> Encode<'v, D>,
    String: Type<D> + for<'v> Encode<'v, D>,
    Option<String>: for<'v> Decode<'v, D>,
    Vec<u8>: for<'v> Decode<'v, D>,
{
    async fn run(&mut self, sql: &str, args: &[Value]) -> Result<Answer, sqlx::Error> {
        let mut bound = D::Arguments::default();
        for arg in args {
            match arg {
                Value::Null => bound.add(None::<i64>),
                Value::Integer(integer) => bound.add(*integer),
                Value::Text(text) => bound.add(text.clone()),
            }
            .map_err(sqlx::Error::Encode)?;
        }
        let query = sqlx::query_with(AssertSqlSafe(sql.to_owned()), bound);
        collect::<D>(self.fetch_many(query), value::<D>).await
    }

    async fn run_together(&mut self, sql: &str) -> Result<Answer, sqlx::Error> {
        let text = |row: &D::Row, column| {
            let text: Option<String> = row.try_get_unchecked(column)?;
            Ok(text.into())
        };
        collect::<D>(self.fetch_many(AssertSqlSafe(sql.to_owned())), text).await
    }
}

/// The stream of rows and ends of statements, as they arrive.
type Steps<'a, D> =
    BoxStream<'a, Result<Either<<D as Database>::QueryResult, <D as Database>::Row>, sqlx::Error>>;

/// Collects the results of statements; `read` reads a value of a row.
async fn collect<D>(
    mut steps: Steps<'_, D>,
    read: impl Fn(&D::Row, usize) -> Result<Value, sqlx::Error>,
) -> Result<Answer, sqlx::Error>
where
    D: Database<QueryResult: Into<Answer>>,
{
    let mut answer = Answer::default();
    while let Some(step) = steps.try_next().await? {
        match step {
            Either::Left(end) => answer = Answer { rows: answer.rows, ..end.into() },
            Either::Right(row) => {
                let values = (0..row.len()).map(|column| read(&row, column));
                answer.rows.push(values.collect::<Result<_, _>>()?);
            }
        }
    }
    Ok(answer)
}

/// Reads one value of a row.
fn value<D>(row: &D::Row, column: usize) -> Result<Value, sqlx::Error>
where
    D: Database,
    usize: ColumnIndex<D::Row>,
    i64: for<'v> Decode<'v, D>,
    Vec<u8>: for<'v> Decode<'v, D>,
{
    let raw = row.try_get_raw(column)?;
    if raw.is_null() {
        return Ok(Value::Null);
    }
    let kind = raw.type_info().name().to_owned();
    if kind.contains("INT") || kind.starts_with("BOOL") {
        return row.try_get_unchecked(column).map(Value::Integer);
    }
    let bytes: Vec<u8> = row.try_get_unchecked(column)?;
    Ok(Value::Text(String::from_utf8_lossy(&bytes).into_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each engine's statements, and the file that uses the statements which only it has.
    const FILES: [(&str, &str); 3] = [
        (include_str!("mysql.sql"), include_str!("mysql.rs")),
        (include_str!("postgres.sql"), include_str!("postgres.rs")),
        (include_str!("sqlite.sql"), include_str!("sqlite.rs")),
    ];
    /// The files that use the statements of every engine.
    const SHARED: [&str; 5] = [
        include_str!("connections.rs"),
        include_str!("idempotency.rs"),
        include_str!("mod.rs"),
        include_str!("schema.rs"),
        include_str!("segments.rs"),
    ];
    /// The statements that read tables of other services.
    const FOREIGN: [&str; 3] = ["read_cosid", "read_leaf", "read_tinyid"];

    #[test]
    fn each_file_has_the_statements_that_are_used_and_no_others() {
        for (file, own) in FILES {
            let mut found: Vec<_> =
                read_statements(file, &StoreSettings::default()).keys().copied().collect();
            let sources = SHARED.iter().chain([&own]);
            let named = sources.flat_map(|source| source.split("sql[\"").skip(1));
            let named = named.filter_map(|rest| rest.split_once("\"]")).map(|(name, _)| name);
            let mut expected: Vec<_> = named.chain(FOREIGN).collect();
            found.sort_unstable();
            expected.sort_unstable();
            expected.dedup();
            assert_eq!(found, expected);
            assert_eq!(
                file.matches("-- name: ").count(),
                found.len(),
                "each ends with a semicolon"
            );
        }
    }

    #[test]
    fn statement_has_the_names_of_the_tables_and_no_comments() {
        let settings = StoreSettings { worker_table: "w".into(), ..StoreSettings::default() };
        let sql = &read_statements(FILES[2].0, &settings)["count_rows"];
        assert!(sql.starts_with("SELECT COUNT(*)\nFROM \"w\"\nWHERE "), "{sql}");
        assert!(!sql.contains("--") && !sql.contains(';'), "{sql}");
    }
}
