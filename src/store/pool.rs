//! A few connections to one server, opened when needed and closed when unused.
//!
//! It sets no time-outs: callers set one around the whole call.
//!
//! Why not another pool: when a connection is returned, sqlx's waits for a ping without a bound, so a
//! frozen database keeps its permits; and it reports a refused connection only after the whole
//! time-out. deadpool reuses the connection of a cancelled call, whose next answer nobody can know,
//! and never closes idle ones.

use std::{
    mem,
    sync::{Arc, Mutex, MutexGuard, Once, PoisonError, Weak},
    time::Duration,
};

use tokio::{
    sync::{Semaphore, SemaphorePermit},
    time::{Instant, sleep, timeout},
};

use super::StoreError;

/// An idle connection is closed after this time: nodes talk to the store every half minute.
const IDLE_MAX: Duration = Duration::from_secs(10);
/// How often the pool looks for such connections.
const IDLE_CHECK: Duration = Duration::from_secs(1);
/// How long closing a connection may take.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(1);

/// Opens and closes the connections to one server.
pub(super) trait Connector: Send + Sync + 'static {
    /// A connection.
    type Connection: Send + 'static;
    /// Why a connection cannot be opened.
    type Error: From<StoreError> + Send;

    /// Opens a connection.
    fn open(&self) -> impl Future<Output = Result<Self::Connection, Self::Error>> + Send;

    /// Whether the server still answers on a connection.
    fn is_alive(connection: &mut Self::Connection) -> impl Future<Output = bool> + Send;

    /// Closes a connection and tells the server so.
    fn close(connection: Self::Connection) -> impl Future<Output = ()> + Send;
}

/// At most a fixed number of connections.
pub(super) struct Pool<C: Connector> {
    pub(super) connector: C,
    permits: Semaphore,
    idle: Arc<Idle<C>>,
    reaper: Once,
}

/// The idle connections, each with the time when it was put back.
type Idle<C> = Mutex<Vec<(Instant, <C as Connector>::Connection)>>;

/// A connection in use. It is dropped unless it is put back: after a time-out, an error or a
/// cancelled call nobody knows what it would answer next.
pub(super) struct Checkout<'a, C: Connector> {
    pub(super) connection: C::Connection,
    idle: &'a Idle<C>,
    _permit: SemaphorePermit<'a>,
}

impl<C: Connector> Checkout<'_, C> {
    /// Returns the connection to the pool.
    pub(super) fn put_back(self) {
        lock(self.idle).push((Instant::now(), self.connection));
    }
}

impl<C: Connector> Pool<C> {
    pub(super) fn new(connector: C, max_connections: u32) -> Self {
        let permits = Semaphore::new(max_connections as usize);
        Self { connector, permits, idle: Arc::default(), reaper: Once::new() }
    }

    /// Takes an idle connection or opens one; waits while all are in use.
    pub(super) async fn checkout(&self) -> Result<Checkout<'_, C>, C::Error> {
        self.reaper.call_once(|| drop(tokio::spawn(close_idle::<C>(Arc::downgrade(&self.idle)))));
        let permit = self.permits.acquire().await;
        let permit = permit.map_err(|_| StoreError::Unavailable("the store was closed".into()))?;
        let connection = loop {
            let idle = lock(&self.idle).pop();
            match idle {
                // The server may have closed it meanwhile.
                Some((_, mut connection)) => {
                    if C::is_alive(&mut connection).await {
                        break connection;
                    }
                }
                None => break self.connector.open().await?,
            }
        };
        Ok(Checkout { connection, idle: &self.idle, _permit: permit })
    }

    /// Closes the idle connections and hands out no more.
    pub(super) async fn close(&self) {
        self.permits.close();
        let idle = mem::take(&mut *lock(&self.idle));
        for (_, connection) in idle {
            let _ = timeout(CLOSE_TIMEOUT, C::close(connection)).await;
        }
    }
}

/// Closes connections that nobody used for a while; ends with the pool.
async fn close_idle<C: Connector>(idle: Weak<Idle<C>>) {
    loop {
        sleep(IDLE_CHECK).await;
        let Some(idle) = idle.upgrade() else { return };
        let is_unused = |(since, _): &mut (Instant, _)| since.elapsed() >= IDLE_MAX;
        let unused: Vec<_> = lock(&idle).extract_if(.., is_unused).collect();
        for (_, connection) in unused {
            // In a task of its own, so that a panic of the driver does not end this one.
            tokio::spawn(timeout(CLOSE_TIMEOUT, C::close(connection)));
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
