//! Statements on pooled connections, with a time-out on each step.

use std::time::Duration;

use sqlx::{Connection as _, migrate::Migrator};
use tokio::time::{sleep, timeout};

use super::{
    SqlStore,
    engine::{Answer, Class, Engine, Failure, Session as _, classify},
};
use crate::{
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
        let mut checkout = self.checkout().await.map_err(store_error::<E>)?;
        let connection = &mut checkout.connection;
        let tries = async {
            let mut tried = 0;
            loop {
                match connection.run(sql, args).await {
                    Err(error) if is_retried::<E>(&error, &mut tried).await => {}
                    answer => return answer,
                }
            }
        };
        let after = self.settings.timeout;
        let answer = timeout(after, tries).await.map_err(|_| StoreError::TimedOut { after })?;
        match answer.as_ref().err().map(classify::<E>) {
            None | Some(Class::Retry) => checkout.put_back(),
            Some(Class::Unavailable) => checkout.leave_host(),
            Some(_) => {}
        }
        answer.map_err(|error| store_error::<E>(error.into()))
    }

    /// Runs the migrations, on a connection of their own whose end releases every lock.
    pub(super) async fn migrate(&self, migrator: &Migrator, bookkeeping: &str) -> Result<()> {
        let tries = async {
            let mut tried = 0;
            loop {
                match self.try_to_migrate(migrator, bookkeeping).await {
                    Err(Failure::Sql(error)) if is_retried::<E>(&error, &mut tried).await => {}
                    done => return done.map_err(store_error::<E>),
                }
            }
        };
        // Several statements, and other nodes that go first.
        let after = self.settings.timeout * 10;
        timeout(after, tries).await.unwrap_or(Err(StoreError::TimedOut { after }))
    }

    async fn try_to_migrate(&self, migrator: &Migrator, bookkeeping: &str) -> Result<(), Failure> {
        let mut checkout = self.checkout().await?;
        self.pool.connector.migrate(&mut checkout.connection, migrator, bookkeeping).await
    }

    async fn checkout(&self) -> Result<Checkout<'_, E>, Failure> {
        self.pool.connector.check_file()?;
        self.pool.checkout().await
    }
}

/// Whether what failed is tried again, since concurrent work was the cause; pauses before that.
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
