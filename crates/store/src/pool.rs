//! A few connections to the server that accepts writes, opened when needed and closed soon after.
//!
//! Each step has its own time-out, because a slow server is not a server that is down. A statement
//! may take `timeout`; opening a connection, with its login, may take [`OPENING`] times that.
//!
//! Idle connections are closed soon, even if opening them takes long. A server has fewer
//! connections than there are nodes, so one that a node keeps is missing elsewhere; a node needs
//! one only for seconds of each renewal.
//!
//! Why not another pool:
//!
//! - When a caller returns a connection, sqlx's pool waits for a ping without a time-out, so a
//!   frozen database keeps permits of the pool. The pool also reports a refused connection only
//!   after its whole time-out.
//! - deadpool reuses the connection of a cancelled call, on which the next response may be the
//!   previous call's, and never closes idle ones.

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

/// The age at which an idle connection is closed. The statements of a renewal follow each other at
/// once; until the next renewal other nodes need the connection more.
const IDLE_MAX: Duration = Duration::from_millis(500);
/// How long closing a connection may take.
pub(super) const CLOSE_TIMEOUT: Duration = Duration::from_secs(1);
/// Divisor of a statement's time that an idle connection has to prove that it works.
const PROOF_PART: u32 = 2;
/// How many times as long as a statement opening a connection may take. TCP, TLS, the login and the
/// settings of the session take about seven round trips; a statement takes two.
const OPENING: u32 = 3;

/// A pool with a fixed maximum of connections.
pub(super) struct Pool<C: Connector> {
    pub(super) connector: Arc<C>,
    timeout: Duration,
    permits: Semaphore,
    idle: Arc<Mutex<Vec<Idle<C>>>>,
}

/// An idle connection, and the host that it is to.
struct Idle<C: Connector> {
    since: Instant,
    host: usize,
    connection: C::Connection,
}

/// A connection in use. Unless it is put back, it is closed: after a time-out, an error or a
/// cancelled call, its next response may belong to the previous statement.
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

    /// Closes the connection to a server that can no longer serve us, and begins the next search at
    /// another host.
    pub(super) fn leave_host(self) {
        self.pool.connector.hosts().leave(self.host);
    }
}

impl<C: Connector> Pool<C> {
    pub(super) fn new(connector: C, max_connections: u32, timeout: Duration) -> Self {
        let permits = Semaphore::new(max_connections as usize);
        Self { connector: Arc::new(connector), timeout, permits, idle: Arc::default() }
    }

    /// Takes an idle connection or opens one. Waits while all are in use.
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
            // Drop a connection to a former host, so that calls do not alternate between two
            // servers.
            if !hosts.is_first(host) {
                continue;
            }
            // The server may have closed it meanwhile, or become a replica.
            match timeout(self.timeout / PROOF_PART, self.connector.is_alive(&mut connection)).await
            {
                Ok(true) => break (host, connection),
                Ok(false) => {}
                // The other idle connections will hang, too. Spend the remaining time on a server
                // that answers.
                Err(_) => {
                    lock(&self.idle).clear();
                    hosts.leave(host);
                }
            }
        };
        Ok(Checkout { connection, host, pool: self, _permit: permit })
    }

    /// Closes the idle connections, and refuses further checkouts.
    pub(super) async fn close(&self) {
        self.permits.close();
        let idle = mem::take(&mut *lock(&self.idle));
        close_all(idle).await;
    }
}

/// Closes the connections that have been idle for [`IDLE_MAX`].
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

    /// A server with this time for each round trip.
    #[derive(Default)]
    struct Server {
        hosts: Hosts,
        round_trip: Duration,
        opened: AtomicU32,
        open: Arc<AtomicU32>,
    }

    /// Counts as an open connection until it is dropped.
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
