//! PostgreSQL 13+.
//!
//! `docs/operations.md` lists the settings that keep acknowledged writes. Those that a session can
//! have are set, so a pooler in between must keep one session for each client
//! (`pool_mode = session`); the server's are read and warned about.

use std::time::Duration;

use sqlx::{
    error::DatabaseError,
    migrate::Migrator,
    postgres::{PgConnectOptions, PgConnection, PgQueryResult, PgSslMode},
};

use super::{
    engine::{
        Answer, Class, Dialect, Engine, Failure, ON_CONFLICT_RAISE, Session as _, migrations,
    },
    guard::{self, Login, Step},
    schema,
};
use crate::store::{
    Result, StoreError, StoreSettings, TlsMode,
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

/// How to connect to one database.
pub(in crate::store) struct Postgres {
    hosts: Hosts,
    /// For each host.
    options: Vec<PgConnectOptions>,
    protection: Protection,
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
        server: "CASE WHEN pg_is_in_recovery() THEN NULL ELSE (SELECT 'system ' || \
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
            *options = options.clone().host(&host).ssl_mode(match mode {
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
        Ok(Self { hosts, options, protection, timeout: settings.timeout })
    }

    fn hosts(&self) -> &Hosts {
        &self.hosts
    }

    fn is_verified(&self) -> bool {
        self.protection.is_verified()
    }

    async fn open(&self, host: usize) -> Result<(PgConnection, Option<String>), Failure> {
        let options = &self.options[host];
        let server = (options.get_host(), options.get_port());
        let mut connection =
            guard::connect(PostgresLogin, options, self.protection, server).await?;
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
        let sql = format!("SELECT {READ_ONLY}, current_setting('synchronous_commit')");
        let mut row = connection.run(&sql, &[]).await?.into_row();
        match row.pop() {
            Some(Value::Text(commit)) if commit == "on" || commit == "remote_apply" => {
                Ok((connection, reason(row)))
            }
            other => Err(StoreError::Unusable(format!(
                "the database cannot be made durable: synchronous_commit should be on but is \
                 {other:?}"
            ))
            .into()),
        }
    }

    async fn read_only(connection: &mut PgConnection) -> Result<Option<String>, sqlx::Error> {
        Ok(reason(connection.run(&format!("SELECT {READ_ONLY}"), &[]).await?.into_row()))
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

/// A login to PostgreSQL: messages until the server is ready for a query.
pub(super) struct PostgresLogin;

impl Login for PostgresLogin {
    type Connection = PgConnection;
    type Options = PgConnectOptions;
    const HEADER: usize = 5;

    fn through(options: &PgConnectOptions, port: u16) -> PgConnectOptions {
        options.clone().host("127.0.0.1").port(port).ssl_mode(PgSslMode::Disable)
    }

    fn length(header: &[u8]) -> Option<usize> {
        let [_, length @ ..] = header else { return None };
        // The length counts itself.
        (u32::from_be_bytes(length.try_into().ok()?) as usize).checked_sub(length.len())
    }

    fn judge(&mut self, message: &[u8]) -> Step {
        const CLEAR_TEXT: [u8; 4] = 3_u32.to_be_bytes();
        match (message[0], &message[Self::HEADER..]) {
            (b'R', method) if method.starts_with(&CLEAR_TEXT) => Step::Refuse,
            (b'Z', _) => Step::LoggedIn,
            _ => Step::PassOn,
        }
    }
}
