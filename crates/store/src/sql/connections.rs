//! Runs statements on pooled connections, with a time-out on each step.
//!
//! Only errors of concurrent work are retried here, after which the statement certainly left
//! nothing behind ([`Class::Retry`]). After any other error, or a time-out, the outcome is unknown;
//! the caller finds it out by reading the row's token.
//!
//! [`SqlStore::write`] is for statements that compare the session for which they were prepared. If
//! such a statement matched no row, it checks whether the session has changed: then the session is
//! to blame, and not the row. Tests: tests/store/sessions.rs, poolers.rs, slow.rs and outage.rs.

use std::{error::Error, time::Duration};

use sqlx::Connection as _;
use tokio::time::{Instant, sleep, timeout};

use super::{
    SqlStore,
    engine::{Addressed, Answer, Class, Engine, Failure, RunSql as _, Statements, classify},
    schema::Migrations,
    session::{Server, Session},
};
use crate::{
    Failover, Result, StoreError, StoreSettings,
    hosts::{Connector, Hosts},
    pool::Checkout,
    renewed::Renewed,
    value::{Reader, Value},
    with_sources,
};

/// The most attempts of a statement that fails because of concurrent work.
const TRIES_MAX: u32 = 12;

/// Retries an attempt that fails because of concurrent work.
macro_rules! retried {
    ($engine:ty, $attempt:expr) => {{
        let mut tried = 0;
        loop {
            match $attempt {
                Err(Failure::Sql(error)) if is_retried::<$engine>(&error, &mut tried).await => {}
                done => break done,
            }
        }
    }};
}

/// Opens the sessions of a store.
pub(super) struct Sessions<E> {
    pub(super) address: Addressed<E>,
    failover: Failover,
    /// The age at which a session is set up again.
    max: Duration,
    sql: Statements,
}

impl<E: Engine> Sessions<E> {
    pub(super) fn new(settings: &StoreSettings, sql: &Statements) -> Result<Self> {
        let StoreSettings { failover, session_max: max, .. } = *settings;
        Ok(Self { address: E::new(settings, sql)?, failover, max, sql: sql.clone() })
    }

    /// Checks that statements still run in the session that was set up.
    async fn check(&self, session: &mut Session<E::Connection>) -> Result<(), Failure> {
        let row = session.connection.run_together(&self.sql["session"]).await?.into_row();
        let found: String = Reader::new("session", "", row).get("session")?;
        Ok(session.server.check_session(&found)?)
    }
}

impl<E: Engine> Connector for Sessions<E> {
    type Connection = Session<E::Connection>;

    fn hosts(&self) -> &Hosts {
        &self.address.hosts
    }

    async fn open(&self, host: usize) -> Result<Self::Connection> {
        let opened = retried!(E, {
            let until = Instant::now() + self.max;
            self.address.engine.open(host).await.map(|opened| (until, opened))
        });
        let (until, (connection, mut server)) = opened.map_err(store_error::<E>)?;
        if self.failover == Failover::Lossless {
            server.identity.clear();
        }
        Ok(Session { connection, server, until })
    }

    async fn is_alive(&self, session: &mut Self::Connection) -> bool {
        Instant::now() < session.until && self.check(session).await.is_ok()
    }

    async fn close(session: Self::Connection) {
        // An error is harmless: the connection is closed in either case.
        let _ = session.connection.close().await;
    }
}

impl<E: Engine> SqlStore<E> {
    /// Runs a statement that only reads, and returns its rows.
    pub(super) async fn read(&self, sql: &str, args: &[Value]) -> Result<Vec<Vec<Value>>> {
        Ok(self.read_on(sql, |_| args.to_vec()).await?.0.rows)
    }

    /// Like [`Self::read`], with arguments that depend on the session; returns the session's
    /// server, too.
    pub(super) async fn read_on(
        &self,
        sql: &str,
        args: impl FnOnce(&Server) -> Vec<Value>,
    ) -> Result<(Answer, Server)> {
        let mut checkout = self.checkout().await?;
        let server = checkout.connection.server.clone();
        let answer = self.run(&mut checkout, sql, &args(&server)).await;
        Ok((finish(checkout, answer)?, server))
    }

