//! Names the clients of the service, and limits the requests per second of each.
//!
//! A client is counted by its token's name or by its address: for these limits, for connections
//! (`listener::places`) and for new codes (`state`). Behind trusted proxies, the address is the one
//! that they forwarded. [`RateLimiter`] lets a client burst for one second (GCRA), and remembers a
//! bounded number of clients. Who may send a request at all is up to `auth`.

use std::{
    collections::HashMap,
    hash::{BuildHasher, RandomState},
    net::{IpAddr, Ipv6Addr, SocketAddr},
    num::NonZeroU32,
    sync::{Mutex, PoisonError},
    time::Duration,
};

use axum::http::{HeaderMap, HeaderName, HeaderValue, header};
use ipnet::IpNet;
use tokio::time::Instant;

use super::response::{Problem, ProblemCode};
use crate::config::HttpConfig;

/// The clients of the service, by token or address.
#[derive(Debug)]
pub(super) struct Clients {
    hasher: RandomState,
    trusted_proxies: Vec<IpNet>,
    per_address: Option<RateLimiter>,
    per_token: Option<RateLimiter>,
}

impl Clients {
    pub(super) fn new(http: &HttpConfig) -> Self {
        Self {
            hasher: RandomState::new(),
            trusted_proxies: http.trusted_proxies.clone(),
            per_address: http.max_requests_per_ip.map(RateLimiter::new),
            per_token: http.max_requests_per_token.map(RateLimiter::new),
        }
    }

    /// Refuses a request from an address that has sent too many.
    pub(super) fn limit_address(&self, address: Option<IpAddr>) -> Result<(), Problem> {
        let (Some(limiter), Some(address)) = (&self.per_address, address) else { return Ok(()) };
        limiter.count(self.hasher.hash_one(address), Instant::now()).map_err(|wait| {
            tracing::debug!(%address, "request refused: too many from this address");
            let detail = format!("too many requests from {address}: see http.max_requests_per_ip");
            Problem::passing(ProblemCode::TooManyRequests, detail, wait)
        })
    }

    /// Refuses a request with a token of this name if too many came with it.
    pub(super) fn limit_token(&self, token: Option<&str>) -> Result<(), Problem> {
        let (Some(limiter), Some(token)) = (&self.per_token, token) else { return Ok(()) };
        limiter.count(self.hasher.hash_one(token), Instant::now()).map_err(|wait| {
            tracing::debug!(token, "request refused: too many with this token");
            let key = "auth.max_requests_per_token";
            let detail = format!("too many requests with the token {token:?}: see {key}");
            Problem::passing(ProblemCode::TooManyRequests, detail, wait)
        })
    }

    /// Returns the key of a client: a hash of the token's name or, without a token, of the address.
    pub(super) fn key(&self, token: Option<&str>, address: Option<IpAddr>) -> u64 {
        match token {
            Some(token) => self.hasher.hash_one(token),
            None => self.hasher.hash_one(address),
        }
    }

    /// Returns the address of the client of a request, given the peer that sent it.
    pub(super) fn address(&self, peer: IpAddr, headers: &HeaderMap) -> IpAddr {
        client_address(peer, headers, &self.trusted_proxies)
    }
}

const X_FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");

/// Returns the address of the client: the peer's or, if the peer is a trusted proxy, the last
/// address in `X-Forwarded-For` or `Forwarded` that is not a trusted proxy's.
pub(in crate::server) fn client_address(
    peer: IpAddr,
    headers: &HeaderMap,
    trusted: &[IpNet],
) -> IpAddr {
    let peer = peer.to_canonical();
    if !is_in(peer, trusted) {
        return peer;
    }
    let by_x_forwarded_for = last_untrusted(peer, trusted, headers, &X_FORWARDED_FOR, address);
    let by_forwarded = last_untrusted(peer, trusted, headers, &header::FORWARDED, forwarded_for);
    match (by_x_forwarded_for, by_forwarded) {
        // A proxy that writes one of the headers may forward the other as the client sent it.
        (Some(one), Some(other)) if one != other => peer,
        (one, other) => one.or(other).unwrap_or(peer),
    }
}

