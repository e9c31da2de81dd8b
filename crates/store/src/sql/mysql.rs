//! MySQL 8+ and MariaDB 10.6+.

use std::time::Duration;

use sqlx::{
    AssertSqlSafe, Executor as _,
    error::DatabaseError,
    migrate::Migrator,
    mysql::{
        MySqlConnectOptions, MySqlConnection, MySqlDatabaseError, MySqlQueryResult, MySqlSslMode,
    },
};

use super::{
    engine::{Answer, Class, Dialect, Engine, Failure, Session as _, migrations},
    schema,
    session::{check_pinned, connect},
};
use crate::{
    Failover, Result, StoreError, StoreSettings, TlsMode,
    hosts::{self, Hosts, resolvable},
    parameters::{self, Parameters, Target},
    tls::{Protection, is_local},
    value::{Value, values},
};

const PARAMETERS: Parameters = Parameters {
    passed: &[
        "charset",
        "collation",
        "socket",
        "ssl-cert",
        "ssl-key",
        "sslcert",
        "sslkey",
        "statement-cache-capacity",
        "time-zone",
        "timezone",
    ],
    mode: &["ssl-mode", "sslmode"],
    modes: &[
        ("disabled", TlsMode::Off),
        ("preferred", TlsMode::Prefer),
        ("required", TlsMode::Require),
        // The name is checked as well: whoever can get any certificate could pose as the server.
        ("verify_ca", TlsMode::Verify),
        ("verify_identity", TlsMode::Verify),
    ],
    ca_file: &["ssl-ca", "sslca"],
};

const CHARSET: &str = "utf8mb4";

/// Reads the settings under which a server accepts no writes, each as its name and its value. The
/// first one binds no administrator, so it must be asked for; MySQL's super_read_only implies it.
/// Read replicas of some services have the second one alone.
const READ_ONLY: &str = "SELECT 'read_only', CAST(@@GLOBAL.read_only AS CHAR), \
     'innodb_read_only', CAST(@@GLOBAL.innodb_read_only AS CHAR)";

/// Continues [`READ_ONLY`] with two columns that set-up depends on, and with the settings that no
/// session of ours may have, as [`check_pinned`] takes them.
const STATE: &str = "IF(@@GLOBAL.log_bin <> 0, CAST(@@SESSION.binlog_format AS CHAR), ''), \
     (SELECT variable_value FROM /*!80000 performance_schema.session_variables */ \
     /*M! information_schema.session_variables */ WHERE variable_name = 'wsrep_on'), \
     'sql_log_bin', IF(@@GLOBAL.log_bin <> 0, CAST(@@SESSION.sql_log_bin AS CHAR), '1'), '1' \
     /*M! , 'skip_replication', CAST(@@SESSION.skip_replication AS CHAR), '0' */";
/// How many columns come before the settings.
const STATE_COLUMNS: usize = 6;

/// The settings that change what a statement means or whether it takes place, with our values: the
/// server's own settings, `init_connect` and proxies set others. A value that does not fit is an
/// error, a statement is its own transaction, reads what is committed and reads all of it, and no
/// other time-out than ours ends it. READ COMMITTED would do, but a server that replicates by
/// statement refuses its writes.
const PINS: [(&str, &str, &str); 14] = [
    ("", "autocommit", "1"),
    ("", "completion_type", "'NO_CHAIN'"),
    ("", "sql_auto_is_null", "0"),
    ("", "sql_big_selects", "1"),
    ("", "sql_mode", "'STRICT_ALL_TABLES,NO_ENGINE_SUBSTITUTION'"),
    ("", "sql_safe_updates", "0"),
    ("", "sql_select_limit", "18446744073709551615"),
    ("", "time_zone", "'+00:00'"),
    ("!80000", "max_execution_time", "0"),
    ("!80000", "transaction_isolation", "'REPEATABLE-READ'"),
    ("!80000", "transaction_read_only", "0"),
    ("M!", "max_statement_time", "0.000000"),
    // MySQL's names are newer than some MariaDB in use.
    ("M!", "tx_isolation", "'REPEATABLE-READ'"),
    ("M!", "tx_read_only", "0"),
];

/// How to connect to one database.
pub(crate) struct MySql {
    hosts: Hosts,
    /// For each host.
    options: Vec<MySqlConnectOptions>,
    protection: Protection,
    timeout: Duration,
    failover: Failover,
}

