//! Statements on pooled connections, with a time-out on everything.

use std::time::Duration;

use sqlx::migrate::Migrator;
use tokio::time::{sleep, timeout};

use super::engine::{Arg, Class, Engine, Failure, Statements as _, classify};
use crate::store::{
    StoreError,
    pool::{Lent, Pool, Pooled},
    value::Value,
    with_sources,
};

/// How often a statement is tried that others' work made fail.
const MOST_TRIES: u32 = 12;

/// Connections that are opened when needed.
#[derive(Debug)]
pub(super) struct Connections<E: Engine> {
    engine: E,
    pool: Pool<E::Connection>,
    timeout: Duration,
}

impl<C: sqlx::Connection + Send + 'static> Pooled for C {
    async fn is_alive(&mut self) -> bool {
        self.ping().await.is_ok()
    }

    async fn close(self) {
        // It is over in either case.
        let _ = sqlx::Connection::close(self).await;
    }
}

impl<E: Engine> Connections<E> {
    pub(super) fn new(engine: E, most: u32, timeout: Duration) -> Self {
        Self { engine, pool: Pool::new(most), timeout }
    }

    pub(super) const fn engine(&self) -> &E {
        &self.engine
    }

    /// Runs a statement; how many rows it matched.
    pub(super) async fn execute(&self, sql: &str, args: &[Arg<'_>]) -> Result<u64, StoreError> {
        self.trying(self.timeout, || async {
            let mut lent = self.lend().await?;
            let answer = lent.connection.run(sql, args).await;
            settle::<E, _>(lent, answer)
        })
        .await
    }

    /// Runs a query; its rows.
    pub(super) async fn fetch(
        &self,
        sql: &str,
        args: &[Arg<'_>],
    ) -> Result<Vec<Vec<Value>>, StoreError> {
        self.trying(self.timeout, || async {
            let mut lent = self.lend().await?;
            let answer = lent.connection.rows(sql, args).await;
            settle::<E, _>(lent, answer)
        })
        .await
    }

    /// Runs the migrations, on a connection of their own whose end releases every lock.
    pub(super) async fn migrate(
        &self,
        migrator: &Migrator,
        bookkeeping: &str,
    ) -> Result<(), StoreError> {
        // Several statements, and other nodes that go first.
        self.trying(self.timeout * 10, || async {
            let mut lent = self.lend().await?;
            self.engine.migrate(&mut lent.connection, migrator, bookkeeping).await
        })
        .await
    }

    /// Settings under which acknowledged writes may be lost.
    pub(super) async fn durability_warnings(&self) -> Result<Vec<String>, StoreError> {
        self.trying(self.timeout, || async {
            let mut lent = self.lend().await?;
            let answer = E::durability_warnings(&mut lent.connection).await;
            settle::<E, _>(lent, answer)
        })
        .await
    }

    /// Closes what is idle; what is in use is closed when it comes back.
    pub(super) async fn close(&self) {
        self.pool.close().await;
    }

    /// Tries until the work is done, cannot be done, or the time is over. Cancelled work drops
    /// its connection.
    async fn trying<T, F>(&self, limit: Duration, work: impl Fn() -> F) -> Result<T, StoreError>
    where
        F: Future<Output = Result<T, Failure>>,
    {
        let tries = async {
            for attempt in 1..MOST_TRIES {
                match work().await {
                    Err(Failure::Sql(error)) if classify::<E>(&error) == Class::Again => {
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

    async fn lend(&self) -> Result<Lent<'_, E::Connection>, Failure> {
        self.engine.check_place()?;
        self.pool.lend(|| self.engine.open()).await
    }
}

/// Gives the connection back if it can be used further.
fn settle<E: Engine, T>(
    lent: Lent<'_, E::Connection>,
    answer: Result<T, sqlx::Error>,
) -> Result<T, Failure> {
    if answer.as_ref().err().is_none_or(|error| classify::<E>(error) == Class::Again) {
        lent.give_back();
    }
    Ok(answer?)
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
            Class::Again | Class::Refused => StoreError::Refused(Box::new(error)),
        },
    }
}
