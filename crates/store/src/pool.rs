//! A few connections to the server that accepts writes, opened when needed and closed soon after.
//!
//! Each step has a time-out of its own, since a server that answers late is not one that is gone: a
//! statement may take `timeout`, and opening a connection, with its login, [`OPENING`] times that.
//!
//! No connection is kept, however long it took to open: a server has fewer of them than there are
//! nodes, and what one node keeps, others lack for good. A node needs one for seconds of each
//! renewal.
//!
//! Why not another pool: when a connection is returned, sqlx's waits for a ping without a bound, so a
//! frozen database keeps its permits; and it reports a refused connection only after the whole
//! time-out. deadpool reuses the connection of a cancelled call, whose next answer nobody can know,
//! and never closes idle ones.

use std::{
    mem,
    sync::{Arc, Mutex, Weak},
    time::Duration,
};

use tokio::{
    sync::{Semaphore, SemaphorePermit},
    time::{Instant, sleep, timeout},
};

use super::{Result, StoreError, hosts::Connector, lock};

/// An idle connection is closed after this time. The statements of a renewal follow each other at
/// once; until the next renewal the connection is worth more to other nodes.
const IDLE_MAX: Duration = Duration::from_millis(500);
/// How long closing a connection may take.
pub(super) const CLOSE_TIMEOUT: Duration = Duration::from_secs(1);
/// An idle connection has this part of a statement's time to prove that it works.
const PROOF_PART: u32 = 2;
/// Opening a connection may take this many times as long as a statement: TCP, TLS, the login and the
/// settings of the session take about seven round trips, where a statement takes two.
const OPENING: u32 = 3;

/// At most a fixed number of connections.
pub(super) struct Pool<C: Connector> {
    pub(super) connector: Arc<C>,
    timeout: Duration,
    permits: Semaphore,
    idle: Arc<Mutex<Vec<Idle<C>>>>,
}

/// An idle connection, and the host that it leads to.
struct Idle<C: Connector> {
    since: Instant,
    host: usize,
    connection: C::Connection,
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
        let Self { connection, host, pool, .. } = self;
        lock(&pool.idle).push(Idle { since: Instant::now(), host, connection });
        tokio::spawn(close_idle(Arc::downgrade(&pool.idle)));
    }

    /// Drops the connection to a server that can serve us no more: the next one is sought at another
    /// host first.
    pub(super) fn leave_host(self) {
        self.pool.connector.hosts().leave(self.host);
    }
}

impl<C: Connector> Pool<C> {
    pub(super) fn new(connector: C, max_connections: u32, timeout: Duration) -> Self {
        let permits = Semaphore::new(max_connections as usize);
        Self { connector: Arc::new(connector), timeout, permits, idle: Arc::default() }
    }

    /// Takes an idle connection or opens one; waits while all are in use.
    pub(super) async fn checkout(&self) -> Result<Checkout<'_, C>> {
        let after = self.timeout * OPENING;
        let taken = timeout(after, self.take(Instant::now() + after)).await;
        taken.unwrap_or_else(|_| Err(StoreError::TimedOut { after }))
    }

    async fn take(&self, deadline: Instant) -> Result<Checkout<'_, C>> {
        let permit = self.permits.acquire().await;
        let permit = permit.map_err(|_| StoreError::unavailable("the store was closed"))?;
        let hosts = self.connector.hosts();
        let (host, connection) = loop {
            let idle = lock(&self.idle).pop();
            let Some(Idle { host, mut connection, .. }) = idle else {
                break hosts.open(&self.connector, self.timeout, deadline).await?;
            };
            // Nobody goes back and forth between two servers.
            if !hosts.is_first(host) {
                continue;
            }
            // The server may have closed it meanwhile, or have become a replica.
            match timeout(self.timeout / PROOF_PART, self.connector.is_alive(&mut connection)).await
            {
                Ok(true) => break (host, connection),
                Ok(false) => {}
                // The others hang as well, and the time is for a server that answers.
                Err(_) => {
                    lock(&self.idle).clear();
                    hosts.leave(host);
                }
            }
        };
        Ok(Checkout { connection, host, pool: self, _permit: permit })
    }

    /// Closes the idle connections and hands out no more.
    pub(super) async fn close(&self) {
        self.permits.close();
        let idle = mem::take(&mut *lock(&self.idle));
        close_all(idle).await;
    }
}

/// Closes the connections that nobody used for a while.
async fn close_idle<C: Connector>(idle: Weak<Mutex<Vec<Idle<C>>>>) {
    sleep(IDLE_MAX).await;
    let Some(idle) = idle.upgrade() else { return };
    let unused: Vec<_> =
        lock(&idle).extract_if(.., |idle| idle.since.elapsed() >= IDLE_MAX).collect();
    close_all(unused).await;
}

async fn close_all<C: Connector>(idle: Vec<Idle<C>>) {
    for Idle { connection, .. } in idle {
        let _ = timeout(CLOSE_TIMEOUT, C::close(connection)).await;
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;
    use crate::hosts::Hosts;

    /// A server whose round trips take so long.
    #[derive(Default)]
    struct Server {
        hosts: Hosts,
        round_trip: Duration,
        opened: AtomicU32,
        open: Arc<AtomicU32>,
    }

    /// Counts as open until it is dropped.
    struct Connection {
        round_trip: Duration,
        open: Arc<AtomicU32>,
    }

    impl Drop for Connection {
        fn drop(&mut self) {
            self.open.fetch_sub(1, Ordering::Relaxed);
        }
    }

    impl Connector for Server {
        type Connection = Connection;

        fn hosts(&self) -> &Hosts {
            &self.hosts
        }

        async fn open(&self, _host: usize) -> Result<Connection> {
            self.opened.fetch_add(1, Ordering::Relaxed);
            sleep(self.round_trip * 7).await;
            self.open.fetch_add(1, Ordering::Relaxed);
            Ok(Connection { round_trip: self.round_trip, open: Arc::clone(&self.open) })
        }

        async fn is_alive(&self, connection: &mut Connection) -> bool {
            sleep(connection.round_trip).await;
            true
        }

        async fn close(_connection: Connection) {}
    }

    #[tokio::test(start_paused = true)]
    async fn connection_serves_the_next_statement_and_is_closed_soon_however_slow_the_server() {
        for round_trip in [0, 400, 1200].map(Duration::from_millis) {
            let server = Server { round_trip, ..Server::default() };
            let pool = Pool::new(server, 2, Duration::from_secs(3));
            for _ in 0..3 {
                pool.checkout().await.expect("a connection").put_back();
            }
            assert_eq!(pool.connector.opened.load(Ordering::Relaxed), 1);
            sleep(IDLE_MAX * 2).await;
            assert_eq!(pool.connector.open.load(Ordering::Relaxed), 0);
            pool.checkout().await.expect("another connection").put_back();
            assert_eq!(pool.connector.opened.load(Ordering::Relaxed), 2);
        }
    }
}
