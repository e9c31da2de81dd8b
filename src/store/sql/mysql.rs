//! MySQL 8+ and MariaDB 10.6+.

use std::{fmt, time::Duration};

use async_trait::async_trait;
use sqlx::{
    AssertSqlSafe, ConnectOptions as _, Executor as _, Row as _,
    error::DatabaseError,
    migrate::Migrator,
    mysql::{MySqlConnectOptions, MySqlConnection, MySqlDatabaseError, MySqlRow},
};

use super::{
    engine::{
        Arg, Class, Dialect, Engine, Failure, MigrationFile, Statements as _, as_written, bound,
        runs_statements, text,
    },
    schema,
};
use crate::store::{StoreError, StoreSettings, describe, value::Value};

/// How to connect to one database.
pub(super) struct MySqlEngine {
    options: MySqlConnectOptions,
    timeout: Duration,
}

impl fmt::Debug for MySqlEngine {
    /// The options would show the password.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MySqlEngine")
            .field("host", &self.options.get_host())
            .field("port", &self.options.get_port())
            .field("database", &self.options.get_database())
            .finish_non_exhaustive()
    }
}

impl MySqlEngine {
    pub(super) fn new(settings: &StoreSettings) -> Result<Self, StoreError> {
        let unusable = |reason: &dyn fmt::Display| {
            let address = describe(&settings.url);
            StoreError::Unusable(format!("the store's address {address} cannot be used: {reason}"))
        };
        let url = match settings.url.strip_prefix("mariadb://") {
            Some(rest) => format!("mysql://{rest}"),
            None => settings.url.clone(),
        };
        let options: MySqlConnectOptions = url.parse().map_err(|error| unusable(&error))?;
        if options.get_database().is_none() {
            return Err(unusable(&"it names no database, as in mysql://user@host/database"));
        }
        Ok(Self { options: options.charset("utf8mb4"), timeout: settings.timeout })
    }
}

#[async_trait]
impl Engine for MySqlEngine {
    type Connection = MySqlConnection;

