//! What a SQL engine adds to the shared logic.

use futures_util::{TryStreamExt as _, stream::BoxStream};
use sqlx::Arguments as _;
use sqlx::{
    AssertSqlSafe, ColumnIndex, Database, Decode, Either, Encode, Executor, IntoArguments, Row,
    Type, TypeInfo as _, ValueRef as _,
    error::DatabaseError,
    migrate::{Migrate, MigrateError, Migrator},
};

use crate::{Result, StoreError, StoreSettings, hosts::Hosts, value::Value};

/// What a database's error means for the statement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Class {
    /// The statement certainly did not take place, because of concurrent work.
    Retry,
    /// The server cannot serve us now.
    Unavailable,
    /// A table is missing.
    Vanished,
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

/// The few expressions in which the engines' SQL differs.
#[derive(Debug)]
pub(crate) struct Dialect {
    /// Around identifiers.
    pub(super) quote: char,
    /// Whether arguments are written `$1`, `$2` and so on, and not `?`.
    pub(super) numbered: bool,
    /// Begins every statement that contains `now` or `now_plus`.
    pub(super) clock: &'static str,
    /// The present time, in the columns' type.
    pub(super) now: &'static str,
    /// The present time plus `?` milliseconds; null when `?` is null.
    pub(super) now_plus: &'static str,
    /// The time 0.
    pub(super) epoch: &'static str,
    /// A time as whole Unix milliseconds, around `{}`.
    pub(super) unix_ms: &'static str,
    /// A value as text, around `{}`.
    pub(super) as_text: &'static str,
    /// A text compared byte for byte, trailing blanks included, around `{}`.
    pub(super) exact: &'static str,
    /// Locks a row that a query reads until the statement ends, where statements do not wait for
    /// each other.
    pub(super) for_share: &'static str,
    /// Ends an insert that leaves existing rows alone.
    pub(super) or_keep: &'static str,
    /// A number that a statement raises and then returns, around `{}`.
    pub(super) raised: &'static str,
    /// Ends a statement that returns `next_number`.
    pub(super) returning: &'static str,
    /// Ends an insert of a segment that may exist: then it raises `next_number` by `{by}`, if it is
    /// between 0 and `{highest}` and the row's epoch is `{row_epoch}`, takes step, token and epoch
    /// from the insert, and returns the number. `{now}` and `{segment}` stand for the present time
    /// and the table.
    pub(super) or_raise: &'static str,
    /// The identity of the server, which tells whose history it continues; null where no write is
    /// accepted, and [`session::NOT_SET_UP`](super::session::NOT_SET_UP) in a session that was not
    /// set up. See [`History`](raindrop_core::lease::History).
    pub(super) server: &'static str,
    /// Lists the columns of the table that its argument names; returns no rows if there is none.
    pub(super) columns: &'static str,
    /// Lists the server's settings without which acknowledged writes may be lost: name, value,
    /// and the value that keeps them.
    pub(super) durability: Option<&'static str>,
}

/// [`Dialect::or_raise`] of the engines that have ON CONFLICT.
#[cfg(any(feature = "postgres", feature = "sqlite"))]
pub(super) const ON_CONFLICT_RAISE: &str = "ON CONFLICT (namespace, code) DO UPDATE \
     SET next_number = {segment}.next_number + {by}, step = excluded.step, \
     token = excluded.token, epoch = excluded.epoch, updated_at = {now} \
     WHERE {segment}.next_number BETWEEN 0 AND {highest} AND {segment}.epoch = '{row_epoch}' \
     RETURNING next_number";

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
        ];
    };
    (@ $engine:literal $file:literal) => {
        include_str!(concat!("../../../../migrations/", $engine, $file))
    };
}
pub(super) use migrations;

