//! Lists of hosts, and servers that refuse, hang and work.

use std::{future::pending, sync::Mutex, time::Duration};

use tokio::time::sleep;

use super::*;
use crate::{lock, pool::Pool};

/// The behaviour of a simulated server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Server {
    Works,
    IsReplica,
    Hangs,
    /// Answers after two seconds.
    IsSlow,
}

use Server::{Hangs, IsReplica, IsSlow, Works};

/// Servers that are called `a`, `b` and so on.
struct Servers {
    hosts: Hosts,
    do_what: Mutex<Vec<Server>>,
    /// The hosts that were tried, in upper case if their connection was closed.
    tried: Arc<Mutex<String>>,
}

impl Servers {
    fn new(do_what: &[Server]) -> Self {
        let names = ('a'..).take(do_what.len()).map(String::from).collect();
        Self {
            hosts: Hosts { names, first: AtomicUsize::new(0) },
            do_what: Mutex::new(do_what.to_vec()),
            tried: Arc::default(),
        }
    }

    /// Searches for 3.2 s; returns the hosts that were tried and the outcome.
    async fn open(self: &Arc<Self>) -> (String, Result<usize, String>) {
        lock(&self.tried).clear();
        let deadline = Instant::now() + Duration::from_millis(3200);
        let opened = self.hosts.open(self, Duration::from_secs(1), deadline).await;
        let opened = opened.map(|(host, connection)| {
            assert_eq!(host, connection.0);
            host
        });
        (lock(&self.tried).clone(), opened.map_err(|error| with_sources(&error)))
    }
}

impl Connector for Servers {
    type Connection = (usize, Arc<Mutex<String>>);

    fn hosts(&self) -> &Hosts {
        &self.hosts
    }

    async fn open(&self, host: usize) -> Result<Self::Connection> {
        lock(&self.tried).push_str(&self.hosts.names[host]);
        let does = lock(&self.do_what)[host];
        match does {
            Works => Ok((host, Arc::clone(&self.tried))),
            IsReplica => Err(StoreError::AcceptsNoWrites("it is a replica".to_owned())),
            Hangs => pending().await,
            IsSlow => {
                sleep(Duration::from_secs(2)).await;
                Ok((host, Arc::clone(&self.tried)))
            }
        }
    }

    async fn is_alive(&self, _: &mut Self::Connection) -> bool {
        true
    }

    async fn close((host, tried): Self::Connection) {
        lock(&tried).push_str(["A", "B", "C", "D"][host]);
    }
}

#[tokio::test(start_paused = true)]
async fn search_begins_with_the_host_that_worked_last() {
    let servers = Arc::new(Servers::new(&[IsReplica, Works, IsReplica]));
    assert_eq!(servers.open().await, ("ab".to_owned(), Ok(1)));
    assert_eq!(servers.open().await, ("b".to_owned(), Ok(1)));
    *lock(&servers.do_what) = vec![Works, IsReplica, IsReplica];
    assert_eq!(servers.open().await, ("bca".to_owned(), Ok(0)));
    // A connection to this host failed; a failure of another host does not matter.
    servers.hosts.leave(1);
    assert_eq!(servers.open().await, ("a".to_owned(), Ok(0)));
    servers.hosts.leave(0);
    assert_eq!(servers.open().await, ("bca".to_owned(), Ok(0)));
}

#[tokio::test(start_paused = true)]
async fn host_that_hangs_does_not_keep_the_others_waiting() {
    let servers = Arc::new(Servers::new(&[Hangs, IsReplica, Hangs, Works]));
    let begin = Instant::now();
    assert_eq!(servers.open().await, ("abcd".to_owned(), Ok(3)));
    // A quarter of 2.8 s for each host that hangs.
    assert_eq!(begin.elapsed(), Duration::from_millis(1400));

    *lock(&servers.do_what) = vec![Hangs, IsReplica, Hangs, Hangs];
    let begin = Instant::now();
    let (tried, outcome) = servers.open().await;
    assert_eq!(tried, "dabc");
    assert_eq!(
        outcome.expect_err("nobody"),
        "the store cannot be reached: no host can be used: d: no answer within 2800 ms; a: no answer \
         within 2100 ms; b: it accepts no writes: it is a replica; c: no answer within 1400 ms"
    );
    assert_eq!(begin.elapsed(), Duration::from_millis(2800));
}

