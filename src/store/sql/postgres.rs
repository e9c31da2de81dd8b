//! PostgreSQL 13+.
//!
//! # What must be set so that an acknowledged write is not lost
//!
//! - `fsync` and `full_page_writes` on, which is the default. They are read and warned about.
//! - `synchronous_commit` is set to `on` in every session, or left at `remote_apply`, which
//!   promises more; a server that does not take the setting is refused.
//! - Where a standby may take over, `synchronous_standby_names` must name it: with asynchronous
//!   replication a fail-over loses the last writes.
//! - A pooler in between must keep one server session per client (`pool_mode = session`): the
//!   settings above belong to the session.

use std::{fmt, time::Duration};

use async_trait::async_trait;
use sqlx::{
    ConnectOptions as _, Row as _,
    error::DatabaseError,
    migrate::Migrator,
    postgres::{PgConnectOptions, PgConnection, PgRow},
};

use super::{
    engine::{
        Arg, Class, Dialect, Engine, Failure, MigrationFile, Statements as _, runs_statements,
    },
    schema,
};
use crate::store::{StoreError, StoreSettings, describe, value::Value};

/// How to connect to one database.
pub(super) struct PostgresEngine {
    options: PgConnectOptions,
    timeout: Duration,
}

impl fmt::Debug for PostgresEngine {
    /// The options would show the password.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PostgresEngine")
            .field("host", &self.options.get_host())
            .field("port", &self.options.get_port())
            .field("database", &self.options.get_database())
            .finish_non_exhaustive()
    }
}

impl PostgresEngine {
    pub(super) fn new(settings: &StoreSettings) -> Result<Self, StoreError> {
        let unusable = |reason: &dyn fmt::Display| {
            let address = describe(&settings.url);
            StoreError::Unusable(format!("the store's address {address} cannot be used: {reason}"))
        };
        let mut options: PgConnectOptions =
            settings.url.parse().map_err(|error| unusable(&error))?;
        if options.get_database().is_none() {
            return Err(unusable(&"it names no database, as in postgres://user@host/database"));
        }
        if options.get_application_name().is_none() {
            options = options.application_name("raindrop");
        }
        Ok(Self { options, timeout: settings.timeout })
    }
}

#[async_trait]
impl Engine for PostgresEngine {
    type Connection = PgConnection;

