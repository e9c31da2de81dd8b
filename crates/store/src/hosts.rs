//! The hosts of a store's address, and the search for the one that accepts writes.
//!
//! [`Hosts::open`] begins with the host that worked last. A host that does not answer in time may
//! just be slow, so the next one is tried beside it, and the first connection that opens is used.
//! Each [`Connector`] checks in `open` that its server accepts writes.
//!
//! The search does not decide which server has the newest data: after a fail-over that lost writes,
//! the identity of the server in the namespace's record does that. Callers report a host that fails
//! later with [`Hosts::leave`]. Tests: hosts/tests.rs, and tests/store/hosts.rs with real servers.

#[cfg(test)]
mod tests;

#[cfg(any(feature = "mysql", feature = "postgres", feature = "redis"))]
use std::{fmt::Display, str::FromStr};
use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use tokio::{
    sync::mpsc::{self, error::SendError},
    time::{Instant, timeout, timeout_at},
};

#[cfg(any(feature = "mysql", feature = "postgres", feature = "redis"))]
use super::StoreSettings;
use super::{Result, StoreError, pool::CLOSE_TIMEOUT, with_sources};

/// Divisor of the remaining time that is reserved for the error that names every host.
const RESERVED_PART: u32 = 8;

/// Opens and closes the connections to one server of an address.
pub(super) trait Connector: Send + Sync + 'static {
    /// A connection.
    type Connection: Send + 'static;

    /// The hosts of the address.
    fn hosts(&self) -> &Hosts;

    /// Opens a connection to the host with this index, if its server accepts writes. Resolves the
    /// name again each time.
    fn open(&self, host: usize) -> impl Future<Output = Result<Self::Connection>> + Send;

    /// Returns whether the server still answers on a connection, and accepts writes.
    fn is_alive(&self, connection: &mut Self::Connection) -> impl Future<Output = bool> + Send;

    /// Closes a connection and tells the server so.
    fn close(connection: Self::Connection) -> impl Future<Output = ()> + Send;
}

/// A host, and the connection to it, or why there is none.
type Tried<C> = (usize, Result<<C as Connector>::Connection>);

/// The hosts of one address.
#[derive(Debug, Default)]
pub(super) struct Hosts {
    /// The names for errors; none for an embedded database.
    names: Vec<String>,
    /// The host with which the next search begins: the one that worked last, or the one after a
    /// host that failed.
    first: AtomicUsize,
}

impl Hosts {
    #[cfg(any(feature = "mysql", feature = "postgres", feature = "redis"))]
    pub(super) fn new(names: impl IntoIterator<Item = String>) -> Self {
        Self { names: names.into_iter().collect(), first: AtomicUsize::new(0) }
    }

    /// Opens a connection to a host that can be used, and returns it with the host's index.
    ///
    /// A host that does not answer within `patience`, or an equal share of the remaining time, need
    /// not be down. So the next host is tried beside it, and the first connection that opens is
    /// used. A single host gets all the time, which the caller's time-out bounds.
    ///
    /// # Errors
    ///
    /// With several hosts, [`StoreError::AcceptsNoWrites`] if all of them refuse writes, and
    /// otherwise [`StoreError::Unavailable`]. Both name each host, and why it cannot be used.
    pub(super) async fn open<C: Connector>(
        &self,
        connector: &Arc<C>,
        patience: Duration,
        deadline: Instant,
    ) -> Result<(usize, C::Connection)> {
        if let [] | [_] = self.names[..] {
            let opened = connector.open(0).await;
            return opened.map(|connection| (0, connection)).map_err(|error| {
                match self.names.first() {
                    Some(name) => error.at(name),
                    None => error,
                }
            });
        }
        let count = self.names.len();
        let left = deadline.saturating_duration_since(Instant::now());
        let deadline = deadline - left / RESERVED_PART;
        let left = deadline.saturating_duration_since(Instant::now());
        let patience = patience.min(left / u32::try_from(count).unwrap_or(u32::MAX));
        let first = self.first.load(Ordering::Relaxed);
        // Dropped also if the caller gives up: the next search then begins with another host.
        let leaving = Leaving { hosts: self, host: first };
        let (answer, mut answers) = mpsc::channel(count);
        let (mut tried, mut failures) = (Vec::new(), Vec::from_iter((0..count).map(|_| None)));
        while failures.iter().any(Option::is_none) {
            if tried.len() < count {
                let host = (first + tried.len()) % count;
                tried.push((host, Instant::now()));
                tokio::spawn(open_one(Arc::clone(connector), host, deadline, answer.clone()));
            }
            let has_more = tried.len() < count;
            let until = if has_more { Instant::now() + patience } else { deadline };
            match timeout_at(until, answers.recv()).await {
                Ok(Some((host, Ok(connection)))) => {
                    drop(leaving);
                    self.first.store(host, Ordering::Relaxed);
                    return Ok((host, connection));
                }
                Ok(Some((host, Err(error)))) => {
                    self.leave(host);
                    failures[host] = Some(error);
                }
                Err(_) if has_more => self.leave(tried[tried.len() - 1].0),
                Ok(None) | Err(_) => break,
            }
        }
        let accepts_no_writes = |failure| matches!(failure, &Some(StoreError::AcceptsNoWrites(_)));
        let all_refuse = failures.iter().all(accepts_no_writes);
        let reasons = tried.into_iter().map(|(host, since)| {
            let reason = match failures[host].take() {
                None => format!("no answer within {} ms", since.elapsed().as_millis()),
                Some(StoreError::Unavailable(reason)) => with_sources(&*reason),
                Some(StoreError::AcceptsNoWrites(reason)) if all_refuse => reason,
                Some(StoreError::AcceptsNoWrites(reason)) => {
                    format!("it accepts no writes: {reason}")
                }
                Some(error) => with_sources(&error),
            };
            format!("{}: {reason}", self.names[host])
        });
        let reasons = reasons.collect::<Vec<_>>().join("; ");
        Err(match all_refuse {
            true => StoreError::AcceptsNoWrites(reasons),
            false => StoreError::unavailable(format!("no host can be used: {reasons}")),
        })
    }