/// Returns the key that one client counts under: an IPv4 address, or the /64 of an IPv6 address,
/// the least that a provider assigns to a subscriber.
pub(in crate::server) fn subscriber(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => {
            Ipv6Addr::from_bits(address.to_bits() & !u128::from(u64::MAX)).into()
        }
        v4 @ IpAddr::V4(_) => v4,
    }
}

/// Returns whether an address is in one of these networks.
pub(in crate::server) fn is_in(address: IpAddr, networks: &[IpNet]) -> bool {
    networks.iter().any(|network| network.contains(&address))
}

/// Follows a header from its end to the first address that is not a trusted proxy's. Ends earlier
/// at an element without an address: then the proxy that wrote that element is the last one known.
fn last_untrusted(
    peer: IpAddr,
    trusted: &[IpNet],
    headers: &HeaderMap,
    name: &HeaderName,
    read: fn(&str) -> Option<IpAddr>,
) -> Option<IpAddr> {
    let mut last = headers.contains_key(name).then_some(peer)?;
    for line in headers.get_all(name).into_iter().rev() {
        let Some(elements) = split(text_of(line), ',') else { return Some(last) };
        for element in elements.into_iter().rev() {
            let Some(address) = read(element.trim()) else { return Some(last) };
            last = address;
            if !is_in(address, trusted) {
                return Some(last);
            }
        }
    }
    Some(last)
}

/// Splits a text at separators outside quoted strings (RFC 9110, section 5.6.4); `None` if a quoted
/// string is not closed.
fn split(text: &str, separator: char) -> Option<Vec<&str>> {
    let (mut is_quoted, mut is_escaped) = (false, false);
    let parts = text.split(|letter| {
        let was_escaped = std::mem::take(&mut is_escaped);
        match letter {
            '"' if !was_escaped => is_quoted = !is_quoted,
            '\\' if is_quoted => is_escaped = !was_escaped,
            _ => {}
        }
        letter == separator && !is_quoted
    });
    let parts = parts.collect();
    (!is_quoted).then_some(parts)
}

fn text_of(line: &HeaderValue) -> &str {
    line.to_str().unwrap_or_default()
}

/// Parses an address, with or without a port.
fn address(text: &str) -> Option<IpAddr> {
    let bare = text.strip_prefix('[').and_then(|text| text.strip_suffix(']')).unwrap_or(text);
    let with_port = || text.parse::<SocketAddr>().ok().map(|address| address.ip());
    bare.parse().ok().or_else(with_port).map(|address: IpAddr| address.to_canonical())
}

/// Parses the `for` of an element of `Forwarded` (RFC 7239), which has at most one.
fn forwarded_for(element: &str) -> Option<IpAddr> {
    let pairs = split(element, ';')?.into_iter().map(str::trim).filter(|pair| !pair.is_empty());
    let pairs: Option<Vec<_>> = pairs.map(|pair| pair.split_once('=')).collect();
    let mut nodes = pairs?.into_iter().filter(|(name, _)| name.eq_ignore_ascii_case("for"));
    let (Some((_, node)), None) = (nodes.next(), nodes.next()) else { return None };
    let quoted = node.strip_prefix('"').and_then(|node| node.strip_suffix('"'));
    address(quoted.unwrap_or(node))
}

/// The requests of this time may come at once, from a client that was idle.
const BURST: Duration = Duration::from_secs(1);

const SHARDS: usize = 16;

/// The most clients in a shard: 65 536 in all, of about 40 bytes each.
const CLIENTS: usize = 4096;