#[tokio::test(start_paused = true)]
async fn hosts_that_can_be_reached_and_accept_no_writes_are_said_to_be_so() {
    let servers = Arc::new(Servers::new(&[IsReplica, IsReplica]));
    let said = "the store accepts no writes: a: it is a replica; b: it is a replica";
    assert_eq!(servers.open().await, ("ab".to_owned(), Err(said.to_owned())));
}

#[tokio::test(start_paused = true)]
async fn slow_host_is_used_although_others_were_tried_beside_it() {
    let servers = Arc::new(Servers::new(&[IsReplica, IsSlow, IsReplica]));
    let begin = Instant::now();
    assert_eq!(servers.open().await, ("abc".to_owned(), Ok(1)));
    assert_eq!(begin.elapsed(), Duration::from_secs(2));
}

#[tokio::test(start_paused = true)]
async fn connection_that_came_too_late_is_closed() {
    let servers = Arc::new(Servers::new(&[IsSlow, Works]));
    assert_eq!(servers.open().await, ("ab".to_owned(), Ok(1)));
    sleep(Duration::from_secs(2)).await;
    assert_eq!(*lock(&servers.tried), "abA");
}

#[tokio::test(start_paused = true)]
async fn search_that_is_given_up_goes_on_at_the_next_host() {
    let servers = Arc::new(Servers::new(&[Hangs, Works]));
    timeout(Duration::from_millis(10), servers.open()).await.expect_err("it hangs");
    assert_eq!(servers.open().await, ("b".to_owned(), Ok(1)));
}

#[tokio::test(start_paused = true)]
async fn single_host_has_all_the_time_and_is_named() {
    let servers = Arc::new(Servers::new(&[IsReplica]));
    let said = "the store accepts no writes: a: it is a replica";
    assert_eq!(servers.open().await, ("a".to_owned(), Err(said.to_owned())));
    *lock(&servers.do_what) = vec![Hangs];
    timeout(Duration::from_mins(1), servers.open()).await.expect_err("it hangs");
}

#[tokio::test(start_paused = true)]
async fn idle_connections_to_a_host_that_was_left_are_not_used() {
    let pool = Pool::new(Servers::new(&[Works, Works]), 2, Duration::from_secs(1));
    let checkout = async || pool.checkout().await.expect("a connection");
    let (idle, failed) = (checkout().await, checkout().await);
    assert_eq!((idle.connection.0, failed.connection.0), (0, 0));
    idle.put_back();
    failed.leave_host();
    for _ in 0..2 {
        let next = checkout().await;
        assert_eq!(next.connection.0, 1);
        next.put_back();
    }
    assert_eq!(*lock(&pool.connector.tried), "aab");
}

#[cfg(any(feature = "mysql", feature = "postgres", feature = "redis"))]
#[test]
fn addresses_are_divided_at_their_hosts() {
    for (url, before, hosts, after) in [
        ("mysql://h/d", "mysql://", &["h"][..], "/d"),
        ("mysql://u:p@a:1,b,[::1]:2/d?x=y,z", "mysql://u:p@", &["a:1", "b", "[::1]:2"], "/d?x=y,z"),
        ("mysql://u,:p,@a,b", "mysql://u,:p,@", &["a", "b"], ""),
        ("postgres://a,b?x@y", "postgres://", &["a", "b"], "?x@y"),
        ("postgres:///d", "postgres://", &[""], "/d"),
        ("postgres://%2Frun%2Fdb,b/d", "postgres://", &["%2Frun%2Fdb", "b"], "/d"),
    ] {
        let hosts = hosts.to_vec();
        assert_eq!(Address::of(url), Ok(Address { before, hosts, after }), "{url}");
    }
    for (url, empty) in [
        ("mysql://a,,s3cret/d", "host 2 of 3 is empty"),
        ("mysql://u:s3cret@,b/d", "host 1 of 2 is empty"),
        ("mysql://a,/d", "host 2 of 2 is empty"),
        ("mysql://a,:3306/d", "host 2 of 2 is empty"),
    ] {
        let said = Address::of(url).expect_err("an empty host");
        assert!(said.contains(empty) && !said.contains("s3cret"), "{url}: {said}");
    }
}
