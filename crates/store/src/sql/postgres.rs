//! PostgreSQL 13+.
//!
//! `docs/operations.md` lists the settings that keep acknowledged writes. Those that a session can
//! have are set, so a pooler in between must keep one session for each client
//! (`pool_mode = session`), and another one is refused; the server's are read and warned about.

use std::{
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};

use sqlx::{
    Connection as _, Executor as _,
    error::DatabaseError,
    migrate::Migrator,
    postgres::{PgConnectOptions, PgConnection, PgQueryResult, PgSslMode},
};

use super::{
    engine::{
        Answer, Class, Dialect, Engine, Failure, ON_CONFLICT_RAISE, Session as _, migrations,
    },
    schema,
    session::{check_pinned, connect, pooled},
};
use crate::{
    Result, StoreSettings, TlsMode,
    hosts::{self, Hosts, resolvable},
    parameters::{self, Parameters, Target},
    tls::{Protection, is_local},
    value::{Value, values},
};

const PARAMETERS: Parameters = Parameters {
    passed: &[
        "application_name",
        "dbname",
        "host",
        "hostaddr",
        "options",
        "password",
        "port",
        "ssl-cert",
        "ssl-key",
        "sslcert",
        "sslkey",
        "statement-cache-capacity",
        "user",
    ],
    mode: &["sslmode", "ssl-mode"],
    modes: &[
        ("disable", TlsMode::Off),
        ("allow", TlsMode::Prefer),
        ("prefer", TlsMode::Prefer),
        ("require", TlsMode::Require),
        // The name is checked as well: whoever can get any certificate could pose as the server.
        ("verify-ca", TlsMode::Verify),
        ("verify-full", TlsMode::Verify),
    ],
    ca_file: &["sslrootcert", "ssl-root-cert", "ssl-ca"],
};

/// Why a server accepts no writes; null if it does.
const READ_ONLY: &str = "CASE WHEN pg_is_in_recovery() THEN 'it is a standby' \
     WHEN current_setting('transaction_read_only') <> 'off' \
     THEN 'default_transaction_read_only is on' END";

/// The settings that change what a statement means, whether it takes place and whether it lasts, as
/// names with values: those of the server, of its databases and of its roles differ. No other
/// time-out than ours ends a statement, and a row that a policy hides is an error. `{statement}` and
/// `{lock}` stand for time-outs. Not every version has every setting.
const PINS: &str = "(VALUES ('synchronous_commit', CASE current_setting('synchronous_commit') \
     WHEN 'remote_apply' THEN 'remote_apply' ELSE 'on' END), \
     ('client_min_messages', 'warning'), ('default_transaction_deferrable', 'off'), \
     ('default_transaction_isolation', 'read committed'), ('extra_float_digits', '1'), \
     ('idle_in_transaction_session_timeout', '0'), ('row_security', 'off'), \
     ('standard_conforming_strings', 'on'), ('transaction_timeout', '0'), \
     ('transform_null_equals', 'off'), ('statement_timeout', '{statement}'), \
     ('lock_timeout', '{lock}')) AS pins (name, wanted)";

/// Whether the server itself has read what the driver sends when it connects. A pooler opens its own
/// sessions, and sets there what its clients ask for.
const IS_DIRECT: &str =
    "EXISTS (SELECT 1 FROM pg_settings WHERE name = 'DateStyle' AND source = 'client')";

/// How to connect to one database.
pub(crate) struct Postgres {
    hosts: Hosts,
    /// For each host.
    options: Vec<PgConnectOptions>,
    protection: Protection,
    timeout: Duration,
    /// Whether the pooler in between keeps one session for each client.
    keeps_sessions: AtomicBool,
}

