//! PostgreSQL 13+.
//!
//! `docs/guides/store-settings.md` lists the settings that keep acknowledged writes. Those of a
//! session are set here and read back; those of the server are read, and the operator is warned.
//!
//! A pooler in between must keep one server session for each client (`pool_mode = session`),
//! because settings of a session do not hold otherwise; [`Postgres::check_pooler`] refuses others.
//! That check is an aid for operators: safety rests on the statements, each of which compares the
//! session that it was prepared for. The timeline and system identifier of the server are its
//! identity, so a promotion begins an epoch. Tests: tests/store/postgres.rs and poolers.rs.

use std::time::Duration;

use sqlx::{
    Connection as _, Executor as _,
    error::DatabaseError,
    postgres::{PgConnectOptions, PgConnection, PgQueryResult, PgSslMode},
};

use super::{
    engine::{Addressed, Answer, Class, Engine, Failure, RunSql as _, Statements, migrations},
    login::{check_pinned, connect},
    schema::Migrations,
    session::Server,
};
use crate::{
    Failover, Result, StoreError, StoreSettings, TlsMode,
    error::Cause,
    hosts::{self, Hosts, resolvable},
    parameters::{self, Parameters, Target},
    tls::{Protection, is_local},
    value::{Reader, Value, values},
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
        // The host name is checked as well: otherwise an attacker with any certificate of the
        // authority could pose as the server.
        ("verify-ca", TlsMode::Verify),
        ("verify-full", TlsMode::Verify),
    ],
    ca_file: &["sslrootcert", "ssl-root-cert", "ssl-ca"],
};

/// The settings that change what a statement means, whether it takes place and whether it lasts, as
/// names with values; servers, databases and roles may have others. With them, no time-out but ours
/// ends a statement, and a row that a policy hides is an error. `{statement}` and `{lock}` stand
/// for time-outs. Not every version has every setting.
const PINS: &str = "(VALUES ('synchronous_commit', CASE current_setting('synchronous_commit') \
     WHEN 'remote_apply' THEN 'remote_apply' ELSE 'on' END), \
     ('client_min_messages', 'warning'), ('default_transaction_deferrable', 'off'), \
     ('default_transaction_isolation', 'read committed'), ('extra_float_digits', '1'), \
     ('idle_in_transaction_session_timeout', '0'), ('row_security', 'off'), \
     ('standard_conforming_strings', 'on'), ('transaction_timeout', '0'), \
     ('transform_null_equals', 'off'), ('statement_timeout', '{statement}'), \
     ('lock_timeout', '{lock}')) AS pins (name, wanted)";

/// True if the server itself has read what sqlx sends when it connects. A pooler opens its own
/// sessions, and applies there what its clients request.
const IS_DIRECT: &str =
    "EXISTS (SELECT 1 FROM pg_settings WHERE name = 'DateStyle' AND source = 'client')";

/// How to connect to one database.
pub(crate) struct Postgres {
    /// The options of each host.
    options: Vec<PgConnectOptions>,
    protection: Protection,
    timeout: Duration,
    /// The statement that returns the identity of the server's history.
    history: String,
    sql: Statements,
}