/// One kind of SQL database.
pub(crate) trait Engine: Sized + Send + Sync + 'static {
    /// The driver's connection.
    type Connection: Session + Migrate;

    /// The engine's expressions.
    const DIALECT: Dialect;
    /// The migrations in order; `{table}` stands for the table's name. Each must be harmless when it
    /// is repeated, and one statement where DDL is not transactional.
    const MIGRATIONS: &'static [MigrationFile];
    /// The migrations of the segment table.
    const SEGMENT_MIGRATIONS: &'static [MigrationFile];
    /// Whether the engine's clock is the node's own.
    const CLOCK_IS_LOCAL: bool;

    /// Reads the address, without connecting.
    fn new(settings: &StoreSettings) -> Result<Self>;

    /// The hosts of the address.
    fn hosts(&self) -> &Hosts;

    /// Whether nobody on the network can pose as the database.
    fn is_verified(&self) -> bool;

    /// Allows connections to create a missing embedded database.
    fn allow_creation(&self) {}

    /// Checks that an embedded database is still the one that was opened before.
    fn check_file(&self) -> Result<()> {
        Ok(())
    }

    /// Opens a connection to a host and makes it durable and independent of the server's defaults.
    /// Returns it, and why the server accepts no writes, if it does not.
    fn open(
        &self,
        host: usize,
    ) -> impl Future<Output = Result<(Self::Connection, Option<String>), Failure>> + Send;

    /// Returns why the server of a connection accepts no writes, if it does not.
    fn read_only(
        connection: &mut Self::Connection,
    ) -> impl Future<Output = Result<Option<String>, sqlx::Error>> + Send;

    /// Runs the migrations one node at a time; `bookkeeping` is the quoted name of their table.
    fn migrate(
        &self,
        connection: &mut Self::Connection,
        migrator: &Migrator,
        bookkeeping: &str,
    ) -> impl Future<Output = Result<(), Failure>> + Send;

    /// Classifies an error of the database.
    fn class(error: &dyn DatabaseError) -> Class;
}

/// Classifies any error.
pub(super) fn classify<E: Engine>(error: &sqlx::Error) -> Class {
    match error {
        // Nodes that create tables or bookkeeping rows at the same moment collide like this.
        sqlx::Error::Database(error) if error.is_unique_violation() => Class::Retry,
        sqlx::Error::Database(error) => E::class(error.as_ref()),
        // Another node is at it, or was cut short meanwhile.
        sqlx::Error::Migrate(_) => Class::Retry,
        sqlx::Error::Io(_)
        | sqlx::Error::Tls(_)
        | sqlx::Error::Protocol(_)
        | sqlx::Error::WorkerCrashed => Class::Unavailable,
        _ => Class::Refused,
    }
}

/// What a statement did and returned.
#[derive(Debug, Default)]
pub(crate) struct Answer {
    /// How many rows it matched, changed or not.
    pub(super) matched: u64,
    /// The rows that it returned.
    pub(super) rows: Vec<Vec<Value>>,
    /// The number that it raised, where the driver returns that without a row.
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
pub(crate) trait Session: sqlx::Connection + 'static {
    /// Runs one statement.
    fn run(
        &mut self,
        sql: &str,
        args: &[Value],
    ) -> impl Future<Output = Result<Answer, sqlx::Error>> + Send;

    /// Runs statements without arguments in one round trip; returns the rows of all of them, every
    /// value as text.
    #[cfg(any(feature = "mysql", feature = "postgres"))]
    fn run_together(
        &mut self,
        sql: &str,
    ) -> impl Future<Output = Result<Answer, sqlx::Error>> + Send;
}

impl<C, D> Session for C
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

    #[cfg(any(feature = "mysql", feature = "postgres"))]
    async fn run_together(&mut self, sql: &str) -> Result<Answer, sqlx::Error> {
        let text = |row: &D::Row, column| {
            let text: Option<String> = row.try_get_unchecked(column)?;
            Ok(text.map_or(Value::Null, Value::Text))
        };
        collect::<D>(self.fetch_many(AssertSqlSafe(sql.to_owned())), text).await
    }
}

/// The ends of statements and the rows that they return, as they arrive.
type Steps<'a, D> =
    BoxStream<'a, Result<Either<<D as Database>::QueryResult, <D as Database>::Row>, sqlx::Error>>;

/// Collects what statements did, and the rows whose values `read` returns.
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
