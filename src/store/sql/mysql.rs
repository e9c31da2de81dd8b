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
    guard::{self, Login, Step},
    schema,
};
use crate::store::{
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

/// How to connect to one database.
pub(in crate::store) struct MySql {
    hosts: Hosts,
    /// For each host.
    options: Vec<MySqlConnectOptions>,
    protection: Protection,
    timeout: Duration,
    failover: Failover,
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
        // difference is the time of its start, since both are read when the statement begins.
        server: "IF(CAST(@@GLOBAL.read_only AS CHAR) NOT IN ('0', 'OFF'), NULL, CAST(COALESCE( \
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
                 AND (@@GLOBAL.log_bin = 0 OR @@GLOBAL.sync_binlog = 1), '', \
                 CONCAT(' started ', UNIX_TIMESTAMP() - \
                 /*!80000 (SELECT variable_value FROM performance_schema.global_status \
                 WHERE variable_name = 'Uptime') */ \
                 /*M! (SELECT variable_value FROM information_schema.global_status \
                 WHERE variable_name = 'UPTIME') */)))) AS BINARY))",
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
        let server = (options.get_host(), options.get_port());
        let mut connection =
            guard::connect(MySqlLogin::default(), options, self.protection, server).await?;
        // Whatever the server's defaults are: a value that does not fit is an error, a statement
        // is its own transaction and reads what is committed, and a statement that we gave up does
        // not wait on for a lock. READ COMMITTED would do, but a server that replicates by
        // statement refuses its writes.
        let seconds = self.timeout.as_secs().max(1);
        let names = match options.get_collation() {
            Some(collation) => format!("{CHARSET} COLLATE {collation}"),
            None => CHARSET.to_owned(),
        };
        let set = format!(
            "SET NAMES {names}, \
             SESSION sql_mode = 'STRICT_ALL_TABLES,NO_ENGINE_SUBSTITUTION', \
             SESSION innodb_lock_wait_timeout = {seconds}, SESSION lock_wait_timeout = {seconds}, \
             SESSION autocommit = 1"
        );
        // One statement instead of two. MariaDB has deprecated its name of the setting.
        let isolated = "/*!80000 , SESSION transaction_isolation = 'REPEATABLE-READ' */ \
                        /*M! , SESSION tx_isolation = 'REPEATABLE-READ' */";
        match connection.execute(AssertSqlSafe(format!("{set} {isolated}"))).await {
            Err(error) if is_unknown_setting(&error) => {
                let isolate = "SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ";
                connection.execute(AssertSqlSafe(format!("{set}; {isolate}"))).await?
            }
            done => done?,
        };
        let sql = format!(
            "{READ_ONLY}, IF(@@GLOBAL.log_bin <> 0, CAST(@@SESSION.binlog_format AS CHAR), '')"
        );
        let mut row = match connection.run(&sql, &[]).await {
            Ok(answer) => answer.into_row(),
            Err(error) if is_unknown_setting(&error) => {
                let reason = Self::read_only(&mut connection).await?;
                return Ok((connection, reason));
            }
            Err(error) => return Err(error.into()),
        };
        let binlog_format = row.pop();
        if self.failover == Failover::Auto && binlog_format == Some("STATEMENT".into()) {
            replicate_rows(&mut connection).await?;
        }
        Ok((connection, reason(&row)))
    }

    async fn read_only(connection: &mut MySqlConnection) -> Result<Option<String>, sqlx::Error> {
        match connection.run(READ_ONLY, &[]).await {
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
    matches!(error, sqlx::Error::Database(error) if MySql::class(&**error) == Class::Refused)
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

/// A login to MySQL: the greeting, then requests of the authentication until `OK`.
#[derive(Default)]
pub(super) struct MySqlLogin {
    is_greeted: bool,
}

impl Login for MySqlLogin {
    type Connection = MySqlConnection;
    type Options = MySqlConnectOptions;
    const HEADER: usize = 4;

    fn through(options: &MySqlConnectOptions, port: u16) -> MySqlConnectOptions {
        options.clone().host("127.0.0.1").port(port).ssl_mode(MySqlSslMode::Disabled)
    }

    fn length(header: &[u8]) -> Option<usize> {
        let [low, middle, high, _] = *header else { return None };
        Some(u32::from_le_bytes([low, middle, high, 0]) as usize)
    }

    fn judge(&mut self, message: &[u8]) -> Step {
        const ERROR: u8 = 0xff;
        // The greeting names a plugin as well as a request to switch does.
        let names_plugin = |name: &str| message.windows(name.len()).any(|it| it == name.as_bytes());
        let was_greeted = std::mem::replace(&mut self.is_greeted, true);
        match message[Self::HEADER..] {
            [ERROR, ..] => Step::PassOn,
            _ if ["mysql_clear_password", "sha256_password"].into_iter().any(names_plugin) => {
                Step::Refuse
            }
            _ if !was_greeted => Step::PassOn,
            [0x00, ..] => Step::LoggedIn,
            // `caching_sha2_password` knew the hash; otherwise it asks for the password.
            [0x01, 0x03] => Step::PassOn,
            [0x01, ..] => Step::Refuse,
            _ => Step::PassOn,
        }
    }
}