/// Limits the requests of each client.
#[derive(Debug)]
pub(in crate::server) struct RateLimiter {
    /// The time between two requests at the permitted rate.
    gap: Duration,
    /// For each client, the instant at which it may burst again in full. A client without an entry
    /// may at once.
    shards: [Mutex<HashMap<u64, Instant>>; SHARDS],
}

impl RateLimiter {
    pub(in crate::server) fn new(per_second: NonZeroU32) -> Self {
        let gap = Duration::from_secs(1) / per_second.get();
        Self { gap, shards: Default::default() }
    }

    /// Counts a request of the client with this key, which is a hash.
    ///
    /// # Errors
    ///
    /// The time to wait before the next attempt. A refused request does not count.
    pub(in crate::server) fn count(&self, client: u64, now: Instant) -> Result<(), Duration> {
        let shard = &self.shards[usize::from(client.to_le_bytes()[7]) % SHARDS];
        let mut shard = shard.lock().unwrap_or_else(PoisonError::into_inner);
        let free_at = shard.get(&client).map_or(now, |free_at| now.max(*free_at)) + self.gap;
        if let Some(wait) = (free_at - now).checked_sub(BURST).filter(|wait| !wait.is_zero()) {
            return Err(wait);
        }
        if shard.len() >= CLIENTS && !shard.contains_key(&client) {
            shard.retain(|_, free_at| *free_at > now);
            // Full: forget every client. A limit per client does not stop an attacker with this
            // many addresses.
            if shard.len() > CLIENTS / 2 {
                shard.clear();
            }
        }
        shard.insert(client, free_at);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PROXIES: [&str; 2] = ["10.0.0.0/8", "fd00::/8"];

    fn client(peer: &str, headers: &[(&str, &str)]) -> String {
        let trusted = PROXIES.map(|network| network.parse().expect("a network"));
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            let name: HeaderName = name.parse().expect("a name");
            map.append(name, HeaderValue::from_bytes(value.as_bytes()).expect("a value"));
        }
        client_address(peer.parse().expect("an address"), &map, &trusted).to_string()
    }

    #[test]
    fn the_last_untrusted_address_counts() {
        for (peer, forwarded, expected) in [
            ("203.0.113.9", "198.51.100.1", "203.0.113.9"),
            ("::ffff:203.0.113.9", "198.51.100.1", "203.0.113.9"),
            ("10.1.2.3", "198.51.100.1", "198.51.100.1"),
            ("::ffff:10.1.2.3", "198.51.100.1", "198.51.100.1"),
            ("10.1.2.3", "192.0.2.66, 198.51.100.1", "198.51.100.1"),
            ("10.1.2.3", "192.0.2.66,198.51.100.1:4711 , 10.9.9.9", "198.51.100.1"),
            ("fd00::1", "2001:db8::1", "2001:db8::1"),
            ("fd00::1", "[2001:db8::1]:80, ::ffff:10.1.1.1", "2001:db8::1"),
            ("10.1.2.3", "10.4.4.4", "10.4.4.4"),
            ("10.1.2.3", "198.51.100.1, unknown, 10.9.9.9", "10.9.9.9"),
            ("10.1.2.3", "198.51.100.1, \u{f6}", "10.1.2.3"),
            ("10.1.2.3", "", "10.1.2.3"),
        ] {
            assert_eq!(client(peer, &[("x-forwarded-for", forwarded)]), expected, "{forwarded}");
        }
        assert_eq!(client("10.1.2.3", &[]), "10.1.2.3");
        let lines = [("x-forwarded-for", "192.0.2.66"), ("x-forwarded-for", "198.51.100.1")];
        assert_eq!(client("10.1.2.3", &lines), "198.51.100.1");
    }

