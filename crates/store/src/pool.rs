//! A few connections to the server that accepts writes, opened when needed and closed when unused.
//!
//! Each step has a time-out of its own, since a server that answers late is not one that is gone: a
//! statement may take `timeout`, and a connection, with its login of several round trips, twice that.
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

/// An idle connection is closed after this time: nodes talk to the store every few seconds at most,
/// and hundreds of them share a server's connections.
const IDLE_MAX: Duration = Duration::from_secs(2);
/// After this time a connection that is kept longer must again be worth it.
const KEPT_MAX: Duration = Duration::from_secs(10);
/// A connection to a slow server that was used just before needs no proof that it works.
const FRESH: Duration = Duration::from_millis(100);
/// How often the pool looks for such connections.
const IDLE_CHECK: Duration = Duration::from_secs(1);
/// How long closing a connection may take.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(1);
/// An idle connection has this part of a statement's time to prove that it works.
const PROOF_PART: u32 = 2;
/// Opening a connection may take this many times as long as a statement.
const OPENING: u32 = 2;
/// A server is slow if opening a connection took so long. An idle one is kept while it still answers
/// slowly.
const SLOW_OPENING: Duration = Duration::from_secs(1);
/// As fast as that, it was the server's load that made opening slow.
const SLOW_ANSWER: Duration = Duration::from_millis(100);

/// At most a fixed number of connections.
pub(super) struct Pool<C: Connector> {
    pub(super) connector: C,
    timeout: Duration,
    permits: Semaphore,
    idle: Arc<Idle<C>>,
    reaper: Once,
}

/// The idle connections.
type Idle<C> = Mutex<Vec<Unused<<C as Connector>::Connection>>>;

/// An idle connection.
struct Unused<T> {
    since: Instant,
    max: Duration,
    opened: Opened,
    connection: T,
}

/// Where a connection leads, and how long opening it took.
#[derive(Clone, Copy)]
struct Opened {
    host: usize,
    took: Duration,
}

/// A connection in use. It is dropped unless it is put back: after a time-out, an error or a
/// cancelled call nobody knows what it would answer next.
pub(super) struct Checkout<'a, C: Connector> {
    pub(super) connection: C::Connection,
    opened: Opened,
    pool: &'a Pool<C>,
    _permit: SemaphorePermit<'a>,
}

impl<C: Connector> Checkout<'_, C> {
    /// Returns the connection to the pool.
    pub(super) fn put_back(self) {
        let Self { connection, opened, .. } = self;
        let since = Instant::now();
        lock(&self.pool.idle).push(Unused { since, max: IDLE_MAX, opened, connection });
    }

    /// Drops the connection to a server that can serve us no more: the next one is sought at another
    /// host first.
    pub(super) fn leave_host(self) {
        self.pool.connector.hosts().leave(self.opened.host);
    }
}

impl<C: Connector> Pool<C> {
    pub(super) fn new(connector: C, max_connections: u32, timeout: Duration) -> Self {
        let permits = Semaphore::new(max_connections as usize);
        Self { connector, timeout, permits, idle: Arc::default(), reaper: Once::new() }
    }

