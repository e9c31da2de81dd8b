//! Checks the header `Host`: there is one, it names the host of the request target (RFC 9110, RFC
//! 9112), and on the operators' listener no other site can own the name.
//!
//! DNS rebinding: a site can let a name of its own resolve to any address, so that the browser
//! connects to this service and lets the site's page read the responses. The browser still sends
//! the site's name.

use std::net::Ipv6Addr;

use axum::http::{HeaderMap, HeaderValue, Uri, Version, header, uri::Authority};

use crate::server::response::{Problem, ProblemCode};

/// Suffixes of names that only the machine or a Kubernetes cluster resolves.
const PRIVATE: [&str; 3] = [".localhost", ".svc", ".svc.cluster.local"];

/// Refuses a request with several `Host` headers, an invalid one, or one that differs from its
/// target's host, and one of HTTP/1.1 without any. Otherwise a proxy and this service could take it
/// for requests to two hosts. HTTP/2 names the host in the target; the listener copies it to the
/// header.
pub(super) fn check_host(
    version: Version,
    target: &Uri,
    headers: &HeaderMap,
) -> Result<(), Problem> {
    let mut hosts = headers.get_all(header::HOST).into_iter();
    let detail = match (hosts.next(), hosts.next()) {
        (None, _) if version != Version::HTTP_11 => return Ok(()),
        (None, _) => "the header Host is missing".into(),
        (Some(_), Some(_)) => "the header Host is there more than once".into(),
        (Some(host), None) if split(host.as_bytes()).is_none() => {
            format!("the header Host = {host:?}: must be a host, perhaps a port")
        }
        (Some(host), None) => match target.authority().map(host_and_port) {
            Some(other)
                if !is_same_host(target.scheme_str(), host.as_bytes(), other.as_bytes()) =>
            {
                format!("the header Host = {host:?}: must be {other:?}, as the request target says")
            }
            _ => return Ok(()),
        },
    };
    Err(Problem::new(ProblemCode::InvalidParameter, detail))
}

/// Returns an authority without its userinfo, which `Host` never has.
fn host_and_port(authority: &Authority) -> &str {
    let authority = authority.as_str();
    authority.rsplit_once('@').map_or(authority, |(_, host)| host)
}

/// Returns whether two values name the same host and port. Either may omit the scheme's default
/// port.
pub(super) fn is_same_host(scheme: Option<&str>, one: &[u8], other: &[u8]) -> bool {
    let [one, other] = [one, other].map(|host| without_default_port(scheme, host));
    one.eq_ignore_ascii_case(other)
}

fn without_default_port<'a>(scheme: Option<&str>, host: &'a [u8]) -> &'a [u8] {
    let port: &[u8] = match scheme {
        Some("http") => b":80",
        Some("https") => b":443",
        _ => return host,
    };
    host.strip_suffix(port).or_else(|| host.strip_suffix(b":")).unwrap_or(host)
}

/// Refuses transfer codings other than `chunked`, which are not decoded here. If `chunked` is not
/// the last of them, hyper has answered with 400 already.
pub(super) fn check_coding(headers: &HeaderMap) -> Result<(), Problem> {
    let mut codings = headers.get_all(header::TRANSFER_ENCODING).into_iter();
    let is_chunked = |coding: &HeaderValue| coding.as_bytes().eq_ignore_ascii_case(b"chunked");
    match (codings.next(), codings.next()) {
        (None, _) => Ok(()),
        (Some(coding), None) if is_chunked(coding) => Ok(()),
        (Some(coding), _) => {
            let detail =
                format!("the header Transfer-Encoding = {coding:?}: must be chunked alone");
            let problem = Problem::new(ProblemCode::NotImplemented, detail);
            Err(problem.with_header(header::CONNECTION, "close"))
        }
    }
}

/// Refuses a `Host` that another site could own. It cannot own an IP address, a single-label name,
/// a name that only the machine or the cluster resolves, or one of `http.admin_hosts`.
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

/// Returns the host without its port; `None` if the value is not a valid host.
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
        // curl sends the zone of a link-local address, which `Ipv6Addr` does not parse.
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
    fn target_and_host_name_one_host() {
        let check = |version, target: &'static str, hosts: &[&'static str]| {
            let value = |host: &&'static str| (header::HOST, HeaderValue::from_static(host));
            let mut headers = HeaderMap::new();
            for (name, value) in hosts.iter().map(value) {
                headers.append(name, value);
            }
            check_host(version, &Uri::from_static(target), &headers).is_ok()
        };
        for (target, hosts, is_allowed) in [
            ("/id/x", &["a.example"][..], true),
            ("/id/x", &["a.example", "a.example"], false),
            ("/id/x", &["a.example", "b.example"], false),
            ("/id/x", &["u@a.example"], false),
            ("http://a.example/id/x", &["A.example"], true),
            ("http://a.example:80/id/x", &["a.example:80"], true),
            ("http://a.example/id/x", &["a.example:80"], true),
            ("http://a.example:80/id/x", &["A.example"], true),
            ("http://a.example:80/id/x", &["a.example:"], true),
            ("https://a.example/id/x", &["a.example:443"], true),
            ("http://[::80]/id/x", &["[::80]:80"], true),
            ("http://u@a.example/id/x", &["a.example"], true),
            ("http://u:p@a.example:80/id/x", &["a.example"], true),
            ("a.example:80", &["a.example:80"], true),
            ("a.example:80", &["a.example"], false),
            ("http://a.example/id/x", &["b.example"], false),
            ("http://b.example@a.example/id/x", &["b.example"], false),
            ("http://u@a.example/id/x", &["u@a.example"], false),
            ("http://a.example/id/x", &["a.example:8080"], false),
            ("http://a.example/id/x", &["a.example:443"], false),
            ("https://a.example/id/x", &["a.example:80"], false),
            ("http://[::80]/id/x", &["[:"], false),
        ] {
            for version in [Version::HTTP_10, Version::HTTP_11, Version::HTTP_2] {
                let found = check(version, target, hosts);
                assert_eq!(found, is_allowed, "{version:?} {target} {hosts:?}");
            }
        }
        assert!(!check(Version::HTTP_11, "/id/x", &[]));
        assert!(check(Version::HTTP_10, "/id/x", &[]) && check(Version::HTTP_2, "/id/x", &[]));
    }

    #[test]
    fn chunked_alone_is_decoded() {
        let check = |codings: &[&'static str]| {
            let mut headers = HeaderMap::new();
            for coding in codings {
                headers.append(header::TRANSFER_ENCODING, HeaderValue::from_static(coding));
            }
            check_coding(&headers).map_err(|problem| problem.code())
        };
        for codings in [&[][..], &["chunked"], &["Chunked"]] {
            assert_eq!(check(codings), Ok(()), "{codings:?}");
        }
        for codings in
            [&["gzip, chunked"][..], &["gzip", "chunked"], &["chunked, chunked"], &["identity"]]
        {
            assert_eq!(check(codings), Err(ProblemCode::NotImplemented), "{codings:?}");
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
