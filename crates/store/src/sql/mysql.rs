//! MySQL 8+ and MariaDB 10.6+.
//!
//! A session is set up by one message: it sets and reads back every setting that changes what a
//! statement means ([`PINS`]), marks the session, and reads the facts about the server.
//! [`Facts::identity`] derives whose history the server continues, and [`Facts::check`] refuses
//! replicas and servers that accept no writes. On a Galera node, a session waits for the writes of
//! other nodes before it reads.
//!
//! A session cannot set the durability of these servers. The statement `durability` reads it, and
//! the operator gets a warning. Tests: tests/store/mariadb.rs, split.rs and sessions.rs.

use std::{
    collections::BTreeMap,
    slice,
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};

use sqlx::{
    Executor as _,
    error::DatabaseError,
    mysql::{
        MySqlConnectOptions, MySqlConnection, MySqlDatabaseError, MySqlQueryResult, MySqlSslMode,
    },
};

use super::{
    engine::{Addressed, Answer, Class, Engine, Failure, RunSql as _, Statements, migrations},
    login::{check_pinned, connect, not_pinned},
    schema::Migrations,
    session::Server,
};
use crate::{
    Result, StoreError, StoreSettings, TlsMode,
    error::Cause,
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
        // The host name is checked as well: otherwise an attacker with any certificate of the
        // authority could pose as the server.
        ("verify_ca", TlsMode::Verify),
        ("verify_identity", TlsMode::Verify),
    ],
    ca_file: &["ssl-ca", "sslca"],
};

const CHARSET: &str = "utf8mb4";

/// The settings that change what a statement means or whether it takes place, with our values; the
/// server, `init_connect` and proxies may have set others. With them:
///
/// - a value that does not fit is an error;
/// - a statement is its own transaction, reads what is committed, and reads all of it;
/// - no time-out but ours ends a statement.
///
/// READ COMMITTED would suffice, but a server that replicates by statement refuses its writes.
/// `{seconds}` stands for the time-out.
const PINS: [Pin; 16] = [
    Pin { only: "", name: "autocommit", value: "1" },
    Pin { only: "", name: "completion_type", value: "'NO_CHAIN'" },
    Pin { only: "", name: "innodb_lock_wait_timeout", value: "{seconds}" },
    Pin { only: "", name: "lock_wait_timeout", value: "{seconds}" },
    Pin { only: "", name: "sql_auto_is_null", value: "0" },
    Pin { only: "", name: "sql_big_selects", value: "1" },
    Pin { only: "", name: "sql_mode", value: "'STRICT_ALL_TABLES,NO_ENGINE_SUBSTITUTION'" },
    Pin { only: "", name: "sql_safe_updates", value: "0" },
    Pin { only: "", name: "sql_select_limit", value: "18446744073709551615" },
    Pin { only: "", name: "time_zone", value: "'+00:00'" },
    Pin { only: "!80000", name: "max_execution_time", value: "0" },
    Pin { only: "!80000", name: "transaction_isolation", value: "'REPEATABLE-READ'" },
    Pin { only: "!80000", name: "transaction_read_only", value: "0" },
    Pin { only: "M!", name: "max_statement_time", value: "0.000000" },
    // Older MariaDB does not have MySQL's names of these.
    Pin { only: "M!", name: "tx_isolation", value: "'REPEATABLE-READ'" },
    Pin { only: "M!", name: "tx_read_only", value: "0" },
];

/// How to connect to one database.
pub(crate) struct MySql {
    /// The options of each host.
    options: Vec<MySqlConnectOptions>,
    protection: Protection,
    timeout: Duration,
    /// Whether this account lacks the right to ask whose changes a MySQL server applies.
    may_not_ask: AtomicBool,
    sql: Statements,
}

/// A setting of a session.
struct Pin {
    /// The beginning of the comment that only MySQL or only MariaDB reads; empty for both.
    only: &'static str,
    name: &'static str,
    /// The value as SQL.
    value: &'static str,
}

impl Pin {
    fn within(&self, sql: String) -> String {
        if self.only.is_empty() { sql } else { format!(" /*{} {sql} */", self.only) }
    }

    /// Returns the SQL that sets it, to append to a SET statement.
    fn set(&self) -> String {
        self.within(format!(", SESSION {} = {}", self.name, self.value))
    }

    /// Returns the SQL that reads it for [`check_pinned`], to append to a query.
    fn read(&self) -> String {
        let Self { name, value, .. } = self;
        self.within(format!(
            " UNION ALL SELECT '{name}', CAST(@@SESSION.{name} AS CHAR), CAST({value} AS CHAR)"
        ))
    }
}

/// The facts that a server reports about itself, by name.
#[derive(Debug)]
struct Facts(BTreeMap<String, String>);