    /// Returns whether these are the same hosts in the same order.
    pub(super) fn same_as(&self, others: &Self) -> bool {
        self.names == others.names
    }

    /// Returns whether the next search begins with this host.
    pub(super) fn is_first(&self, host: usize) -> bool {
        self.first.load(Ordering::Relaxed) == host
    }

    /// Makes the next search begin with another host than this one, which failed.
    pub(super) fn leave(&self, host: usize) {
        let next = (host + 1) % self.names.len().max(1);
        // Compared, because another call may have found a working host meanwhile.
        let _ = self.first.compare_exchange(host, next, Ordering::Relaxed, Ordering::Relaxed);
    }
}

/// Opens a connection to one host, and closes it if another host was faster. A login that is cut
/// off instead counts as an error of this client on some servers.
async fn open_one<C: Connector>(
    connector: Arc<C>,
    host: usize,
    deadline: Instant,
    answer: mpsc::Sender<Tried<C>>,
) {
    let Ok(opened) = timeout_at(deadline, connector.open(host)).await else { return };
    if let Err(SendError((_, Ok(connection)))) = answer.send((host, opened)).await {
        let _ = timeout(CLOSE_TIMEOUT, C::close(connection)).await;
    }
}

/// Calls [`Hosts::leave`] for a host when it is dropped.
struct Leaving<'a> {
    hosts: &'a Hosts,
    host: usize,
}

impl Drop for Leaving<'_> {
    fn drop(&mut self) {
        self.hosts.leave(self.host);
    }
}

/// Returns a server's name in errors.
#[cfg(any(feature = "mysql", feature = "postgres", feature = "redis"))]
pub(super) fn name(host: &str, port: u16) -> String {
    if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") }
}

/// Returns the name of a host as drivers resolve it: without the brackets of an IPv6 address.
#[cfg(any(feature = "mysql", feature = "postgres"))]
pub(super) fn resolvable(host: &str) -> &str {
    host.trim_matches(['[', ']'])
}

/// An address in three parts, of which the first and the last are common to all hosts.
#[derive(Debug, PartialEq, Eq)]
#[cfg(any(feature = "mysql", feature = "postgres", feature = "redis"))]
pub(super) struct Address<'a> {
    /// The scheme, the user and the password.
    pub(super) before: &'a str,
    /// Each with its port, if it has one.
    pub(super) hosts: Vec<&'a str>,
    /// The path and the parameters.
    pub(super) after: &'a str,
}

#[cfg(any(feature = "mysql", feature = "postgres", feature = "redis"))]
impl<'a> Address<'a> {
    /// Splits an address. The error gives only the position of a host, because its text may be a
    /// password.
    pub(super) fn of(url: &'a str) -> Result<Self, String> {
        let begin = url.find("://").map_or(0, |at| at + "://".len());
        let end = url[begin..].find(['/', '?', '#']).map_or(url.len(), |at| begin + at);
        let begin = url[begin..end].rfind('@').map_or(begin, |at| begin + at + 1);
        let hosts: Vec<_> = url[begin..end].split(',').collect();
        let count = hosts.len();
        match hosts.iter().position(|host| host.is_empty() || host.starts_with(':')) {
            Some(empty) if count > 1 => Err(format!(
                "host {} of {count} is empty: hosts are separated by one comma each, as in a:1,b:2",
                empty + 1
            )),
            _ => Ok(Self { before: &url[..begin], hosts, after: &url[end..] }),
        }
    }
}

/// Parses the address of each host. The parameters `of_one` can only name one server.
#[cfg(any(feature = "mysql", feature = "postgres", feature = "redis"))]
pub(super) fn parse<T: FromStr<Err: Display>>(
    settings: &StoreSettings,
    url: &str,
    of_one: &[&str],
) -> Result<Vec<T>> {
    let Address { before, hosts, after } =
        Address::of(url).map_err(|reason| settings.unusable(reason))?;
    let count = hosts.len();
    let query = after.split_once('?').map_or("", |(_, query)| query);
    let parameters = form_urlencoded::parse(query.as_bytes());
    for (name, value) in parameters.filter(|(name, _)| of_one.contains(&&**name)) {
        // libpq accepts lists in these parameters; sqlx does not.
        if count > 1 || (value.contains(',') && !value.starts_with('/')) {
            return Err(settings.unusable(format!(
                "its parameter {name} can name one server only: write several hosts and ports in \
                 the place of the host, as in a:1,b:2"
            )));
        }
    }
    let servers = hosts.iter().enumerate().map(|(at, host)| {
        format!("{before}{host}{after}").parse().map_err(|error| match count {
            1 => settings.unusable(error),
            _ => settings.unusable(format!("host {} of {count}: {error}", at + 1)),
        })
    });
    servers.collect()
}
