//! What a SQL engine adds to the shared logic.

use std::fmt::Debug;

use async_trait::async_trait;
use sqlx::{
    error::DatabaseError,
    migrate::{MigrateError, Migrator},
};

use crate::store::{StoreError, value::Value};

/// A value that a statement is given.
#[derive(Clone, Copy, Debug)]
pub(super) enum Arg<'a> {
    Null,
    Integer(i64),
    Text(&'a str),
}

/// What a database's error means for the statement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Class {
    /// It certainly did not take place, because of others at work: try again.
    Again,
    /// The server is not there for us now.
    Unavailable,
    /// A table is not there.
    Vanished,
    /// Anything else.
    Refused,
}

/// Why a connection or a statement failed.
#[derive(Debug)]
pub(super) enum Failure {
    Sql(sqlx::Error),
    Store(StoreError),
}

impl From<sqlx::Error> for Failure {
    fn from(error: sqlx::Error) -> Self {
        Self::Sql(error)
    }
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
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

/// The few expressions in which the engines' SQL differs.
#[derive(Debug)]
pub(super) struct Dialect {
    /// Around identifiers.
    pub(super) quote: char,
    /// What begins every statement that has `now`, `now_plus` or `unix_ms` of the present in it.
    pub(super) clock: &'static str,
    /// The present time, in the columns' type.
    pub(super) now: &'static str,
    /// The present time plus `?` milliseconds; null when `?` is null.
    pub(super) now_plus: &'static str,
    /// The time 0.
    pub(super) epoch: &'static str,
    /// A time as whole Unix milliseconds, around `{}`.
    pub(super) unix_ms: &'static str,
    /// A text compared byte for byte, trailing blanks included, around `{}`.
    pub(super) exact: &'static str,
    /// What keeps a row that a query reads as it is until the statement ends, where statements do
    /// not wait for each other.
    pub(super) for_share: &'static str,
    /// What ends an insert that leaves existing rows alone.
    pub(super) or_keep: &'static str,
    /// A number that a statement raises and then tells, around `{}`.
    pub(super) raised: &'static str,
    /// What ends a statement that tells `next_number`.
    pub(super) returning: &'static str,
    /// What an insert of a segment that is there already does instead: raises `next_number` by
    /// `{by}`, if it is between 0 and `{highest}`, with the step and token of the insert, and tells
    /// it. `{now}` and `{segment}` stand for the present time and the table.
    pub(super) or_raise: &'static str,
    /// Lists the columns of the table named `?`; no rows when there is no such table.
    pub(super) columns: &'static str,
}

/// A step of the tables' making: what it is about, and its SQL.
pub(super) type MigrationFile = (&'static str, &'static str);

/// A connection that runs our statements; [`runs_statements`] makes a driver's one of them.
#[async_trait]
pub(super) trait Statements: sqlx::Connection + Debug + Send + 'static {
    /// Runs a statement; how many rows it matched.
    async fn run(&mut self, sql: &str, args: &[Arg<'_>]) -> Result<u64, sqlx::Error>;

    /// Runs a query; its rows.
    async fn rows(&mut self, sql: &str, args: &[Arg<'_>]) -> Result<Vec<Vec<Value>>, sqlx::Error>;
}

/// Implements [`Statements`] for a driver's connection. `$sql` makes its SQL of ours, `$value`
/// reads a value that is not null, whose type has the name that it is given.
macro_rules! runs_statements {
    ($connection:ty, $row:ty, $sql:path, $value:path) => {
        #[async_trait::async_trait]
        impl $crate::store::sql::engine::Statements for $connection {
            async fn run(
                &mut self,
                sql: &str,
                args: &[$crate::store::sql::engine::Arg<'_>],
            ) -> Result<u64, sqlx::Error> {
                let query = $crate::store::sql::engine::bound!($sql(sql), args);
                Ok(query.execute(self).await?.rows_affected())
            }

            async fn rows(
                &mut self,
                sql: &str,
                args: &[$crate::store::sql::engine::Arg<'_>],
            ) -> Result<Vec<Vec<$crate::store::value::Value>>, sqlx::Error> {
                use sqlx::{Row as _, TypeInfo as _, ValueRef as _};
                let query = $crate::store::sql::engine::bound!($sql(sql), args);
                let rows = query.fetch_all(self).await?;
                let value = |row: &$row, column| {
                    let raw = sqlx::Row::try_get_raw(row, column)?;
                    if raw.is_null() {
                        return Ok($crate::store::value::Value::Null);
                    }
                    $value(row, column, raw.type_info().name())
                };
                rows.iter()
                    .map(|row| (0..row.len()).map(|column| value(row, column)).collect())
                    .collect()
            }
        }
    };
}
pub(super) use runs_statements;

/// A query with its arguments.
macro_rules! bound {
    ($sql:expr, $args:expr) => {{
        let mut query = sqlx::query(sqlx::AssertSqlSafe($sql));
        for arg in $args {
            query = match arg {
                $crate::store::sql::engine::Arg::Null => query.bind(None::<i64>),
                $crate::store::sql::engine::Arg::Integer(integer) => query.bind(*integer),
                $crate::store::sql::engine::Arg::Text(text) => query.bind((*text).to_owned()),
            };
        }
        query
    }};
}
pub(super) use bound;

/// One kind of SQL database.
#[async_trait]
pub(super) trait Engine: Debug + Send + Sync + 'static {
    /// Its connection.
    type Connection: Statements;

    /// Its expressions.
    const DIALECT: Dialect;
    /// Its migrations in order; `{table}` stands for the table's name. Each must be
    /// harmless when it is repeated, and one statement where DDL is not transactional.
    const MIGRATIONS: &'static [MigrationFile];
    /// The same for the table of segments.
    const SEGMENT_MIGRATIONS: &'static [MigrationFile];
    /// Whether its clock is the node's own.
    const CLOCK_IS_LOCAL: bool;

    /// From now on an embedded database may be created where there is none.
    fn allow_creation(&self) {}

    /// Checks that an embedded database is still the one that was opened before.
    fn check_place(&self) -> Result<(), StoreError> {
        Ok(())
    }

    /// Opens a connection and makes it durable and independent of the server's defaults.
    async fn open(&self) -> Result<Self::Connection, Failure>;

    /// Runs the migrations one node at a time; `bookkeeping` is the quoted name of their table.
    async fn migrate(
        &self,
        connection: &mut Self::Connection,
        migrator: &Migrator,
        bookkeeping: &str,
    ) -> Result<(), Failure>;

    /// Runs a statement that raises a number; the number afterwards, if a row matched.
    async fn raise(
        connection: &mut Self::Connection,
        sql: &str,
        args: &[Arg<'_>],
    ) -> Result<Option<i64>, sqlx::Error> {
        let rows = connection.rows(sql, args).await?;
        Ok(rows.first().and_then(|row| match row.first() {
            Some(Value::Integer(number)) => Some(*number),
            _ => None,
        }))
    }

    /// What an error of the database means.
    fn class(error: &dyn DatabaseError) -> Class;

    /// Settings under which acknowledged writes may be lost, in words.
    async fn durability_warnings(
        connection: &mut Self::Connection,
    ) -> Result<Vec<String>, sqlx::Error>;
}

/// What any error means.
pub(super) fn classify<E: Engine>(error: &sqlx::Error) -> Class {
    match error {
        // Nodes that create tables or bookkeeping rows at the same moment collide like this.
        sqlx::Error::Database(error) if error.is_unique_violation() => Class::Again,
        sqlx::Error::Database(error) => E::class(error.as_ref()),
        // Another node is at it, or was cut short meanwhile.
        sqlx::Error::Migrate(_) => Class::Again,
        sqlx::Error::Io(_)
        | sqlx::Error::Tls(_)
        | sqlx::Error::Protocol(_)
        | sqlx::Error::WorkerCrashed => Class::Unavailable,
        _ => Class::Refused,
    }
}

/// Statements as they are written here, with question marks for arguments.
#[cfg(any(feature = "mysql", feature = "sqlite"))]
pub(super) fn as_written(sql: &str) -> String {
    sql.to_owned()
}

/// The value that a driver has read as bytes.
#[cfg(any(feature = "mysql", feature = "sqlite"))]
pub(super) fn text(bytes: &[u8]) -> Value {
    Value::Text(String::from_utf8_lossy(bytes).into_owned())
}