impl Facts {
    fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str).filter(|value| !value.is_empty())
    }

    fn is_on(&self, name: &str) -> bool {
        self.get(name).is_some_and(|value| !["0", "OFF"].contains(&value))
    }

    /// Returns the identity of the history that the server continues.
    ///
    /// A cluster that keeps every write on several servers has one identity; otherwise each server
    /// has its own. If a crash of the server may lose acknowledged writes, its start time is a part
    /// of the identity, so that each start begins an epoch. The same holds until its next stop if
    /// one of these settings was changed while it ran: earlier values are unknown, and switching
    /// them back and forth must not begin an epoch each time.
    fn identity(&self) -> Option<String> {
        let is_written = |uuid: &&str| uuid.contains(|c| !['-', '0'].contains(&c));
        if let Some(group) = self.get("group_replication_group_name")
            && self.get("group_replication_primary_member").is_some()
        {
            return Some(format!("group {group}"));
        }
        if let Some(cluster) = self.get("wsrep_cluster_state_uuid").filter(is_written) {
            return Some(format!("cluster {cluster}"));
        }
        let server = self.get("server_uuid").or(self.get("server_id"))?;
        let flushes = self.get("innodb_flush_log_at_trx_commit") == Some("1")
            && (!self.is_on("log_bin") || self.get("sync_binlog") == Some("1"))
            && self.get("set_while_running").is_none();
        if flushes {
            return Some(format!("server {server}"));
        }
        Some(format!("server {server} started {}", self.get("started")?))
    }

    /// Refuses a server that accepts no writes, and a session whose writes do not reach replicas.
    fn check(&self) -> Result<()> {
        // `read_only` does not bind administrators; MySQL's `super_read_only` implies it. Read
        // replicas of some services have only `innodb_read_only`.
        let read_only = ["read_only", "innodb_read_only"].into_iter().find(|name| self.is_on(name));
        if let Some(name) = read_only {
            return Err(StoreError::AcceptsNoWrites(format!(
                "{name} is on: name the server that accepts writes in store.url, or turn it off"
            )));
        }
        if self.is_on("log_bin") && !self.is_on("sql_log_bin") {
            return Err(not_pinned("sql_log_bin", "1", "OFF"));
        }
        if self.is_on("skip_replication") {
            return Err(not_pinned("skip_replication", "0", "ON"));
        }
        if self.is_on("slaves_running") {
            return Err(applies_changes("another server"));
        }
        Ok(())
    }
}

/// Returns the error for a replica, which applies the changes of other servers.
fn applies_changes(sources: &str) -> StoreError {
    StoreError::AcceptsNoWrites(format!(
        "it is a replica, which applies the changes of {sources}: name that one in store.url, or STOP \
         REPLICA here if this one takes its place"
    ))
}

impl MySql {
    /// Marks a session, sets its pinned settings, and returns the facts about the server. All of
    /// this is one message, so that no proxy can divide it between servers. A proxy that sends it
    /// again makes another mark.
    async fn set_up(
        &self,
        connection: &mut MySqlConnection,
        names: &str,
        pins: &[Pin],
    ) -> Result<Facts, Failure> {
        let (set, read): (String, String) = pins.iter().map(|pin| (pin.set(), pin.read())).unzip();
        // So that a statement whose caller gave up stops waiting for a lock.
        let seconds = self.timeout.as_secs().max(1).to_string();
        let sql = format!(
            "SET {names}, @raindrop_session = UUID(), SESSION timestamp = DEFAULT{set}; \
             SELECT 'character_set_client', CAST(@@SESSION.character_set_client AS CHAR), '{CHARSET}'\
             {read}; {}",
            self.sql["facts"]
        );
        let sql = sql.replace("{seconds}", &seconds);
        let rows = connection.run_together(&sql).await?.rows;
        let (facts, settings): (Vec<_>, Vec<_>) = rows.into_iter().partition(|row| row.len() == 2);
        check_pinned(&settings)?;
        let fact = |row: Vec<Value>| match &row[..] {
            [Value::Text(name), Value::Text(value)] => Some((name.clone(), value.clone())),
            _ => None,
        };
        Ok(Facts(facts.into_iter().filter_map(fact).collect()))
    }

    /// Refuses a MySQL server that applies the changes of others, if the account may ask for that.
    async fn check_sources(&self, connection: &mut MySqlConnection) -> Result<(), Failure> {
        const DENIED: u16 = 1142;
        match connection.run_together(&self.sql["sources"]).await {
            Ok(Answer { rows, .. }) => match rows.concat().first() {
                Some(Value::Text(source)) => Err(applies_changes(source).into()),
                _ => Ok(()),
            },
            Err(error) if number(&error) == Some(DENIED) => {
                self.may_not_ask.store(true, Ordering::Relaxed);
                Ok(())
            }
            Err(error) => Err(error.into()),
        }
    }
}