impl Postgres {
    /// Sets and reads the settings of a session in one round trip, if they are those of this
    /// connection alone: a pooler would pass them on to others. Returns why the server accepts no
    /// writes, if it does not; `None` where a pooler is in between.
    async fn pin(
        &self,
        connection: &mut PgConnection,
        condition: &str,
    ) -> Result<Option<Option<String>>, Failure> {
        let statement = self.timeout.as_millis().max(2);
        // Shorter than the statement's, which would always come first.
        let lock = (self.timeout.as_millis() / 2).max(1);
        let pins = PINS.replace("{statement}", &statement.to_string());
        let pins = pins.replace("{lock}", &lock.to_string());
        let sql = format!(
            "SELECT COUNT(set_config(name, wanted, FALSE)), COUNT(set_config('raindrop.session', \
             CAST(pg_backend_pid() AS TEXT), FALSE)) FROM {pins} JOIN pg_settings USING (name) \
             WHERE {condition}; \
             SELECT {READ_ONLY} WHERE {condition}; \
             SELECT name, setting, wanted FROM {pins} JOIN pg_settings USING (name) \
             WHERE {condition}"
        );
        let rows = connection.run_together(&sql).await?.rows;
        let [_, read_only, settings @ ..] = &rows[..] else { return Ok(None) };
        check_pinned(&settings.concat())?;
        Ok(Some(reason(read_only.clone())))
    }

    /// Refuses a pooler that gives each transaction, or each statement, another session of the
    /// server: there a session that is not in use serves others.
    async fn check_pooler(
        &self,
        first: &mut PgConnection,
        options: &PgConnectOptions,
    ) -> Result<(), Failure> {
        let before = backend_of(first).await?;
        let seen = async {
            let mut others = vec![backend_of(first).await?];
            let mut second = connect(options, self.protection).await?;
            if backend_of(&mut second).await? == before {
                return Ok(Some("two sessions ran in one server session".to_owned()));
            }
            // Keeps what it has until the end of its transaction, whichever is free first.
            if let Err(error) = second.execute("BEGIN").await {
                return Ok(Some(error.to_string()));
            }
            others.extend([backend_of(first).await?, backend_of(first).await?]);
            let _ = second.close().await;
            let other = others.into_iter().find(|other| *other != before);
            Ok::<_, Failure>(other.map(|other| {
                format!("two statements of one session ran in different server sessions ({other})")
            }))
        };
        // With all of its sessions in use by clients that keep theirs, it has none for a second one.
        let seen = tokio::time::timeout(self.timeout, seen).await.unwrap_or(Ok(None))?;
        if let Some(seen) = seen {
            return Err(pooled(format!("{seen}; pg_backend_pid was {before}")).into());
        }
        self.keeps_sessions.store(true, Ordering::Relaxed);
        Ok(())
    }
}

