//! Statements on pooled connections, with a time-out on everything.

use std::time::Duration;

use sqlx::{Connection as _, migrate::Migrator};
use tokio::time::{Instant, sleep, timeout};

use super::{
    SqlStore,
    engine::{Answer, Class, Engine, Failure, Session as _, classify},
};
use crate::store::{
    Result, StoreError,
    hosts::{Connector, Hosts, accepts_no_writes},
    pool::Checkout,
    value::Value,
    with_sources,
};

/// How often a statement is tried that fails because of concurrent work.
const TRIES_MAX: u32 = 12;

impl<E: Engine> Connector for E {
    type Connection = E::Connection;
    type Error = Failure;

    fn hosts(&self) -> &Hosts {
        Engine::hosts(self)
    }

    async fn open(&self, host: usize) -> Result<E::Connection, Failure> {
        let (connection, read_only) = Engine::open(self, host).await?;
        let Some(reason) = read_only else { return Ok(connection) };
        // So that the server does not log a broken connection.
        let _ = connection.close().await;
        Err(accepts_no_writes(reason).into())
    }

    fn unavailable(failure: &Failure) -> Option<String> {
        match failure {
            Failure::Store(StoreError::Unavailable(reason)) => Some(with_sources(&**reason)),
            Failure::Sql(error) if classify::<E>(error) == Class::Unavailable => {
                Some(with_sources(error))
            }
            _ => None,
        }
    }

    async fn is_alive(connection: &mut E::Connection) -> bool {
        matches!(E::read_only(connection).await, Ok(None))
    }

    async fn close(connection: E::Connection) {
        // It is closed in either case.
        let _ = connection.close().await;
    }
}

impl<E: Engine> SqlStore<E> {
    /// Runs a statement whose placeholders such as `{worker}` are filled.
    pub(super) async fn execute(&self, sql: &str, args: &[Value]) -> Result<Answer> {
        let deadline = Instant::now() + self.settings.timeout;
        self.retry(self.settings.timeout, || async {
            let mut checkout = self.checkout(deadline).await?;
            let answer = checkout.connection.run(sql, args).await;
            match answer.as_ref().err().map(classify::<E>) {
                None | Some(Class::Retry) => checkout.put_back(),
                Some(Class::Unavailable) => checkout.leave_host(),
                Some(_) => {}
            }
            Ok(answer?)
        })
        .await
    }

    /// Runs the migrations, on a connection of their own whose end releases every lock.
    pub(super) async fn migrate(&self, migrator: &Migrator, bookkeeping: &str) -> Result<()> {
        // Several statements, and other nodes that go first.
        self.retry(self.settings.timeout * 10, || async {
            let mut checkout = self.checkout(Instant::now() + self.settings.timeout).await?;
            self.pool.connector.migrate(&mut checkout.connection, migrator, bookkeeping).await
        })
        .await
    }

    /// Retries work that failed because of concurrent work, until the time is over. Cancelled work
    /// drops its connection.
    async fn retry<T, F>(&self, limit: Duration, work: impl Fn() -> F) -> Result<T>
    where
        F: Future<Output = Result<T, Failure>>,
    {
        let tries = async {
            for attempt in 1..TRIES_MAX {
                match work().await {
                    Err(Failure::Sql(error)) if classify::<E>(&error) == Class::Retry => {
                        let most = 4_u64 << attempt.min(6);
                        sleep(Duration::from_millis(rand::random_range(1..=most))).await;
                    }
                    outcome => return outcome,
                }
            }
            work().await
        };
        match timeout(limit, tries).await {
            Ok(outcome) => outcome.map_err(store_error::<E>),
            Err(_) => Err(StoreError::TimedOut { after: limit }),
        }
    }

    async fn checkout(&self, deadline: Instant) -> Result<Checkout<'_, E>, Failure> {
        self.pool.connector.check_file()?;
        self.pool.checkout(deadline).await
    }
}

fn store_error<E: Engine>(failure: Failure) -> StoreError {
    match failure {
        Failure::Store(error) => error,
        Failure::Sql(error) => match classify::<E>(&error) {
            Class::Unavailable => StoreError::Unavailable(Box::new(error)),
            Class::Vanished => StoreError::Vanished(format!(
                "a table is not in the store: {}",
                with_sources(&error)
            )),
            Class::Retry | Class::Refused => StoreError::Refused(Box::new(error)),
        },
    }
}