    /// Runs a statement that writes, and that compares the session which it is sent through. If it
    /// wrote nothing, fails if the session has changed.
    pub(super) async fn write(
        &self,
        sql: &str,
        args: impl FnOnce(&Server) -> Vec<Value>,
    ) -> Result<Answer> {
        let mut checkout = self.checkout().await?;
        let args = args(&checkout.connection.server);
        let mut answer = self.run(&mut checkout, sql, &args).await;
        if answer.as_ref().is_ok_and(|answer| answer.matched == 0) {
            let check = self.pool.connector.first.check(&mut checkout.connection);
            answer = self.in_time(check).await.and(answer);
        }
        finish(checkout, answer)
    }

    async fn run(
        &self,
        checkout: &mut Checkout<'_, Renewed<Sessions<E>>>,
        sql: &str,
        args: &[Value],
    ) -> Result<Answer, Failure> {
        let connection = &mut checkout.connection.connection;
        let run = async { retried!(E, connection.run(sql, args).await.map_err(Failure::Sql)) };
        self.in_time(run).await
    }

    /// Waits for a statement, at most for the time-out.
    async fn in_time<T>(
        &self,
        statement: impl Future<Output = Result<T, Failure>>,
    ) -> Result<T, Failure> {
        let after = self.settings.timeout;
        let answer = timeout(after, statement).await;
        answer.unwrap_or_else(|_| Err(StoreError::TimedOut { after }.into()))
    }

    /// Runs the migrations on a connection of their own. Closing it releases every lock.
    pub(super) async fn migrate(&self, migrations: &Migrations) -> Result<()> {
        let tries =
            async { retried!(E, self.try_to_migrate(migrations).await).map_err(store_error::<E>) };
        // Longer: these are several statements, and other nodes may go first.
        let after = self.settings.timeout * 10;
        timeout(after, tries).await.unwrap_or(Err(StoreError::TimedOut { after }))
    }

    async fn try_to_migrate(&self, migrations: &Migrations) -> Result<(), Failure> {
        let mut checkout = self.checkout().await?;
        self.engine().migrate(&mut checkout.connection.connection, migrations).await
    }

    async fn checkout(&self) -> Result<Checkout<'_, Renewed<Sessions<E>>>> {
        self.engine().check_file()?;
        self.pool.checkout().await
    }

    pub(super) fn engine(&self) -> &E {
        &self.pool.connector.first.address.engine
    }
}

/// Puts a connection back after a statement, unless its next response may belong to this one.
fn finish<E: Engine>(
    checkout: Checkout<'_, Renewed<Sessions<E>>>,
    answer: Result<Answer, Failure>,
) -> Result<Answer> {
    match &answer {
        Ok(_) => checkout.put_back(),
        Err(Failure::Sql(error)) => match classify::<E>(error) {
            Class::Retry => checkout.put_back(),
            Class::Unavailable => checkout.leave_host(),
            _ => {}
        },
        Err(Failure::Store(error)) if error.is_of_server() => checkout.leave_host(),
        Err(Failure::Store(_)) => {}
    }
    answer.map_err(store_error::<E>)
}

/// Returns whether to try again after an error of concurrent work, and pauses before that.
async fn is_retried<E: Engine>(error: &sqlx::Error, tried: &mut u32) -> bool {
    *tried += 1;
    let is_retried = *tried < TRIES_MAX && classify::<E>(error) == Class::Retry;
    if is_retried {
        let most = 4_u64 << (*tried).min(6);
        sleep(Duration::from_millis(rand::random_range(1..=most))).await;
    }
    is_retried
}

fn store_error<E: Engine>(failure: Failure) -> StoreError {
    let error = match failure {
        Failure::Store(error) => return error,
        Failure::Sql(error) => error,
    };
    let class = classify::<E>(&error);
    let error: Box<dyn Error + Send + Sync> = match error {
        sqlx::Error::Database(error) => format!("the database says: {}", E::text(&*error)).into(),
        error => error.into(),
    };
    match class {
        Class::Unavailable => StoreError::unavailable(error),
        Class::Vanished => {
            StoreError::Vanished(format!("a table is not in the store: {}", with_sources(&*error)))
        }
        #[cfg(any(feature = "mysql", feature = "postgres"))]
        Class::OtherSession => super::session::other_session(&with_sources(&*error)),
        Class::RefusedFor(cause) => StoreError::refused_for(cause, error),
        Class::Retry | Class::Refused => StoreError::Refused(error),
    }
}