impl MySql {
    /// The settings of every session.
    fn pins(&self) -> Vec<Pin> {
        // A statement that we gave up does not wait on for a lock.
        let seconds = self.timeout.as_secs().max(1).to_string();
        let waits = ["innodb_lock_wait_timeout", "lock_wait_timeout"];
        let waits = waits.map(|name| Pin { only: "", name, value: seconds.clone() });
        let pins = PINS.map(|(only, name, value)| Pin { only, name, value: value.to_owned() });
        pins.into_iter().chain(waits).collect()
    }
}

/// A setting of a session.
struct Pin {
    /// The beginning of the comment that only MySQL or only MariaDB reads; empty for both.
    only: &'static str,
    name: &'static str,
    /// As SQL.
    value: String,
}

impl Pin {
    fn within(&self, sql: String) -> String {
        if self.only.is_empty() { sql } else { format!(" /*{} {sql} */", self.only) }
    }

    /// Sets it, in a SET statement that goes on.
    fn set(&self) -> String {
        self.within(format!(", SESSION {} = {}", self.name, self.value))
    }

    /// Reads it, as [`check_pinned`] takes it, in a SELECT that goes on.
    fn read(&self) -> String {
        let Self { name, value, .. } = self;
        self.within(format!(", '{name}', CAST(@@SESSION.{name} AS CHAR), CAST({value} AS CHAR)"))
    }
}

/// Sets one setting, and checks it.
async fn pin(connection: &mut MySqlConnection, pin: &Pin) -> Result<(), Failure> {
    let (set, read) = (pin.set(), pin.read());
    let sql = format!("SET @raindrop_session = CONNECTION_ID(){set}; SELECT ''{read}");
    let row = connection.run_together(&sql).await?.into_row();
    Ok(check_pinned(row.get(1..).unwrap_or_default())?)
}

