//! Which web pages may read responses through a browser (CORS), and which may send requests at all.

use std::time::Duration;

use axum::{
    extract::Request,
    http::{HeaderMap, HeaderName, HeaderValue, Method, header},
};
use tower::Layer as _;
use tower_http::cors::{AllowOrigin, Cors, CorsLayer};

use super::host::is_same_host;
use crate::{
    config::CorsOrigins,
    server::{
        request_log::REQUEST_ID,
        response::{Problem, ProblemCode},
    },
};

/// Tells whether the page that caused a request is of the same site. Browsers set it; pages cannot.
const SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// Adds CORS headers to responses, and answers preflights.
#[derive(Debug)]
pub(super) struct Browsers {
    cors: CorsLayer,
    is_cached: bool,
}

impl Browsers {
    /// Returns `None` if no origin is allowed. With `is_cached`, caches may store the responses and
    /// serve them to pages of other origins, so every response needs the headers.
    pub(super) fn new(origins: &CorsOrigins, is_cached: bool) -> Option<Self> {
        let origin = match origins {
            CorsOrigins::Any => AllowOrigin::any(),
            CorsOrigins::List(origins) if origins.is_empty() => return None,
            CorsOrigins::List(origins) => AllowOrigin::list(origins.clone()),
        };
        let cors = CorsLayer::new()
            .allow_origin(origin)
            .allow_methods([Method::GET, Method::HEAD, Method::POST])
            // `*` allows every header but `Authorization` (Fetch standard).
            .allow_headers([HeaderName::from_static("*"), header::AUTHORIZATION])
            .expose_headers([header::RETRY_AFTER, REQUEST_ID])
            .max_age(Duration::from_hours(1));
        Some(Self { cors, is_cached })
    }

    /// Returns whether a request is a preflight, or its response needs CORS headers.
    pub(super) fn need_headers(&self, request: &Request) -> bool {
        let headers = request.headers();
        match *request.method() {
            // `CorsLayer` takes every OPTIONS for a preflight. Without this header it is an
            // ordinary request.
            Method::OPTIONS => headers.contains_key(header::ACCESS_CONTROL_REQUEST_METHOD),
            _ => self.is_cached || headers.contains_key(header::ORIGIN),
        }
    }

    /// Wraps a service so that its responses get the headers.
    pub(super) fn around<S>(&self, inner: S) -> Cors<S> {
        self.cors.layer(inner)
    }
}

/// Refuses a request that a browser sends for a page of another site, unless its origin is allowed.
/// CORS alone does not: browsers send such requests, and only keep the page from reading the
/// response.
///
/// 1. If there is an `Origin`, it decides.
/// 2. Otherwise `Sec-Fetch-Site` decides. Browsers send it only over HTTPS and to `localhost`.
/// 3. Otherwise `Referer` decides, which a page can suppress.
/// 4. Otherwise a request whose `Accept` is a browser's for an image or a style sheet is refused;
///    with Firefox also one for a video or a sound. Without `Referer`, a script, a `fetch`, a
///    frame, and in other browsers a video or a sound look like a request of a program, and pass.
pub(super) fn check_origin(origins: &CorsOrigins, headers: &HeaderMap) -> Result<(), Problem> {
    let CorsOrigins::List(allowed) = origins else { return Ok(()) };
    let site = headers.get(SEC_FETCH_SITE).map(HeaderValue::as_bytes);
    let is_allowed = |origin: &[u8]| allowed.iter().any(|it| it.as_bytes() == origin);
    let page = match (headers.get(header::ORIGIN), site, headers.get(header::REFERER)) {
        (Some(origin), ..) if allowed.contains(origin) || is_own(origin, site, headers) => {
            return Ok(());
        }
        (Some(origin), ..) => format!("pages of {origin:?}"),
        (None, Some(b"cross-site"), _) => "pages of other sites".into(),
        (None, Some(_), _) => return Ok(()),
        (None, None, Some(page)) if !page.is_empty() => {
            let origin = origin_of(page.as_bytes());
            if is_allowed(origin) || names_host(origin, headers) {
                return Ok(());
            }
            "pages of other sites (Referer)".into()
        }
        (None, None, _) if loads_part_of_page(headers) => {
            "images, style sheets, videos and sounds of pages (Accept)".into()
        }
        (None, None, _) => return Ok(()),
    };
    tracing::debug!(page, "request refused: not an allowed origin");
    let detail = format!("{page} may not call this service: see http.cors_origins");
    Err(Problem::new(ProblemCode::Forbidden, detail))
}

/// Refuses a change that a browser sends for a page that is not this service's own.
pub(super) fn check_own_page(headers: &HeaderMap) -> Result<(), Problem> {
    let site = headers.get(SEC_FETCH_SITE).map(HeaderValue::as_bytes);
    let is_own = match headers.get(header::ORIGIN) {
        Some(origin) => is_own(origin, site, headers),
        // "none": the person typed the address or used a bookmark, so no page caused the request.
        None => site.is_none_or(|site| site == b"same-origin" || site == b"none"),
    };
    if is_own {
        return Ok(());
    }
    tracing::debug!("request refused: it comes from a page of another site");
    Err(Problem::new(ProblemCode::Forbidden, "pages of other sites may not change anything here"))
}

/// Returns whether the page came from this service's own address. Without `Sec-Fetch-Site` only
/// hosts and ports are compared: behind a gateway that ends TLS, the origin's scheme is the
/// gateway's.
fn is_own(origin: &HeaderValue, site: Option<&[u8]>, headers: &HeaderMap) -> bool {
    match site {
        Some(site) => site == b"same-origin",
        None => names_host(origin.as_bytes(), headers),
    }
}

/// Returns whether an origin has the host and port of the request's `Host`.
fn names_host(origin: &[u8], headers: &HeaderMap) -> bool {
    let origin = std::str::from_utf8(origin).ok().and_then(|origin| origin.split_once("://"));
    match (origin, headers.get(header::HOST)) {
        (Some((scheme @ ("http" | "https"), host)), Some(own)) => {
            is_same_host(Some(scheme), own.as_bytes(), host.as_bytes())
        }
        _ => false,
    }
}

/// Returns the origin of an address: its scheme, host and port.
fn origin_of(address: &[u8]) -> &[u8] {
    let is_slash = |(_, byte): &(usize, &u8)| **byte == b'/';
    let third = address.iter().enumerate().filter(is_slash).nth(2);
    &address[..third.map_or(address.len(), |(at, _)| at)]
}

/// Returns whether `Accept` is a browser's for a part of a page, which names the types of that part
/// first. A program that wants an ID accepts none of them, or names JSON first.
fn loads_part_of_page(headers: &HeaderMap) -> bool {
    let first = headers.get(header::ACCEPT).and_then(|accept| accept.to_str().ok());
    let first = first.and_then(|accept| accept.split([',', ';']).next()).unwrap_or_default().trim();
    let is = |part: Option<&str>, kind: &str| part.is_some_and(|it| it.eq_ignore_ascii_case(kind));
    let begins_with = |kind: &str| is(first.get(..kind.len()), kind);
    ["image/", "video/", "audio/", "font/", "text/css"].into_iter().any(begins_with)
        || is(first.rsplit_once('/').map(|(_, subtype)| subtype), "javascript")
}