impl Postgres {
    /// Sets and reads back the settings of a session in one round trip, if `condition` shows that
    /// the session is this connection's only: a pooler would pass them on to other clients. Returns
    /// the facts about the server; `None` if the condition is not met.
    async fn set_up(
        &self,
        connection: &mut PgConnection,
        condition: &str,
    ) -> Result<Option<Server>, Failure> {
        let statement = self.timeout.as_millis().max(2);
        // Shorter than the statement's time-out, which would otherwise always end the wait first.
        let lock = (self.timeout.as_millis() / 2).max(1);
        let pins = PINS.replace("{statement}", &statement.to_string());
        let pins = pins.replace("{lock}", &lock.to_string());
        let (facts, history) = (&self.sql["facts"], &self.history);
        let sql = format!(
            "SELECT COUNT(set_config(name, wanted, FALSE)), COUNT(set_config('raindrop.session', \
             CAST(pg_backend_pid() AS TEXT), FALSE)) FROM {pins} JOIN pg_settings USING (name) \
             WHERE {condition}; \
             SELECT name, setting, wanted FROM {pins} JOIN pg_settings USING (name) \
             WHERE {condition}; {facts}; {history}"
        );
        let rows = connection.run_together(&sql).await?.rows;
        let (settings, facts): (Vec<_>, Vec<_>) =
            rows.into_iter().skip(1).partition(|row| row.len() == 3);
        if settings.is_empty() {
            return Ok(None);
        }
        check_pinned(&settings)?;
        match &facts.concat()[..] {
            [_, Value::Text(reason), ..] => Err(StoreError::AcceptsNoWrites(reason.clone()).into()),
            [Value::Text(session), Value::Null, Value::Text(identity)] => {
                Ok(Some(Server { session: session.clone(), identity: identity.clone() }))
            }
            other => {
                let reason = format!("the server does not say which one it is: {other:?}");
                Err(StoreError::Refused(reason.into()).into())
            }
        }
    }

    /// Refuses a pooler that assigns a server session to each transaction or statement. Such a
    /// pooler lets other clients use a session that is idle, which this provokes with a second
    /// connection.
    async fn check_pooler(
        &self,
        first: &mut PgConnection,
        options: &PgConnectOptions,
    ) -> Result<(), Failure> {
        let before = backend_of(first).await?;
        let refuse =
            |seen: String| Err(pooled(&format!("{seen}; pg_backend_pid was {before}")).into());
        let moved = |other: &str| {
            format!("two statements of one session ran in different server sessions ({other})")
        };
        let other = backend_of(first).await?;
        if other != before {
            return refuse(moved(&other));
        }
        let seen = async {
            let Ok(mut second) = connect(options, self.protection).await else { return Ok(None) };
            if backend_of(&mut second).await? == before {
                return Ok(Some("two sessions ran in one server session".to_owned()));
            }
            // Keeps the server session that it gets, whichever is free first, until its transaction
            // ends.
            if let Err(error) = second.execute("BEGIN").await {
                return Ok(Some(error.to_string()));
            }
            let others = [backend_of(first).await?, backend_of(first).await?];
            let _ = second.close().await;
            Ok::<_, Failure>(others.iter().find(|other| **other != before).map(|it| moved(it)))
        };
        // A pooler whose sessions are all in use has none for the second connection. So a time-out
        // proves nothing, and every write compares its session anyway.
        match tokio::time::timeout(self.timeout, seen).await {
            Ok(seen) => seen?.map_or(Ok(()), refuse),
            Err(_) => Ok(()),
        }
    }
}

/// Returns the server session in which a statement runs.
async fn backend_of(connection: &mut PgConnection) -> Result<String, Failure> {
    let row = connection.run_together("SELECT pg_backend_pid()").await?.into_row();
    Ok(Reader::new("session", "", row).get("pid")?)
}

impl Engine for Postgres {
    type Connection = PgConnection;

    const QUOTE: char = '"';
    const SQL: &'static str = include_str!("postgres.sql");
    const CLOCK_IS_LOCAL: bool = false;
    migrations!("postgres");