/// Sets what a relative of the engine knows.
async fn pin_what_is_known(connection: &mut MySqlConnection, pins: &[Pin]) -> Result<(), Failure> {
    for setting in pins {
        match pin(connection, setting).await {
            Err(Failure::Sql(error)) if is_unknown_setting(&error) => {}
            pinned => pinned?,
        }
    }
    Ok(())
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
        as_text: "CAST({} AS CHAR)",
        // Most collations ignore trailing blanks.
        exact: "CAST({} AS BINARY)",
        // At REPEATABLE READ a select that feeds an insert locks what it reads anyway.
        for_share: " LOCK IN SHARE MODE",
        // `INSERT IGNORE` would also hide values that do not fit.
        or_keep: "ON DUPLICATE KEY UPDATE namespace = namespace",
        // MySQL has no RETURNING; the connection keeps this number for the answer.
        raised: "LAST_INSERT_ID({})",
        returning: "",
        // Assignments are made from left to right, so what they compare comes last, and then the
        // fresh token tells. Where next_number is not raised, the number kept for the answer becomes
        // 0, whatever the insert had put there.
        or_raise: "ON DUPLICATE KEY UPDATE \
                   step = IF(next_number BETWEEN 0 AND {highest} AND epoch = '{row_epoch}', \
                   VALUES(step), step), \
                   token = IF(next_number BETWEEN 0 AND {highest} AND epoch = '{row_epoch}', \
                   VALUES(token), token), \
                   updated_at = IF(next_number BETWEEN 0 AND {highest} AND epoch = '{row_epoch}', \
                   {now}, updated_at), \
                   next_number = IF(next_number BETWEEN 0 AND {highest} \
                   AND epoch = '{row_epoch}', \
                   LAST_INSERT_ID(next_number + {by}), next_number + LAST_INSERT_ID(0)), \
                   epoch = IF(token = VALUES(token), VALUES(epoch), epoch)",
        // Each server has an identity of its own, unless a cluster keeps every write on several
        // servers. One that may lose writes when it crashes is another one after each start; the
        // difference is the time of its start, since both are read when the statement begins. That
        // holds until it stops once a setting was changed while it ran: nobody can know which values
        // it had, and what is set back and forth must not begin an epoch each time.
        server: "IF(NOT (@raindrop_session <=> CONNECTION_ID()), 'not set up', \
                 IF(CAST(@@GLOBAL.read_only AS CHAR) NOT IN ('0', 'OFF'), NULL, CAST(COALESCE( \
                 /*!80000 (SELECT CONCAT('group ', named.variable_value) \
                 FROM performance_schema.global_variables AS named \
                 JOIN performance_schema.global_status AS present \
                 ON present.variable_name = 'group_replication_primary_member' \
                 AND present.variable_value <> '' \
                 WHERE named.variable_name = 'group_replication_group_name'), \
                 (SELECT CONCAT('cluster ', variable_value) \
                 FROM performance_schema.global_status \
                 WHERE variable_name = 'wsrep_cluster_state_uuid' \
                 AND REPLACE(REPLACE(variable_value, '-', ''), '0', '') <> ''), */ \
                 /*M! (SELECT CONCAT('cluster ', variable_value) \
                 FROM information_schema.global_status \
                 WHERE variable_name = 'WSREP_CLUSTER_STATE_UUID' \
                 AND REPLACE(REPLACE(variable_value, '-', ''), '0', '') <> ''), */ \
                 CONCAT('server ', /*!80000 @@GLOBAL.server_uuid, */ /*M! @@GLOBAL.server_id, */ \
                 IF(@@GLOBAL.innodb_flush_log_at_trx_commit = 1 \
                 AND (@@GLOBAL.log_bin = 0 OR @@GLOBAL.sync_binlog = 1) AND NOT EXISTS (SELECT 1 \
                 /*!80000 FROM performance_schema.variables_info WHERE variable_source = 'DYNAMIC' \
                 AND variable_name IN ('innodb_flush_log_at_trx_commit', 'sync_binlog') */ \
                 /*M! FROM information_schema.system_variables WHERE global_value_origin = 'SQL' \
                 AND variable_name IN ('INNODB_FLUSH_LOG_AT_TRX_COMMIT', 'SYNC_BINLOG') */), '', \
                 CONCAT(' started ', UNIX_TIMESTAMP() - \
                 /*!80000 (SELECT variable_value FROM performance_schema.global_status \
                 WHERE variable_name = 'Uptime') */ \
                 /*M! (SELECT variable_value FROM information_schema.global_status \
                 WHERE variable_name = 'UPTIME') */)))) AS BINARY)))",
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
        let Target { url, tls, ca_file } = parameters::read(settings, &PARAMETERS)?;
        let url = match url.strip_prefix("mariadb://") {
            Some(rest) => format!("mysql://{rest}"),
            None => url,
        };
        let mut options: Vec<MySqlConnectOptions> = hosts::parse(settings, &url, &["socket"])?;
        if options.iter().any(|options| options.get_database().is_none()) {
            let reason = "it names no database, as in mysql://user@host/database";
            return Err(settings.unusable(reason));
        }
        let is_local = options.iter().all(|options| {
            options.get_socket().is_some() || is_local(resolvable(options.get_host()))
        });
        let mode = tls.unwrap_or_default();
        for options in &mut options {
            let host = resolvable(options.get_host()).to_owned();
            // Each connection is set up by one statement, which is ours.
            let plain = options.clone().set_names(false).timezone(None);
            let plain = plain.pipes_as_concat(false).no_engine_substitution(false);
            *options = plain.host(&host).ssl_mode(match mode {
                TlsMode::Verify => MySqlSslMode::VerifyIdentity,
                TlsMode::Prefer if is_local => MySqlSslMode::Preferred,
                TlsMode::Require | TlsMode::Prefer => MySqlSslMode::Required,
                TlsMode::Off => MySqlSslMode::Disabled,
            });
            if let Some(file) = &ca_file {
                *options = options.clone().ssl_ca(file);
            }
        }
        let name = |options: &MySqlConnectOptions| match options.get_socket() {
            Some(path) => path.display().to_string(),
            None => hosts::name(options.get_host(), options.get_port()),
        };
        let hosts = Hosts::new(options.iter().map(name));
        let protection = Protection { mode, is_local };
        let StoreSettings { timeout, failover, .. } = *settings;
        Ok(Self { hosts, options, protection, timeout, failover })
    }

    fn hosts(&self) -> &Hosts {
        &self.hosts
    }

    fn is_verified(&self) -> bool {
        self.protection.is_verified()
    }

    async fn open(&self, host: usize) -> Result<(MySqlConnection, Option<String>), Failure> {
        let options = &self.options[host];
        let mut connection = connect(options, self.protection).await?;
        let pins = self.pins();
        let names = match options.get_collation() {
            Some(collation) => format!("NAMES {CHARSET} COLLATE {collation}"),
            None => format!("NAMES {CHARSET}"),
        };
        let begin = format!("SET {names}, @raindrop_session = CONNECTION_ID()");
        let (set, read): (String, String) = pins.iter().map(|pin| (pin.set(), pin.read())).unzip();
        let sql = format!("{begin}, SESSION timestamp = DEFAULT{set}; {READ_ONLY}, {STATE}{read}");
        let mut row = match connection.run_together(&sql).await {
            Ok(answer) => answer.into_row(),
            Err(error) if is_unknown_setting(&error) => {
                connection.execute(AssertSqlSafe(begin)).await?;
                pin_what_is_known(&mut connection, &pins).await?;
                let reason = Self::read_only(&mut connection).await?;
                return Ok((connection, reason));
            }
            Err(error) => return Err(error.into()),
        };
        check_pinned(&row.split_off(row.len().min(STATE_COLUMNS)))?;
        let (wsrep_on, binlog_format) = (row.pop(), row.pop());
        if wsrep_on == Some("ON".into()) {
            // Otherwise a node of a cluster reads what another one has already replaced.
            let causal = Pin { only: "", name: "wsrep_sync_wait", value: "7".into() };
            pin(&mut connection, &causal).await?;
        }
        if self.failover == Failover::Auto && binlog_format == Some("STATEMENT".into()) {
            replicate_rows(&mut connection).await?;
        }
        Ok((connection, reason(&row)))
    }

    async fn read_only(connection: &mut MySqlConnection) -> Result<Option<String>, sqlx::Error> {
        match connection.run_together(READ_ONLY).await {
            Ok(answer) => Ok(reason(&answer.into_row())),
            Err(error) if is_unknown_setting(&error) => Ok(None),
            Err(error) => Err(error),
        }
    }

    async fn migrate(
        &self,
        connection: &mut MySqlConnection,
        migrator: &Migrator,
        bookkeeping: &str,
    ) -> Result<(), Failure> {
        // One node after the other, so that they do not all try to create the tables: each waits
        // until it is its turn, or until the caller's time-out. Only a courtesy: clusters refuse the
        // function, and without it races are tried again.
        let lock = "SELECT GET_LOCK(CONCAT('raindrop ', CRC32(CONCAT(DATABASE(), ' ', ?))), ?)";
        let args = values![bookkeeping, self.timeout.as_secs().max(1)];
        loop {
            match connection.run(lock, &args).await {
                Ok(answer) if answer.rows == [[Value::Integer(0)]] => {}
                Ok(_) | Err(sqlx::Error::Database(_)) => break,
                Err(error) => return Err(error.into()),
            }
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
            // that is not ready, blocked host, statement interrupted, killed; the server, its InnoDB
            // or its transactions have become read-only.
            Some(1040 | 1203 | 1053 | 1047 | 1129 | 1317 | 1927 | 3169 | 1290 | 1836 | 1792) => {
                Class::Unavailable
            }
            // No such table.
            Some(1146) => Class::Vanished,
            _ if error.code().as_deref() == Some("40001") => Class::Retry,
            _ => Class::Refused,
        }
    }
}