/// Returns the error number of the server.
fn number(error: &sqlx::Error) -> Option<u16> {
    let error = error.as_database_error()?.try_downcast_ref::<MySqlDatabaseError>()?;
    Some(error.number())
}

impl Engine for MySql {
    type Connection = MySqlConnection;

    const QUOTE: char = '`';
    const SQL: &'static str = include_str!("mysql.sql");
    const CLOCK_IS_LOCAL: bool = false;
    migrations!("mysql");

    fn new(settings: &StoreSettings, sql: &Statements) -> Result<Addressed<Self>> {
        let Target { url, tls, ca_file } = parameters::read(settings, &PARAMETERS)?;
        let mut options: Vec<MySqlConnectOptions> = hosts::parse(settings, &url, &["socket"])?;
        if options.iter().any(|options| options.get_database().is_none()) {
            let reason = "it names no database, as in mysql://user@host/database";
            return Err(settings.unusable(reason));
        }
        let is_local =
            options.iter().all(|it| it.get_socket().is_some() || is_local(it.get_host()));
        let mode = tls.unwrap_or_default();
        for options in &mut options {
            let host = resolvable(options.get_host()).to_owned();
            // sqlx must not set anything itself: `set_up` does, in one message.
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
        let (protection, timeout) = (Protection { mode, is_local }, settings.timeout);
        let (may_not_ask, sql) = (AtomicBool::new(false), sql.clone());
        let engine = Self { options, protection, timeout, may_not_ask, sql };
        Ok(Addressed { engine, hosts, is_verified: protection.is_verified() })
    }

    fn warning(&self) -> Option<&'static str> {
        self.may_not_ask.load(Ordering::Relaxed).then_some(
            "the account may not ask whether the server is a replica, so read_only alone tells: \
             GRANT SELECT ON performance_schema.* to it",
        )
    }

    async fn open(&self, host: usize) -> Result<(MySqlConnection, Server), Failure> {
        const UNKNOWN_SETTING: u16 = 1193;
        let options = &self.options[host];
        let mut connection = connect(options, self.protection).await?;
        let names = match options.get_collation() {
            Some(collation) => format!("NAMES {CHARSET} COLLATE {collation}"),
            None => format!("NAMES {CHARSET}"),
        };
        let mut facts = match self.set_up(&mut connection, &names, &PINS).await {
            Err(Failure::Sql(error)) if number(&error) == Some(UNKNOWN_SETTING) => {
                let mut facts = self.set_up(&mut connection, &names, &[]).await?;
                for pin in &PINS {
                    match self.set_up(&mut connection, &names, slice::from_ref(pin)).await {
                        // A setting that the server does not have cannot change statements there.
                        Err(Failure::Sql(error)) if number(&error) == Some(UNKNOWN_SETTING) => {}
                        told => facts = told?,
                    }
                }
                facts
            }
            told => told?,
        };
        if facts.is_on("wsrep_on") {
            // Otherwise a node of a Galera cluster may read rows that another node has already
            // replaced.
            let causal = Pin { only: "", name: "wsrep_sync_wait", value: "7" };
            facts = self.set_up(&mut connection, &names, &[causal]).await?;
        }
        facts.check()?;
        if facts.get("server_uuid").is_some() {
            self.check_sources(&mut connection).await?;
        }
        if facts.is_on("log_bin") && facts.get("binlog_format") == Some("STATEMENT") {
            replicate_rows(&mut connection).await?;
        }
        let (Some(session), Some(identity)) = (facts.get("session"), facts.identity()) else {
            let reason = format!("the server does not say which one it is: {facts:?}");
            return Err(StoreError::Refused(reason.into()).into());
        };
        Ok((connection, Server { session: session.to_owned(), identity }))
    }

    async fn migrate(
        &self,
        connection: &mut MySqlConnection,
        migrations: &Migrations,
    ) -> Result<(), Failure> {
        // One node after the other, so that they do not all try to create the tables. Each waits
        // for its turn, or until the caller's time-out. Without the lock, which clusters refuse,
        // races are retried.
        let args = values![&migrations.bookkeeping, self.timeout.as_secs().max(1)];
        loop {
            match connection.run(&self.sql["lock_migrations"], &args).await {
                Ok(answer) if answer.rows == [[Value::Integer(0)]] => {}
                Ok(_) | Err(sqlx::Error::Database(_)) => break,
                Err(error) => return Err(error.into()),
            }
        }
        migrations.apply(connection).await
    }