/// The server session that a statement runs in.
async fn backend_of(connection: &mut PgConnection) -> Result<String, sqlx::Error> {
    let pid = connection.run_together("SELECT pg_backend_pid()").await?.into_row().pop();
    Ok(match pid {
        Some(Value::Text(pid)) => pid,
        _ => String::new(),
    })
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
        as_text: "CAST({} AS TEXT)",
        // The columns' collation is "C".
        exact: "{}",
        for_share: " FOR SHARE",
        or_keep: "ON CONFLICT DO NOTHING",
        raised: "{}",
        returning: " RETURNING next_number",
        or_raise: ON_CONFLICT_RAISE,
        // A promotion begins another timeline. A server that may lose writes when it crashes is
        // another one after each start.
        server: "CASE WHEN current_setting('raindrop.session', TRUE) IS DISTINCT FROM \
                 CAST(pg_backend_pid() AS TEXT) \
                 OR current_setting('synchronous_commit') NOT IN ('on', 'remote_apply') \
                 THEN 'not set up' WHEN pg_is_in_recovery() THEN NULL ELSE (SELECT 'system ' || \
                 CAST(system_identifier AS TEXT) || ' timeline ' || \
                 substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8) \
                 FROM pg_control_system()) || CASE current_setting('fsync') WHEN 'on' THEN '' \
                 ELSE ' started ' || CAST(EXTRACT(EPOCH FROM pg_postmaster_start_time()) AS TEXT) \
                 END END",
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
        let Target { url, tls, ca_file } = parameters::read(settings, &PARAMETERS)?;
        let mut options: Vec<PgConnectOptions> =
            hosts::parse(settings, &url, &["host", "hostaddr", "port"])?;
        if options.iter().any(|options| options.get_database().is_none()) {
            let reason = "it names no database, as in postgres://user@host/database";
            return Err(settings.unusable(reason));
        }
        let is_local = options.iter().all(|options| {
            options.get_socket().is_some() || is_local(resolvable(options.get_host()))
        });
        // Without a parameter, the driver has read PGSSLMODE, for each host alike.
        let mode = tls.unwrap_or(match options.first().map(PgConnectOptions::get_ssl_mode) {
            Some(PgSslMode::VerifyFull | PgSslMode::VerifyCa) => TlsMode::Verify,
            Some(PgSslMode::Require) => TlsMode::Require,
            Some(PgSslMode::Prefer | PgSslMode::Allow) | None => TlsMode::Prefer,
            Some(PgSslMode::Disable) => TlsMode::Off,
        });
        for options in &mut options {
            let host = resolvable(options.get_host()).to_owned();
            // PgBouncer knows no such parameter when a client connects.
            let plain = options.clone().extra_float_digits(None);
            *options = plain.host(&host).ssl_mode(match mode {
                TlsMode::Verify => PgSslMode::VerifyFull,
                TlsMode::Prefer if is_local => PgSslMode::Prefer,
                TlsMode::Require | TlsMode::Prefer => PgSslMode::Require,
                TlsMode::Off => PgSslMode::Disable,
            });
            if options.get_application_name().is_none() {
                *options = options.clone().application_name("raindrop");
            }
            if let Some(file) = &ca_file {
                *options = options.clone().ssl_root_cert(file);
            }
        }
        let name = |options: &PgConnectOptions| match options.get_socket() {
            Some(path) => path.display().to_string(),
            None => hosts::name(options.get_host(), options.get_port()),
        };
        let hosts = Hosts::new(options.iter().map(name));
        let protection = Protection { mode, is_local };
        let (timeout, keeps_sessions) = (settings.timeout, AtomicBool::new(false));
        Ok(Self { hosts, options, protection, timeout, keeps_sessions })
    }

    fn hosts(&self) -> &Hosts {
        &self.hosts
    }

    fn is_verified(&self) -> bool {
        self.protection.is_verified()
    }

    async fn open(&self, host: usize) -> Result<(PgConnection, Option<String>), Failure> {
        let options = &self.options[host];
        let mut connection = connect(options, self.protection).await?;
        if let Some(reason) = self.pin(&mut connection, IS_DIRECT).await? {
            return Ok((connection, reason));
        }
        if !self.keeps_sessions.load(Ordering::Relaxed) {
            self.check_pooler(&mut connection, options).await?;
        }
        let reason = self.pin(&mut connection, "TRUE").await?.flatten();
        Ok((connection, reason))
    }

    async fn read_only(connection: &mut PgConnection) -> Result<Option<String>, sqlx::Error> {
        Ok(reason(connection.run_together(&format!("SELECT {READ_ONLY}")).await?.into_row()))
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
            // Too many connections; cancelled by our statement_timeout or by an operator; read-only.
            "53300" | "57014" | "25006" => Class::Unavailable,
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

/// Returns what [`READ_ONLY`] says.
fn reason(row: Vec<Value>) -> Option<String> {
    match row.into_iter().next() {
        Some(Value::Text(reason)) => Some(reason),
        _ => None,
    }
}

impl From<PgQueryResult> for Answer {
    fn from(result: PgQueryResult) -> Self {
        Self { matched: result.rows_affected(), ..Self::default() }
    }
}
