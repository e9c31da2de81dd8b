//! Finds the address of a request's client, also behind trusted proxies.

use std::net::{IpAddr, Ipv6Addr, SocketAddr};

use axum::http::{HeaderMap, HeaderName, HeaderValue, header};
use ipnet::IpNet;

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
}
