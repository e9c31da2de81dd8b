//! A few connections to one server, opened when needed and closed when unused.
//!
//! Not a pool of the drivers': sqlx's waits without a bound for a ping when a connection is given
//! back, so a database that freezes, or a host that vanishes, would keep its places taken for as
//! long as the operating system goes on trying; and it answers a refused connection only after
//! the whole time-out. Whoever uses this one sets a time-out around everything.

use std::{
    fmt, mem,
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
    time::Duration,
};

use tokio::{
    sync::{Semaphore, SemaphorePermit},
    time::{Instant, sleep_until, timeout},
};

use super::StoreError;

/// An unused connection is closed after this time: nodes talk to the store every half minute.
const KEEP_IDLE: Duration = Duration::from_secs(10);
/// A polite closing may take this long.
const CLOSING: Duration = Duration::from_secs(1);

/// A connection that can be kept.
pub(super) trait Pooled: Send + 'static {
    /// Whether the server still answers on it.
    fn is_alive(&mut self) -> impl Future<Output = bool> + Send;

    /// Takes leave of the server.
    fn close(self) -> impl Future<Output = ()> + Send;
}

/// Connections, at most so many at once.
pub(super) struct Pool<C> {
    places: Semaphore,
    idle: Arc<Mutex<Idle<C>>>,
}

struct Idle<C> {
    unused: Vec<(Instant, C)>,
    /// Whether a task is there that closes them in time.
    watched: bool,
}

/// A connection in use. It is closed for good unless it is given back: after a time-out, an
/// error or a cancelled call nobody knows what it would answer next.
pub(super) struct Lent<'a, C> {
    pub(super) connection: C,
    idle: &'a Arc<Mutex<Idle<C>>>,
    _place: SemaphorePermit<'a>,
}

impl<C> fmt::Debug for Pool<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pool").field("unused", &lock(&self.idle).unused.len()).finish()
    }
}

impl<C: Pooled> Lent<'_, C> {
    pub(super) fn give_back(self) {
        let mut idle = lock(self.idle);
        idle.unused.push((Instant::now(), self.connection));
        if !mem::replace(&mut idle.watched, true) {
            tokio::spawn(close_unused(Arc::downgrade(self.idle)));
        }
    }
}

impl<C: Pooled> Pool<C> {
    pub(super) fn new(most: u32) -> Self {
        Self {
            places: Semaphore::new(most as usize),
            idle: Arc::new(Mutex::new(Idle { unused: Vec::new(), watched: false })),
        }
    }

    /// A connection that was kept, or a new one; waits while all are in use.
    pub(super) async fn lend<E, F>(&self, open: impl FnOnce() -> F) -> Result<Lent<'_, C>, E>
    where
        E: From<StoreError>,
        F: Future<Output = Result<C, E>>,
    {
        let place = self.places.acquire().await;
        let place = place.map_err(|_| StoreError::Unavailable("the store was closed".into()))?;
        let connection = loop {
            let unused = lock(&self.idle).unused.pop();
            match unused {
                // The server may have closed it meanwhile.
                Some((_, mut connection)) => {
                    if connection.is_alive().await {
                        break connection;
                    }
                }
                None => break open().await?,
            }
        };
        Ok(Lent { connection, idle: &self.idle, _place: place })
    }

    /// Closes what is idle; what is in use is closed when it comes back.
    pub(super) async fn close(&self) {
        self.places.close();
        let unused = mem::take(&mut lock(&self.idle).unused);
        for (_, connection) in unused {
            let _ = timeout(CLOSING, connection.close()).await;
        }
    }
}

/// Closes connections that nobody used for a while; ends when none is left.
async fn close_unused<C: Pooled>(idle: Weak<Mutex<Idle<C>>>) {
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
            // A task of its own, so that a panic of the driver does not end this one.
            let _ = tokio::spawn(timeout(CLOSING, connection.close())).await;
        }
        if !is_watched {
            return;
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