    fn new(settings: &StoreSettings, sql: &Statements) -> Result<Addressed<Self>> {
        let Target { url, tls, ca_file } = parameters::read(settings, &PARAMETERS)?;
        let mut options: Vec<PgConnectOptions> =
            hosts::parse(settings, &url, &["host", "hostaddr", "port"])?;
        if options.iter().any(|options| options.get_database().is_none()) {
            let reason = "it names no database, as in postgres://user@host/database";
            return Err(settings.unusable(reason));
        }
        let is_local =
            options.iter().all(|it| it.get_socket().is_some() || is_local(it.get_host()));
        // If the URL has no such parameter, sqlx took PGSSLMODE, which holds for every host.
        let mode = tls.unwrap_or(match options.first().map(PgConnectOptions::get_ssl_mode) {
            Some(PgSslMode::VerifyFull | PgSslMode::VerifyCa) => TlsMode::Verify,
            Some(PgSslMode::Require) => TlsMode::Require,
            Some(PgSslMode::Prefer | PgSslMode::Allow) | None => TlsMode::Prefer,
            Some(PgSslMode::Disable) => TlsMode::Off,
        });
        for options in &mut options {
            let host = resolvable(options.get_host()).to_owned();
            // PgBouncer refuses a client that sends this parameter.
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
        let (protection, timeout) = (Protection { mode, is_local }, settings.timeout);
        // Read only if it is compared: some databases with PostgreSQL's protocol cannot report it.
        let history = match settings.failover {
            Failover::Auto => sql["history"].clone(),
            Failover::Lossless => "SELECT ''".to_owned(),
        };
        let engine = Self { options, protection, timeout, history, sql: sql.clone() };
        Ok(Addressed { engine, hosts, is_verified: protection.is_verified() })
    }

    async fn open(&self, host: usize) -> Result<(PgConnection, Server), Failure> {
        let options = &self.options[host];
        let mut connection = connect(options, self.protection).await?;
        if let Some(server) = self.set_up(&mut connection, IS_DIRECT).await? {
            return Ok((connection, server));
        }
        // For each connection, because a pooler can be reconfigured while it runs.
        self.check_pooler(&mut connection, options).await?;
        let server = self.set_up(&mut connection, "TRUE").await?;
        let server = server.ok_or_else(|| pooled("settings are not set"))?;
        Ok((connection, server))
    }

    async fn migrate(
        &self,
        connection: &mut PgConnection,
        migrations: &Migrations,
    ) -> Result<(), Failure> {
        // One node after the other, so that they do not all try to create the tables. The session's
        // lock_timeout bounds the wait, which is then retried. The end of the connection releases
        // the lock.
        connection.run(&self.sql["lock_migrations"], &values![&migrations.bookkeeping]).await?;
        migrations.apply(connection).await
    }

    /// Leaves out the server's source line.
    fn text(error: &dyn DatabaseError) -> String {
        error.message().to_owned()
    }

    fn class(error: &dyn DatabaseError) -> Class {
        let code = error.code().unwrap_or_default();
        match &*code {
            // Serialization failure, deadlock, lock wait, table or index created by another node.
            "40001" | "40P01" | "55P03" | "42P07" | "42710" => Class::Retry,
            // Too many connections; cancelled by statement_timeout or by an operator; read-only.
            "53300" | "57014" | "25006" => Class::Unavailable,
            // Connection failures, system errors, shutting down or starting up.
            code if ["08", "58", "57P0"].iter().any(|class| code.starts_with(class)) => {
                Class::Unavailable
            }
            // No such table.
            "42P01" => Class::Vanished,
            // A prepared statement exists already, or does not exist.
            "42P05" | "26000" => Class::OtherSession,
            // Unknown user or refused by pg_hba.conf, wrong password, missing privilege.
            "28000" | "28P01" | "42501" => Class::RefusedFor(Cause::AccessDenied),
            // Disk full.
            "53100" => Class::RefusedFor(Cause::NoSpace),
            _ => Class::Refused,
        }
    }
}

/// Returns the error for a pooler that gives each transaction another server session.
fn pooled(seen: &str) -> StoreError {
    StoreError::Unusable(format!(
        "a pooler in transaction mode stands between: {seen}. Settings of a session do not hold \
         there: use session mode (pool_mode = session), or the database's own port"
    ))
}

impl From<PgQueryResult> for Answer {
    fn from(result: PgQueryResult) -> Self {
        Self { matched: result.rows_affected(), ..Self::default() }
    }
}
