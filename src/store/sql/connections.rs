//! A few connections to one database, with a time-out on everything.
//!
//! Not sqlx's pool: that one waits without a bound for a ping when a connection is given back,
//! so a database that freezes, or a host that vanishes, would keep its places taken for as long
//! as the operating system goes on trying; and it answers a refused connection only after the
//! whole time-out.

use std::{
    mem,
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
    time::Duration,
};

use sqlx::{Connection as _, migrate::Migrator};
use tokio::{
    sync::{Semaphore, SemaphorePermit},
    time::{Instant, sleep, sleep_until, timeout},
};

use super::engine::{Arg, Class, Engine, Failure, Value, classify};
use crate::store::StoreError;

/// An unused connection is closed after this time: nodes talk to the store every half minute.
const KEEP_IDLE: Duration = Duration::from_secs(10);
/// A polite closing may take this long.
const CLOSING: Duration = Duration::from_secs(1);
/// How often a statement is tried that others' work made fail.
const MOST_TRIES: u32 = 12;

/// Connections that are opened when needed.
#[derive(Debug)]
pub(super) struct Connections<E: Engine> {
    engine: E,
    places: Semaphore,
    idle: Arc<Mutex<Idle<E::Connection>>>,
    timeout: Duration,
}

struct Idle<C> {
    unused: Vec<(Instant, C)>,
    /// Whether a task is there that closes them in time.
    watched: bool,
}

impl<C> std::fmt::Debug for Idle<C> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Idle").field("unused", &self.unused.len()).finish()
    }
}

/// A connection in use. It is closed for good unless it is given back: after a time-out, an
/// error or a cancelled call nobody knows what it would answer next.
struct Lent<'a, E: Engine> {
    connection: E::Connection,
    idle: &'a Arc<Mutex<Idle<E::Connection>>>,
    _place: SemaphorePermit<'a>,
}

impl<E: Engine> Lent<'_, E> {
    fn give_back(self) {
        let mut idle = lock(self.idle);
        idle.unused.push((Instant::now(), self.connection));
        if !mem::replace(&mut idle.watched, true) {
            tokio::spawn(close_unused(Arc::downgrade(self.idle)));
        }
    }
}

impl<E: Engine> Connections<E> {
    pub(super) fn new(engine: E, most: u32, timeout: Duration) -> Self {
        Self {
            engine,
            places: Semaphore::new(most as usize),
            idle: Arc::new(Mutex::new(Idle { unused: Vec::new(), watched: false })),
            timeout,
        }
    }

    /// Runs a statement; how many rows it matched.
    pub(super) async fn execute(&self, sql: &str, args: &[Arg<'_>]) -> Result<u64, StoreError> {
        self.trying(self.timeout, || async {
            let mut lent = self.lend().await?;
            let answer = E::execute(&mut lent.connection, sql, args).await;
            settle(lent, answer)
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
            let answer = E::fetch(&mut lent.connection, sql, args).await;
            settle(lent, answer)
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
            settle(lent, answer)
        })
        .await
    }

    /// Closes what is idle; what is in use is closed when it comes back.
    pub(super) async fn close(&self) {
        self.places.close();
        let unused = mem::take(&mut lock(&self.idle).unused);
        for (_, connection) in unused {
            let _ = timeout(CLOSING, connection.close()).await;
        }
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

    async fn lend(&self) -> Result<Lent<'_, E>, Failure> {
        let place = self.places.acquire().await;
        let place = place.map_err(|_| StoreError::Unavailable("the store was closed".into()))?;
        let connection = loop {
            let unused = lock(&self.idle).unused.pop();
            match unused {
                // The server may have closed it meanwhile.
                Some((_, mut connection)) => {
                    if connection.ping().await.is_ok() {
                        break connection;
                    }
                }
                None => break self.engine.open().await?,
            }
        };
        Ok(Lent { connection, idle: &self.idle, _place: place })
    }
}

/// Gives the connection back if it can be used further.
fn settle<E: Engine, T>(lent: Lent<'_, E>, answer: Result<T, sqlx::Error>) -> Result<T, Failure> {
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
            Class::Again | Class::Refused => StoreError::Refused(Box::new(error)),
        },
    }
}

/// Closes connections that nobody used for a while; ends when none is left.
async fn close_unused<C: sqlx::Connection>(idle: Weak<Mutex<Idle<C>>>) {
    let mut next = Instant::now() + KEEP_IDLE;
    loop {
        sleep_until(next).await;
        let Some(idle) = idle.upgrade() else { return };
        let now = Instant::now();
        let (due, is_watched) = {
            let mut idle = lock(&idle);
            let is_due = |(since, _): &(Instant, C)| *since + KEEP_IDLE <= now;
            let (due, kept): (Vec<_>, Vec<_>) =
                mem::take(&mut idle.unused).into_iter().partition(is_due);
            next = kept.iter().map(|(since, _)| *since + KEEP_IDLE).min().unwrap_or(next);
            idle.watched = !kept.is_empty();
            idle.unused = kept;
            (due, idle.watched)
        };
        for (_, connection) in due {
            let _ = timeout(CLOSING, connection.close()).await;
        }
        if !is_watched {
            return;
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
