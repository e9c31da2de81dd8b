//! PostgreSQL 13+.
//!
//! `docs/operations.md` lists the settings that keep acknowledged writes. Those that a session can
//! have are set, so a pooler in between must keep one session for each client
//! (`pool_mode = session`); the server's are read and warned about.

use std::time::Duration;

use sqlx::{
    ConnectOptions as _,
    error::DatabaseError,
    migrate::Migrator,
    postgres::{PgConnectOptions, PgConnection, PgQueryResult},
};

use super::{
    engine::{
        Answer, Class, Dialect, Engine, Failure, ON_CONFLICT_RAISE, Session as _, migrations,
    },
    schema,
};
use crate::store::{
    Result, StoreError, StoreSettings,
    value::{Value, values},
};

/// How to connect to one database.
pub(in crate::store) struct Postgres {
    options: PgConnectOptions,
    timeout: Duration,
}

impl Engine for Postgres {
    type Connection = PgConnection;

    const DIALECT: Dialect = Dialect {
        quote: '"',
        numbered: true,
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
        or_raise: ON_CONFLICT_RAISE,
        // As the search path finds it, like the statements.
        columns: "SELECT CAST(attname AS TEXT) FROM pg_attribute \
                  WHERE attrelid = to_regclass(quote_ident($1)) \
                  AND attnum > 0 AND NOT attisdropped",
        durability: Some(
            "SELECT 'fsync', current_setting('fsync'), 'on' UNION ALL \
             SELECT 'full_page_writes', current_setting('full_page_writes'), 'on'",
        ),
    };
    const CLOCK_IS_LOCAL: bool = false;
    migrations!("postgres");

    fn new(settings: &StoreSettings) -> Result<Self> {
        let mut options: PgConnectOptions =
            settings.url.parse().map_err(|error| settings.unusable(error))?;
        if options.get_database().is_none() {
            let reason = "it names no database, as in postgres://user@host/database";
            return Err(settings.unusable(reason));
        }
        if options.get_application_name().is_none() {
            options = options.application_name("raindrop");
        }
        Ok(Self { options, timeout: settings.timeout })
    }

    async fn open(&self) -> Result<PgConnection, Failure> {
        let mut connection = self.options.connect().await?;
        // Whatever the server's defaults are: a commit is on disk before it is acknowledged, and
        // a statement that we gave up does not wait on.
        let settings = "SELECT set_config('synchronous_commit', \
             CASE current_setting('synchronous_commit') \
             WHEN 'remote_apply' THEN 'remote_apply' ELSE 'on' END, FALSE), \
             set_config('default_transaction_isolation', 'read committed', FALSE), \
             set_config('client_min_messages', 'warning', FALSE), \
             set_config('statement_timeout', $1, FALSE), \
             set_config('lock_timeout', $2, FALSE)";
        let statement = self.timeout.as_millis().max(2).to_string();
        // Shorter than the statement's, which would always come first.
        let lock = (self.timeout.as_millis() / 2).max(1).to_string();
        connection.run(settings, &values![statement, lock]).await?;
        let commit = "SELECT current_setting('synchronous_commit')";
        match connection.run(commit, &[]).await?.into_row().as_slice() {
            [Value::Text(commit)] if commit == "on" || commit == "remote_apply" => Ok(connection),
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
                    'raindrop ' || COALESCE(current_schema(), '') || ' ' || $1, 0)) AS TEXT)";
        connection.run(lock, &values![bookkeeping]).await?;
        schema::apply(connection, migrator, bookkeeping).await
    }

    fn class(error: &dyn DatabaseError) -> Class {
        let code = error.code().unwrap_or_default();
        match &*code {
            // Serialization failure, deadlock, lock wait, table or index created by another node.
            "40001" | "40P01" | "55P03" | "42P07" | "42710" => Class::Retry,
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
}

impl From<PgQueryResult> for Answer {
    fn from(result: PgQueryResult) -> Self {
        Self { matched: result.rows_affected(), ..Self::default() }
    }
}