    /// Takes an idle connection or opens one; waits while all are in use.
    pub(super) async fn checkout(&self) -> Result<Checkout<'_, C>, C::Error> {
        let after = self.timeout * OPENING;
        let taken = timeout(after, self.take(Instant::now() + after)).await;
        taken.unwrap_or_else(|_| Err(StoreError::TimedOut { after }.into()))
    }

    async fn take(&self, deadline: Instant) -> Result<Checkout<'_, C>, C::Error> {
        self.reaper.call_once(|| drop(tokio::spawn(close_idle::<C>(Arc::downgrade(&self.idle)))));
        let permit = self.permits.acquire().await;
        let permit = permit.map_err(|_| StoreError::Unavailable("the store was closed".into()))?;
        let hosts = self.connector.hosts();
        let (opened, connection) = loop {
            let idle = lock(&self.idle).pop();
            let Some(Unused { since, opened, mut connection, .. }) = idle else {
                let began = Instant::now();
                let (host, connection) = hosts.open(&self.connector, deadline).await?;
                break (Opened { host, took: began.elapsed() }, connection);
            };
            // Nobody goes back and forth between two servers.
            if !hosts.is_first(opened.host) {
                continue;
            }
            if opened.took >= SLOW_OPENING && since.elapsed() < FRESH {
                break (opened, connection);
            }
            // The server may have closed it meanwhile, or have become a replica.
            match timeout(self.timeout / PROOF_PART, C::is_alive(&mut connection)).await {
                Ok(true) => break (opened, connection),
                Ok(false) => {}
                // The others hang as well, and the time is for a server that answers.
                Err(_) => lock(&self.idle).clear(),
            }
        };
        Ok(Checkout { connection, opened, pool: self, _permit: permit })
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
        let is_unused = |idle: &mut Unused<_>| idle.since.elapsed() >= idle.max;
        let unused: Vec<_> = lock(&idle).extract_if(.., is_unused).collect();
        for unused in unused {
            // In a task of its own, so that a panic of the driver does not end this one.
            tokio::spawn(close_unless_slow::<C>(unused, Arc::downgrade(&idle)));
        }
    }
}

/// Closes an idle connection, unless the next call would have to wait long for another one.
async fn close_unless_slow<C: Connector>(
    Unused { opened, mut connection, .. }: Unused<C::Connection>,
    idle: Weak<Idle<C>>,
) {
    let asked = Instant::now();
    if opened.took >= SLOW_OPENING
        && timeout(KEPT_MAX, C::is_alive(&mut connection)).await == Ok(true)
        && asked.elapsed() >= SLOW_ANSWER
        && let Some(idle) = idle.upgrade()
    {
        let since = Instant::now();
        lock(&idle).push(Unused { since, max: KEPT_MAX, opened, connection });
        return;
    }
    let _ = timeout(CLOSE_TIMEOUT, C::close(connection)).await;
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;
    use crate::hosts::Hosts;

    /// A server that answers so late, and how often it was logged in to.
    #[derive(Default)]
    struct Server {
        hosts: Hosts,
        late: Arc<Mutex<Duration>>,
        opened: AtomicU32,
    }

    impl Connector for Server {
        type Connection = Arc<Mutex<Duration>>;
        type Error = StoreError;

        fn hosts(&self) -> &Hosts {
            &self.hosts
        }

        async fn open(&self, _host: usize) -> Result<Self::Connection, StoreError> {
            self.opened.fetch_add(1, Ordering::Relaxed);
            let late = *lock(&self.late);
            sleep(late * 4).await;
            Ok(Arc::clone(&self.late))
        }

        fn unavailable(_error: &StoreError) -> Option<String> {
            None
        }

        async fn is_alive(connection: &mut Self::Connection) -> bool {
            let late = *lock(connection);
            sleep(late).await;
            true
        }

        async fn close(_connection: Self::Connection) {}
    }

    #[tokio::test(start_paused = true)]
    async fn idle_connection_is_kept_while_the_server_is_slow() {
        let pool = Pool::new(Server::default(), 2, Duration::from_secs(3));
        let use_after = async |idle| {
            sleep(idle).await;
            pool.checkout().await.expect("a connection").put_back();
            pool.connector.opened.load(Ordering::Relaxed)
        };
        let half_minute = Duration::from_secs(30);
        assert_eq!(use_after(Duration::ZERO).await, 1);
        assert_eq!(use_after(Duration::from_secs(1)).await, 1);
        assert_eq!(use_after(half_minute).await, 2, "a fast server's is closed");
        let late = |ms| *lock(&pool.connector.late) = Duration::from_millis(ms);
        late(400);
        assert_eq!(use_after(half_minute).await, 3);
        for _ in 0..3 {
            assert_eq!(use_after(half_minute).await, 3, "a slow server's is kept");
        }
        late(0);
        assert_eq!(use_after(half_minute).await, 4, "it is fast again");
    }
}
