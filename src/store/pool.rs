//! A few connections to the server that accepts writes, opened when needed and closed when unused.
//!
//! Callers set a time-out around the whole call, and pass its end so that several hosts can share the
//! time.
//!
//! Why not another pool: when a connection is returned, sqlx's waits for a ping without a bound, so a
//! frozen database keeps its permits; and it reports a refused connection only after the whole
//! time-out. deadpool reuses the connection of a cancelled call, whose next answer nobody can know,
//! and never closes idle ones.

use std::{
    mem,
    sync::{Arc, Mutex, Once, Weak},
    time::Duration,
};

use tokio::{
    sync::{Semaphore, SemaphorePermit},
    time::{Instant, sleep, timeout},
};

use super::{StoreError, hosts::Connector, lock};

/// An idle connection is closed after this time: nodes talk to the store every half minute.
const IDLE_MAX: Duration = Duration::from_secs(10);
/// How often the pool looks for such connections.
const IDLE_CHECK: Duration = Duration::from_secs(1);
/// How long closing a connection may take.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(1);
/// An idle connection has this part of a call's time to prove that it works.
const PROOF_PART: u32 = 4;

/// At most a fixed number of connections.
pub(super) struct Pool<C: Connector> {
    pub(super) connector: C,
    permits: Semaphore,
    idle: Arc<Idle<C>>,
    reaper: Once,
}

/// The idle connections.
type Idle<C> = Mutex<Vec<Unused<<C as Connector>::Connection>>>;

/// An idle connection.
struct Unused<T> {
    since: Instant,
    host: usize,
    connection: T,
}

/// A connection in use. It is dropped unless it is put back: after a time-out, an error or a
/// cancelled call nobody knows what it would answer next.
pub(super) struct Checkout<'a, C: Connector> {
    pub(super) connection: C::Connection,
    host: usize,
    pool: &'a Pool<C>,
    _permit: SemaphorePermit<'a>,
}

impl<C: Connector> Checkout<'_, C> {
    /// Returns the connection to the pool.
    pub(super) fn put_back(self) {
        let Self { connection, host, .. } = self;
        lock(&self.pool.idle).push(Unused { since: Instant::now(), host, connection });
    }

    /// Drops the connection to a server that can serve us no more: the next one is sought at another
    /// host first.
    pub(super) fn leave_host(self) {
        self.pool.connector.hosts().leave(self.host);
    }
}

impl<C: Connector> Pool<C> {
    pub(super) fn new(connector: C, max_connections: u32) -> Self {
        let permits = Semaphore::new(max_connections as usize);
        Self { connector, permits, idle: Arc::default(), reaper: Once::new() }
    }

    /// Takes an idle connection or opens one; waits while all are in use. The call ends at `deadline`.
    pub(super) async fn checkout(&self, deadline: Instant) -> Result<Checkout<'_, C>, C::Error> {
        self.reaper.call_once(|| drop(tokio::spawn(close_idle::<C>(Arc::downgrade(&self.idle)))));
        let permit = self.permits.acquire().await;
        let permit = permit.map_err(|_| StoreError::Unavailable("the store was closed".into()))?;
        let left = deadline.saturating_duration_since(Instant::now());
        let (host, connection) = loop {
            let idle = lock(&self.idle).pop();
            let hosts = self.connector.hosts();
            let Some(Unused { host, mut connection, .. }) = idle else {
                break hosts.open(&self.connector, deadline).await?;
            };
            // Nobody goes back and forth between two servers.
            if !hosts.is_first(host) {
                continue;
            }
            // The server may have closed it meanwhile, or have become a replica.
            match timeout(left / PROOF_PART, C::is_alive(&mut connection)).await {
                Ok(true) => break (host, connection),
                Ok(false) => {}
                // The others hang as well, and the time is for a server that answers.
                Err(_) => lock(&self.idle).clear(),
            }
        };
        Ok(Checkout { connection, host, pool: self, _permit: permit })
    }

    /// Closes the idle connections and hands out no more.
    pub(super) async fn close(&self) {
        self.permits.close();
        let idle = mem::take(&mut *lock(&self.idle));
        for Unused { connection, .. } in idle {
            let _ = timeout(CLOSE_TIMEOUT, C::close(connection)).await;
        }
    }
}

/// Closes connections that nobody used for a while; ends with the pool.
async fn close_idle<C: Connector>(idle: Weak<Idle<C>>) {
    loop {
        sleep(IDLE_CHECK).await;
        let Some(idle) = idle.upgrade() else { return };
        let is_unused = |idle: &mut Unused<_>| idle.since.elapsed() >= IDLE_MAX;
        let unused: Vec<_> = lock(&idle).extract_if(.., is_unused).collect();
        for Unused { connection, .. } in unused {
            // In a task of its own, so that a panic of the driver does not end this one.
            tokio::spawn(timeout(CLOSE_TIMEOUT, C::close(connection)));
        }
    }
}