/// Returns why a server accepts no writes, from pairs of a setting's name and value.
fn reason(row: &[Value]) -> Option<String> {
    row.chunks(2).find_map(|pair| match pair {
        [Value::Text(name), Value::Text(value)] if value != "0" && value != "OFF" => {
            Some(format!("{name} is on"))
        }
        _ => None,
    })
}

/// Whether that is the answer of a relative of the engine without a setting that a query reads.
fn is_unknown_setting(error: &sqlx::Error) -> bool {
    let is_unknown = |class| matches!(class, Class::Refused | Class::Vanished);
    matches!(error, sqlx::Error::Database(error) if is_unknown(MySql::class(&**error)))
}

/// Has replicas copy the rows that our statements write. A replica that runs the statements again
/// finds its own identity in them, and writes nothing.
///
/// With `MIXED`, both engines log a statement that reads a global variable as rows by themselves.
async fn replicate_rows(connection: &mut MySqlConnection) -> Result<(), Failure> {
    let refusal = match connection.execute("SET SESSION binlog_format = 'ROW'").await {
        Ok(_) => return Ok(()),
        Err(sqlx::Error::Database(error)) if MySql::class(&*error) == Class::Refused => error,
        Err(error) => return Err(error.into()),
    };
    Err(StoreError::Unusable(format!(
        "replicas would diverge: binlog_format is STATEMENT and should be ROW or MIXED. Change it on \
         the server, or let this user change it for its sessions (BINLOG ADMIN on MariaDB, \
         SESSION_VARIABLES_ADMIN on MySQL): {refusal}"
    ))
    .into())
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