    fn class(error: &dyn DatabaseError) -> Class {
        let number = error.try_downcast_ref::<MySqlDatabaseError>().map(|error| error.number());
        match number {
            // In this order: deadlock, lock wait, changed since the snapshot, table or column
            // created by another node, table definition changed.
            Some(1213 | 1205 | 1020 | 1050 | 1060 | 1412) => Class::Retry,
            // In this order: too many connections (of the server, of the user), shutting down, a
            // cluster's node that is not ready, blocked host, statement interrupted, killed
            // (MariaDB's and MySQL's number), read-only (the server, its InnoDB, its transactions).
            Some(1040 | 1203 | 1053 | 1047 | 1129 | 1317 | 1927 | 3169 | 1290 | 1836 | 1792) => {
                Class::Unavailable
            }
            // No such table.
            Some(1146) => Class::Vanished,
            // No such prepared statement.
            Some(1243) => Class::OtherSession,
            // In this order: to a database, with this password, without one; a command, a column, a
            // privilege, a routine; an account that is locked (MySQL's and MariaDB's number).
            Some(1044 | 1045 | 1698 | 1142 | 1143 | 1227 | 1370 | 3118 | 4151) => {
                Class::RefusedFor(Cause::AccessDenied)
            }
            // The disk, the table or the file is full.
            Some(1021 | 1114) => Class::RefusedFor(Cause::NoSpace),
            _ if is_of_full_disk(error.message()) => Class::RefusedFor(Cause::NoSpace),
            _ if error.code().as_deref() == Some("40001") => Class::Retry,
            _ => Class::Refused,
        }
    }
}

/// Returns whether an error of a storage engine or file quotes `ENOSPC`, whose number is 28.
fn is_of_full_disk(message: &str) -> bool {
    ["No space left on device", "error 28 ", "errno: 28", "Errcode: 28"]
        .iter()
        .any(|part| message.contains(part))
}

/// Makes replicas copy the rows that our statements write. A replica that ran the statements again
/// would compare its own identity, and write nothing.
///
/// With `MIXED`, both engines log a statement that reads a global variable as rows anyway.
async fn replicate_rows(connection: &mut MySqlConnection) -> Result<(), Failure> {
    let refusal = match connection.execute("SET SESSION binlog_format = 'ROW'").await {
        Ok(_) => return Ok(()),
        Err(sqlx::Error::Database(error))
            if matches!(MySql::class(&*error), Class::Refused | Class::RefusedFor(_)) =>
        {
            error
        }
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
        // A raised number is above 0, and 0 means that there is none.
        let number = i64::try_from(result.last_insert_id()).ok();
        let raised = number.filter(|number| *number > 0 && matched > 0);
        Self { matched, raised, ..Self::default() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facts(told: &[(&str, &str)]) -> Facts {
        let owned = told.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        Facts(owned.collect())
    }

    const DURABLE: [(&str, &str); 5] = [
        ("server_id", "1"),
        ("innodb_flush_log_at_trx_commit", "1"),
        ("log_bin", "ON"),
        ("sync_binlog", "1"),
        ("started", "1700000000"),
    ];

    #[test]
    fn identity_is_that_of_the_server_or_the_cluster_that_keeps_the_writes() {
        const ZERO: &str = "00000000-0000-0000-0000-000000000000";
        for (more, identity) in [
            (&[][..], "server 1"),
            (&[("server_uuid", "a-b")], "server a-b"),
            (&[("sync_binlog", "0")], "server 1 started 1700000000"),
            (&[("sync_binlog", "0"), ("log_bin", "OFF")], "server 1"),
            (&[("innodb_flush_log_at_trx_commit", "2")], "server 1 started 1700000000"),
            (&[("set_while_running", "SYNC_BINLOG")], "server 1 started 1700000000"),
            (&[("wsrep_cluster_state_uuid", "c-1")], "cluster c-1"),
            (&[("wsrep_cluster_state_uuid", ZERO)], "server 1"),
            (&[("group_replication_group_name", "g")], "server 1"),
            (
                &[("group_replication_group_name", "g"), ("group_replication_primary_member", "m")],
                "group g",
            ),
        ] {
            let facts = facts(&[&DURABLE[..], more].concat());
            assert_eq!(facts.identity().as_deref(), Some(identity), "{more:?}");
        }
        assert_eq!(facts(&[]).identity(), None);
    }

    #[test]
    fn server_that_must_not_be_written_is_refused_with_the_reason() {
        facts(&[("log_bin", "OFF"), ("sql_log_bin", "OFF"), ("slaves_running", "0")])
            .check()
            .expect("a primary without replicas");
        for (told, said) in [
            (&[("read_only", "NO_LOCK")][..], "read_only is on"),
            (&[("innodb_read_only", "ON")], "innodb_read_only is on"),
            (&[("slaves_running", "1")], "it is a replica"),
            (&[("log_bin", "ON"), ("sql_log_bin", "OFF")], "sql_log_bin = 1, but has OFF"),
            (&[("skip_replication", "ON")], "skip_replication = 0, but has ON"),
        ] {
            let error = facts(told).check().expect_err(said);
            assert!(crate::with_sources(&error).contains(said), "{error:?}");
        }
    }
}
