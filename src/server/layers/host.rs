//! The header Host: that there is one (RFC 9112), and on the operators' listener which.
//!
//! A page of another site can make a browser connect to any address under a name of its own (DNS
//! rebinding), and then read the responses. The browser still sends that name.

use std::net::Ipv6Addr;

use axum::http::{HeaderMap, Version, header};

use crate::server::response::{Problem, ProblemCode};

/// Ends of names that only the machine or a Kubernetes cluster resolves.
const PRIVATE: [&str; 3] = [".localhost", ".svc", ".svc.cluster.local"];

/// Refuses a request of HTTP/1.1 without exactly one valid Host.
pub(super) fn check_host(version: Version, headers: &HeaderMap) -> Result<(), Problem> {
    if version != Version::HTTP_11 {
        return Ok(());
    }
    let mut hosts = headers.get_all(header::HOST).into_iter();
    let detail = match (hosts.next(), hosts.next()) {
        (Some(host), None) if split(host.as_bytes()).is_some() => return Ok(()),
        (Some(host), None) => format!("the header Host = {host:?}: must be a host, perhaps a port"),
        (Some(_), Some(_)) => "the header Host is there more than once".into(),
        (None, _) => "the header Host is missing".into(),
    };
    Err(Problem::new(ProblemCode::InvalidParameter, detail))
}

/// Refuses a name that another site may have. None has an address, a name without a dot or a
/// private one.
pub(super) fn check_admin_host(headers: &HeaderMap, allowed: &[String]) -> Result<(), Problem> {
    let Some(value) = headers.get(header::HOST) else { return Ok(()) };
    let host = split(value.as_bytes()).and_then(|host| std::str::from_utf8(host).ok());
    let is_own = |host: &str| {
        let is = |name: &String| host.eq_ignore_ascii_case(name.trim_end_matches('.'));
        let is_address = host.starts_with('[') || host.parse::<std::net::Ipv4Addr>().is_ok();
        let lower = host.to_ascii_lowercase();
        let is_private = PRIVATE.iter().any(|suffix| lower.ends_with(suffix));
        is_address || is_private || !host.contains('.') || allowed.iter().any(is)
    };
    if host.is_some_and(|host| is_own(host.trim_end_matches('.'))) {
        return Ok(());
    }
    let detail =
        format!("this listener does not answer under the name {value:?}; http.admin_hosts adds it");
    tracing::debug!(host = ?value, "request refused: not a name of the admin listener");
    Err(Problem::new(ProblemCode::Forbidden, detail))
}

/// Splits the port off; returns `None` if the value is no host.
fn split(value: &[u8]) -> Option<&[u8]> {
    let end = match value.first() {
        Some(b'[') => value.iter().position(|byte| *byte == b']')? + 1,
        _ => value.iter().position(|byte| *byte == b':').unwrap_or(value.len()),
    };
    let (host, port) = value.split_at(end);
    let port = if port.is_empty() { port } else { port.strip_prefix(b":")? };
    let is_in_name = |byte: &u8| match byte {
        b'-' | b'.' | b'_' | b'~' | b'%' | b'!' | b'$' | b'&' | b'\'' | b'(' | b')' | b'*'
        | b'+' | b',' | b';' | b'=' => true,
        _ => byte.is_ascii_alphanumeric(),
    };
    let is_host = match host.strip_prefix(b"[") {
        // Without its zone, which curl sends.
        Some(address) => std::str::from_utf8(&address[..address.len() - 1])
            .map(|address| address.split('%').next().unwrap_or_default())
            .is_ok_and(|address| address.parse::<Ipv6Addr>().is_ok()),
        None => host.iter().all(is_in_name),
    };
    (is_host && port.iter().all(u8::is_ascii_digit)).then_some(host)
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    #[test]
    fn hosts_are_split_from_their_ports() {
        for (value, host) in [
            ("example.com", Some("example.com")),
            ("example.com:8080", Some("example.com")),
            ("10.0.0.7:", Some("10.0.0.7")),
            ("[2001:db8::1]:80", Some("[2001:db8::1]")),
            ("[fe80::1%25eth0]:80", Some("[fe80::1%25eth0]")),
            ("[::1]", Some("[::1]")),
            ("", Some("")),
            ("a b", None),
            ("a/b", None),
            ("u@example.com", None),
            ("example.com:80x", None),
            ("example.com:80:81", None),
            ("[::1", None),
            ("[]", None),
            ("[::1]x", None),
            ("\u{f6}.example", None),
        ] {
            assert_eq!(split(value.as_bytes()), host.map(str::as_bytes), "{value}");
        }
    }

    #[test]
    fn names_that_another_site_may_have_are_refused() {
        let allowed = ["ids.example.com".to_owned(), "dotted.example.".to_owned()];
        for (host, is_allowed) in [
            ("127.0.0.1:9090", true),
            ("10.4.0.7", true),
            ("[::1]:9090", true),
            ("localhost:9090", true),
            ("LOCALHOST", true),
            ("a.LocalHost.", true),
            ("raindrop-1:9090", true),
            ("raindrop-admin.prod.svc:9090", true),
            ("raindrop-admin.prod.svc.cluster.local", true),
            ("IDS.example.com:9090", true),
            ("ids.example.com.", true),
            ("dotted.example", true),
            ("evil.example", false),
            ("evil.local", false),
            ("evilsvc", true),
            ("prod.evilsvc", false),
            ("evil.ids.example.com", false),
            ("127.0.0.1.evil.example", false),
            ("localhost.evil.example", false),
            ("127.0.0.1@evil.example", false),
        ] {
            let value = HeaderValue::from_static(host);
            let headers = HeaderMap::from_iter([(header::HOST, value)]);
            assert_eq!(check_admin_host(&headers, &allowed).is_ok(), is_allowed, "{host}");
        }
    }
}
