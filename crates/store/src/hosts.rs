//! The hosts of a store's address, and the search for the one that accepts writes.

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

/// This part of the time that is left is kept for the error that names every host.
const RESERVED_PART: u32 = 8;

/// Opens and closes the connections to one server of an address.
pub(super) trait Connector: Send + Sync + 'static {
    /// A connection.
    type Connection: Send + 'static;

    /// The hosts of the address.
    fn hosts(&self) -> &Hosts;

    /// Opens a connection to the host of this number, if that accepts writes. Resolves its name anew.
    fn open(&self, host: usize) -> impl Future<Output = Result<Self::Connection>> + Send;

    /// Whether the server still answers on a connection and accepts writes.
    fn is_alive(&self, connection: &mut Self::Connection) -> impl Future<Output = bool> + Send;

    /// Closes a connection and tells the server so.
    fn close(connection: Self::Connection) -> impl Future<Output = ()> + Send;
}

/// A host, and the connection to it, or why there is none.
type Tried<C> = (usize, Result<<C as Connector>::Connection>);

/// The hosts of one address.
#[derive(Debug, Default)]
pub(super) struct Hosts {
    /// As errors name them; none for an embedded database.
    names: Vec<String>,
    /// The host to begin with: the one that worked last, or the one after a host that failed.
    first: AtomicUsize,
}

impl Hosts {
    #[cfg(any(feature = "mysql", feature = "postgres", feature = "redis"))]
    pub(super) fn new(names: impl IntoIterator<Item = String>) -> Self {
        Self { names: names.into_iter().collect(), first: AtomicUsize::new(0) }
    }

    /// Opens a connection to a host that can be used; returns the host's number with it. A host that
    /// answers nothing within `patience`, or an equal part of the time that is left, need not be gone:
    /// the next one is tried beside it, and whichever is opened first is used. A single host has all
    /// the time: the caller's own time-out ends the try.
    ///
    /// # Errors
    ///
    /// With several hosts, [`StoreError::AcceptsNoWrites`] if that is so of each, and otherwise
    /// [`StoreError::Unavailable`]; either names each and says what is wrong with it.
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
        // Also when the caller gives up meanwhile.
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

    /// Whether these are the same hosts in the same order.
    pub(super) fn are(&self, others: &Self) -> bool {
        self.names == others.names
    }

    /// Whether the next search begins with this host.
    pub(super) fn is_first(&self, host: usize) -> bool {
        self.first.load(Ordering::Relaxed) == host
    }

    /// Begins the next search with another host than this one, which failed.
    pub(super) fn leave(&self, host: usize) {
        let next = (host + 1) % self.names.len().max(1);
        // Another call may have found the host that works meanwhile.
        let _ = self.first.compare_exchange(host, next, Ordering::Relaxed, Ordering::Relaxed);
    }
}

/// Opens a connection to one host. It is closed if another host was faster: a login that is cut off
/// counts against this client on some servers.
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

/// Leaves a host when it is dropped.
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

/// An address in three parts; those around the hosts are the same for each of them.
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
    /// Divides an address. The error tells a host's place only, because what stands there may be a
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

/// Reads the address of each host. The values of the parameters `of_one` belong to one server.
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
        // libpq takes lists in parameters, the driver does not.
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