    const DIALECT: Dialect = Dialect {
        quote: '`',
        clock: "",
        now: "UTC_TIMESTAMP(6)",
        now_plus: "UTC_TIMESTAMP(6) + INTERVAL (? * 1000) MICROSECOND",
        epoch: "TIMESTAMP'1970-01-01 00:00:00'",
        unix_ms: "TIMESTAMPDIFF(MICROSECOND, '1970-01-01', {}) DIV 1000",
        // Most collations ignore trailing blanks.
        exact: "CAST({} AS BINARY)",
        // At REPEATABLE READ a select that feeds an insert locks what it reads anyway.
        for_share: " LOCK IN SHARE MODE",
        // `INSERT IGNORE` would also hide values that do not fit.
        or_keep: "ON DUPLICATE KEY UPDATE namespace = namespace",
        // MySQL has no RETURNING; the connection keeps this number for the answer.
        raised: "LAST_INSERT_ID({})",
        returning: "",
        // Assignments are made from left to right, so next_number comes last. Where it is not
        // raised, the number kept for the answer becomes 0, whatever the insert had put there.
        or_raise: "ON DUPLICATE KEY UPDATE \
                   step = IF(next_number BETWEEN 0 AND {highest}, VALUES(step), step), \
                   token = IF(next_number BETWEEN 0 AND {highest}, VALUES(token), token), \
                   updated_at = IF(next_number BETWEEN 0 AND {highest}, {now}, updated_at), \
                   next_number = IF(next_number BETWEEN 0 AND {highest}, \
                   LAST_INSERT_ID(next_number + {by}), next_number + LAST_INSERT_ID(0))",
        columns: "SELECT column_name FROM information_schema.columns \
                  WHERE table_schema = DATABASE() AND table_name = ?",
    };
    const MIGRATIONS: &'static [MigrationFile] = &[
        ("worker", include_str!("../../../migrations/mysql/0001_worker.sql")),
        ("layout", include_str!("../../../migrations/mysql/0002_layout.sql")),
        ("record", include_str!("../../../migrations/mysql/0003_record.sql")),
    ];
    const SEGMENT_MIGRATIONS: &'static [MigrationFile] =
        &[("segment", include_str!("../../../migrations/mysql/0001_segment.sql"))];
    const CLOCK_IS_LOCAL: bool = false;

    async fn open(&self) -> Result<MySqlConnection, Failure> {
        let mut connection = self.options.connect().await?;
        // Whatever the server's defaults are: a value that does not fit is an error, a statement
        // is its own transaction and reads what is committed, and a statement that we gave up does
        // not wait on for a lock. READ COMMITTED would do, but a server that replicates by
        // statement refuses its writes.
        let seconds = self.timeout.as_secs().max(1);
        let sql = format!(
            "SET SESSION sql_mode = 'STRICT_ALL_TABLES,NO_ENGINE_SUBSTITUTION', \
             SESSION autocommit = 1, SESSION innodb_lock_wait_timeout = {seconds}, \
             SESSION lock_wait_timeout = {seconds}; \
             SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ"
        );
        connection.execute(AssertSqlSafe(sql)).await?;
        Ok(connection)
    }

    async fn migrate(
        &self,
        connection: &mut MySqlConnection,
        migrator: &Migrator,
        bookkeeping: &str,
    ) -> Result<(), Failure> {
        // One node after the other, so that they do not all try to create the tables. Only a
        // courtesy: clusters refuse the function, and without it races are tried again.
        let seconds = i64::try_from(self.timeout.as_secs().max(1)).unwrap_or(i64::MAX);
        let lock = "SELECT GET_LOCK(CONCAT('raindrop ', CRC32(CONCAT(DATABASE(), ' ', ?))), ?)";
        let args = [Arg::Text(bookkeeping), Arg::Integer(seconds)];
        match connection.rows(lock, &args).await {
            Ok(_) | Err(sqlx::Error::Database(_)) => {}
            Err(error) => return Err(error.into()),
        }
        schema::apply::<Self>(connection, migrator, bookkeeping).await
    }

    async fn raise(
        connection: &mut MySqlConnection,
        sql: &str,
        args: &[Arg<'_>],
    ) -> Result<Option<i64>, sqlx::Error> {
        let done = bound!(as_written(sql), args).execute(connection).await?;
        let number = i64::try_from(done.last_insert_id()).ok();
        // A raised number is above 0.
        Ok(number.filter(|number| *number > 0 && done.rows_affected() > 0))
    }

    fn class(error: &dyn DatabaseError) -> Class {
        let number = error.try_downcast_ref::<MySqlDatabaseError>().map(|error| error.number());
        match number {
            // Deadlock, lock wait, changed since the snapshot, table or column created by another
            // node, table definition changed.
            Some(1213 | 1205 | 1020 | 1050 | 1060 | 1412) => Class::Again,
            // Too many connections (of the server, of the user), shutting down, a cluster's node
            // that is not ready, blocked host, statement interrupted, killed.
            Some(1040 | 1203 | 1053 | 1047 | 1129 | 1317 | 1927 | 3169) => Class::Unavailable,
            // No such table.
            Some(1146) => Class::Vanished,
            _ if error.code().as_deref() == Some("40001") => Class::Again,
            _ => Class::Refused,
        }
    }

    async fn durability_warnings(
        connection: &mut MySqlConnection,
    ) -> Result<Vec<String>, sqlx::Error> {
        let sql = "SELECT CAST(@@GLOBAL.innodb_flush_log_at_trx_commit AS SIGNED), \
                   CAST(@@GLOBAL.log_bin AS SIGNED), CAST(@@GLOBAL.sync_binlog AS SIGNED)";
        let rows = match connection.rows(sql, &[]).await {
            Ok(rows) => rows,
            // A relative of MySQL without these settings.
            Err(sqlx::Error::Database(_)) => {
                return Ok(vec!["the database does not tell its durability settings".to_owned()]);
            }
            Err(error) => return Err(error),
        };
        let mut warnings = Vec::new();
        let [flush, log_bin, sync] = rows.first().map_or(&[][..], Vec::as_slice) else {
            return Ok(warnings);
        };
        let mut expect_one = |name: &str, value: &Value| {
            if let Value::Integer(value) = value
                && *value != 1
            {
                warnings.push(format!(
                    "{name} is {value}, not 1: a power failure of the database may lose \
                     acknowledged writes, and with them the promise that no ID is issued twice"
                ));
            }
        };
        expect_one("innodb_flush_log_at_trx_commit", flush);
        if *log_bin != Value::Integer(0) {
            expect_one("sync_binlog", sync);
        }
        Ok(warnings)
    }
}

// sqlx asks the server to count matched rows, not changed ones.
runs_statements!(MySqlConnection, MySqlRow, as_written, value);

fn value(row: &MySqlRow, column: usize, kind: &str) -> Result<Value, sqlx::Error> {
    Ok(if kind.contains("INT") || kind == "BOOLEAN" {
        Value::Integer(row.try_get_unchecked(column)?)
    } else {
        text(row.try_get_unchecked(column)?)
    })
}