    #[test]
    fn forwarded_is_read_too_and_must_not_contradict() {
        for (forwarded, expected) in [
            ("for=192.0.2.60;proto=http;by=203.0.113.43", "192.0.2.60"),
            ("for=192.0.2.66, proto=https;For=\"198.51.100.1:80\"", "198.51.100.1"),
            ("for=192.0.2.66, for=\"[2001:db8::1]:4711\"", "2001:db8::1"),
            ("for=192.0.2.66, for=_hidden", "10.1.2.3"),
            ("proto=https", "10.1.2.3"),
            ("for=198.51.100.1; ;proto=https;", "198.51.100.1"),
            // A quoted string may contain `,` and `;`: they do not separate elements.
            ("for=198.51.100.1;host=\"x,for=6.6.6.6\"", "198.51.100.1"),
            ("for=198.51.100.1;host=\"x;for=6.6.6.6\"", "198.51.100.1"),
            ("for=198.51.100.1;host=\"x\\\",for=6.6.6.6\"", "198.51.100.1"),
            ("host=\"x,for=6.6.6.6\";for=198.51.100.1", "198.51.100.1"),
            // Unclosed quoted strings: where the element ends is unknown.
            ("for=198.51.100.1, host=\"x, for=6.6.6.6", "10.1.2.3"),
            ("for=198.51.100.1, for=6.6.6.6;for=7.7.7.7", "10.1.2.3"),
            ("for=198.51.100.1, for=\"6.6.6.6", "10.1.2.3"),
            ("for=198.51.100.1, for=6.6.6.6;x", "10.1.2.3"),
        ] {
            assert_eq!(client("10.1.2.3", &[("forwarded", forwarded)]), expected, "{forwarded}");
        }
        let both = |other| [("x-forwarded-for", "198.51.100.1"), ("forwarded", other)];
        assert_eq!(client("10.1.2.3", &both("for=198.51.100.1")), "198.51.100.1");
        assert_eq!(client("10.1.2.3", &both("for=192.0.2.66")), "10.1.2.3");
    }

    #[test]
    fn a_subscriber_is_an_address_or_a_64() {
        for (address, expected) in [
            ("198.51.100.1", "198.51.100.1"),
            ("::ffff:198.51.100.1", "198.51.100.1"),
            ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::"),
        ] {
            let address = address.parse().expect("an address");
            assert_eq!(subscriber(address).to_string(), expected);
        }
    }

    fn limiter(per_second: u32) -> RateLimiter {
        RateLimiter::new(NonZeroU32::new(per_second).expect("not zero"))
    }

    #[test]
    fn a_client_has_a_second_at_once_and_then_its_rate() {
        let (limiter, start) = (limiter(4), Instant::now());
        let at = |ms| start + Duration::from_millis(ms);
        for _ in 0..4 {
            assert_eq!(limiter.count(7, at(0)), Ok(()));
        }
        assert_eq!(limiter.count(7, at(0)), Err(Duration::from_millis(250)));
        assert_eq!(limiter.count(7, at(100)), Err(Duration::from_millis(150)));
        assert_eq!(limiter.count(8, at(100)), Ok(()), "another client");
        assert_eq!(limiter.count(7, at(250)), Ok(()), "refused ones did not count");
        assert_eq!(limiter.count(7, at(250)), Err(Duration::from_millis(250)));
        let later = (0..9).filter(|_| limiter.count(7, at(60_000)).is_ok()).count();
        assert_eq!(later, 4, "an idle client saves no more than a second");
    }

    #[test]
    fn memory_is_bounded_and_idle_clients_go_first() {
        let (limiter, start) = (limiter(1), Instant::now());
        for client in 0..10 * CLIENTS as u64 {
            assert_eq!(limiter.count(client, start), Ok(()));
        }
        let clients = limiter.shards[0].lock().expect("unpoisoned").len();
        assert!(clients <= CLIENTS, "{clients}");
        let later = start + Duration::from_secs(2);
        assert_eq!(limiter.count(1, later), Ok(()));
        for client in 1..CLIENTS as u64 {
            let _ = limiter.count(1_000_000 + client, later);
        }
        assert!(limiter.count(1, later).is_err(), "it is still known");
    }
}