    const DIALECT: Dialect = Dialect {
        quote: '"',
        // The clock itself, not the transaction's start; read once for the whole statement. No
        // worker table can have this name.
        clock: "WITH \"the clock\" AS MATERIALIZED (SELECT clock_timestamp() AS now) ",
        now: "(SELECT now FROM \"the clock\")",
        now_plus: "(SELECT now FROM \"the clock\") + ? * INTERVAL '1 millisecond'",
        epoch: "TIMESTAMPTZ '1970-01-01 00:00:00+00'",
        // Cut to milliseconds as a time: older versions extract a double, which rounds.
        unix_ms: "CAST(ROUND(EXTRACT(EPOCH FROM date_trunc('milliseconds', {})) * 1000) AS BIGINT)",
        // The columns' collation is "C".
        exact: "{}",
        for_share: " FOR SHARE",
        or_keep: "ON CONFLICT DO NOTHING",
        raised: "{}",
        returning: " RETURNING next_number",
        or_raise: "ON CONFLICT (namespace, code) DO UPDATE \
                   SET next_number = {segment}.next_number + {by}, step = excluded.step, \
                   token = excluded.token, updated_at = {now} \
                   WHERE {segment}.next_number BETWEEN 0 AND {highest} RETURNING next_number",
        // As the search path finds it, like the statements.
        columns: "SELECT CAST(attname AS TEXT) FROM pg_attribute \
                  WHERE attrelid = to_regclass(quote_ident(?)) \
                  AND attnum > 0 AND NOT attisdropped",
    };
    const MIGRATIONS: &'static [MigrationFile] = &[
        ("worker", include_str!("../../../migrations/postgres/0001_worker.sql")),
        ("layout", include_str!("../../../migrations/postgres/0002_layout.sql")),
        ("record", include_str!("../../../migrations/postgres/0003_record.sql")),
    ];
    const SEGMENT_MIGRATIONS: &'static [MigrationFile] =
        &[("segment", include_str!("../../../migrations/postgres/0001_segment.sql"))];
    const CLOCK_IS_LOCAL: bool = false;

    async fn open(&self) -> Result<PgConnection, Failure> {
        let mut connection = self.options.connect().await?;
        // Whatever the server's defaults are: a commit is on disk before it is acknowledged, and
        // a statement that we gave up does not wait on.
        let settings = "SELECT set_config('synchronous_commit', \
             CASE current_setting('synchronous_commit') \
             WHEN 'remote_apply' THEN 'remote_apply' ELSE 'on' END, FALSE), \
             set_config('default_transaction_isolation', 'read committed', FALSE), \
             set_config('client_min_messages', 'warning', FALSE), \
             set_config('statement_timeout', ?, FALSE), \
             set_config('lock_timeout', ?, FALSE)";
        let statement = self.timeout.as_millis().max(2).to_string();
        // Shorter than the statement's, which would always come first.
        let lock = (self.timeout.as_millis() / 2).max(1).to_string();
        let args = [Arg::Text(&statement), Arg::Text(&lock)];
        connection.rows(settings, &args).await?;
        let commit = "SELECT current_setting('synchronous_commit')";
        let commit = connection.rows(commit, &[]).await?;
        match commit.first().map(Vec::as_slice) {
            Some([Value::Text(commit)]) if commit == "on" || commit == "remote_apply" => {
                Ok(connection)
            }
            other => Err(StoreError::Unusable(format!(
                "the database cannot be made durable: synchronous_commit should be on but is \
                 {other:?}"
            ))
            .into()),
        }
    }

    async fn migrate(
        &self,
        connection: &mut PgConnection,
        migrator: &Migrator,
        bookkeeping: &str,
    ) -> Result<(), Failure> {
        // One node after the other, so that they do not all try to create the tables. Waits as
        // long as the session's lock_timeout allows, and is then tried again. The end of the
        // connection releases it.
        let lock = "SELECT CAST(pg_advisory_lock(hashtextextended( \
                    'raindrop ' || COALESCE(current_schema(), '') || ' ' || ?, 0)) AS TEXT)";
        connection.rows(lock, &[Arg::Text(bookkeeping)]).await?;
        schema::apply::<Self>(connection, migrator, bookkeeping).await
    }

    fn class(error: &dyn DatabaseError) -> Class {
        let code = error.code().unwrap_or_default();
        match &*code {
            // Serialization failure, deadlock, lock wait, table or index created by another node.
            "40001" | "40P01" | "55P03" | "42P07" | "42710" => Class::Again,
            // Too many connections; cancelled by our statement_timeout or by an operator.
            "53300" | "57014" => Class::Unavailable,
            // Connection failures, system errors, shutting down or starting up.
            code if ["08", "58", "57P0"].iter().any(|class| code.starts_with(class)) => {
                Class::Unavailable
            }
            // No such table.
            "42P01" => Class::Vanished,
            _ => Class::Refused,
        }
    }

    async fn durability_warnings(
        connection: &mut PgConnection,
    ) -> Result<Vec<String>, sqlx::Error> {
        let names = ["fsync", "full_page_writes"];
        let sql = "SELECT current_setting('fsync'), current_setting('full_page_writes')";
        let rows = connection.rows(sql, &[]).await?;
        let values = rows.into_iter().next().unwrap_or_default();
        let is_off = |value: &Value| *value != Value::Text("on".to_owned());
        let off = names.iter().zip(&values).filter(|(_, value)| is_off(value));
        Ok(off
            .map(|(name, _)| {
                format!(
                    "{name} is off: a power failure of the database may lose acknowledged \
                     writes, and with them the promise that no ID is issued twice"
                )
            })
            .collect())
    }
}

runs_statements!(PgConnection, PgRow, numbered, value);

/// `?` as `$1`, `$2` and so on; our statements have no other question marks.
fn numbered(sql: &str) -> String {
    let mut parts = sql.split('?');
    let mut numbered = parts.next().unwrap_or_default().to_owned();
    for (number, part) in (1..).zip(parts) {
        numbered.push_str(&format!("${number}{part}"));
    }
    numbered
}

fn value(row: &PgRow, column: usize, kind: &str) -> Result<Value, sqlx::Error> {
    Ok(match kind {
        "BOOL" => Value::Integer(row.try_get_unchecked::<bool, _>(column)?.into()),
        "INT2" => Value::Integer(row.try_get_unchecked::<i16, _>(column)?.into()),
        "INT4" => Value::Integer(row.try_get_unchecked::<i32, _>(column)?.into()),
        "INT8" => Value::Integer(row.try_get_unchecked(column)?),
        _ => Value::Text(row.try_get_unchecked(column)?),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_are_numbered() {
        assert_eq!(numbered(""), "");
        assert_eq!(numbered("a = ? AND b IN (?, ?)"), "a = $1 AND b IN ($2, $3)");
    }
}
