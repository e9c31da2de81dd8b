//! MySQL 8+ and MariaDB 10.6+.

use std::time::Duration;

use sqlx::{
    AssertSqlSafe, ConnectOptions as _, Executor as _,
    error::DatabaseError,
    migrate::Migrator,
    mysql::{MySqlConnectOptions, MySqlConnection, MySqlDatabaseError, MySqlQueryResult},
};

use super::{
    engine::{Answer, Class, Dialect, Engine, Failure, Session as _, migrations},
    schema,
};
use crate::store::{Result, StoreSettings, value::values};

/// How to connect to one database.
pub(in crate::store) struct MySql {
    options: MySqlConnectOptions,
    timeout: Duration,
}

impl Engine for MySql {
    type Connection = MySqlConnection;

    const DIALECT: Dialect = Dialect {
        quote: '`',
        numbered: false,
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
        durability: Some(
            "SELECT 'innodb_flush_log_at_trx_commit', \
             CAST(@@GLOBAL.innodb_flush_log_at_trx_commit AS CHAR), '1' \
             UNION ALL SELECT 'sync_binlog', CAST(@@GLOBAL.sync_binlog AS CHAR), '1' \
             FROM DUAL WHERE @@GLOBAL.log_bin <> 0",
        ),
    };
    const CLOCK_IS_LOCAL: bool = false;
    migrations!("mysql");

    fn new(settings: &StoreSettings) -> Result<Self> {
        let url = match settings.url.strip_prefix("mariadb://") {
            Some(rest) => format!("mysql://{rest}"),
            None => settings.url.clone(),
        };
        let options: MySqlConnectOptions = url.parse().map_err(|error| settings.unusable(error))?;
        if options.get_database().is_none() {
            let reason = "it names no database, as in mysql://user@host/database";
            return Err(settings.unusable(reason));
        }
        Ok(Self { options: options.charset("utf8mb4"), timeout: settings.timeout })
    }

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
        let lock = "SELECT GET_LOCK(CONCAT('raindrop ', CRC32(CONCAT(DATABASE(), ' ', ?))), ?)";
        let args = values![bookkeeping, self.timeout.as_secs().max(1)];
        match connection.run(lock, &args).await {
            Ok(_) | Err(sqlx::Error::Database(_)) => {}
            Err(error) => return Err(error.into()),
        }
        schema::apply(connection, migrator, bookkeeping).await
    }

    fn class(error: &dyn DatabaseError) -> Class {
        let number = error.try_downcast_ref::<MySqlDatabaseError>().map(|error| error.number());
        match number {
            // Deadlock, lock wait, changed since the snapshot, table or column created by another
            // node, table definition changed.
            Some(1213 | 1205 | 1020 | 1050 | 1060 | 1412) => Class::Retry,
            // Too many connections (of the server, of the user), shutting down, a cluster's node
            // that is not ready, blocked host, statement interrupted, killed.
            Some(1040 | 1203 | 1053 | 1047 | 1129 | 1317 | 1927 | 3169) => Class::Unavailable,
            // No such table.
            Some(1146) => Class::Vanished,
            _ if error.code().as_deref() == Some("40001") => Class::Retry,
            _ => Class::Refused,
        }
    }
}

impl From<MySqlQueryResult> for Answer {
    fn from(result: MySqlQueryResult) -> Self {
        // sqlx asks the server to count matched rows, not changed ones.
        let matched = result.rows_affected();
        // A raised number is above 0.
        let number = i64::try_from(result.last_insert_id()).ok();
        let raised = number.filter(|number| *number > 0 && matched > 0);
        Self { matched, raised, ..Self::default() }
    }
}
