//! Which browsers may call the routes for clients.

use std::{convert::Infallible, future::ready, time::Duration};

use axum::http::{
    HeaderMap, HeaderName, HeaderValue, Method, Request, Response, header, request::Parts,
};
use tower::{Layer, Service, service_fn};
use tower_http::cors::{AllowOrigin, CorsLayer};

use super::{
    body::ResponseBody,
    problem::{Problem, ProblemCode},
    route::{Kind, Route},
};
use crate::config::CorsOrigins;

/// Where the page is from that a browser sends a request for; pages cannot set it.
const SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// The origins whose pages may call the service.
#[derive(Clone, Debug)]
pub(super) struct Cors(CorsLayer);

impl Cors {
    /// None when no origin is allowed.
    pub(super) fn new(origins: &CorsOrigins) -> Option<Self> {
        let origin = match origins {
            CorsOrigins::Any => AllowOrigin::any(),
            CorsOrigins::List(origins) if origins.is_empty() => return None,
            CorsOrigins::List(origins) => AllowOrigin::list(origins.clone()),
        };
        let layer = CorsLayer::new()
            .allow_origin(origin)
            .allow_methods([Method::GET, Method::HEAD, Method::POST])
            // Every header, and the one that * leaves out.
            .allow_headers([HeaderName::from_static("*"), header::AUTHORIZATION])
            .expose_headers([header::RETRY_AFTER])
            .max_age(Duration::from_hours(1));
        Some(Self(layer))
    }

    /// Whether a response gets headers for browsers. Caches keep no IDs, so those get them only
    /// for browsers; the other responses may be kept, and then be used for a browser, too.
    pub(super) fn applies(route: &Route, head: &Parts) -> bool {
        let is_cached = route.kind != Kind::Claim;
        let by_browser = is_cached || head.headers.contains_key(header::ORIGIN);
        let is_option = head.method == Method::OPTIONS;
        let may_read = route.is_for_clients || route.kind == Kind::Document;
        may_read && (is_preflight(head) || by_browser && !is_option)
    }

    /// Adds the headers to a response; answers a preflight itself.
    pub(super) async fn add_headers(
        &self,
        head: Parts,
        response: Response<ResponseBody>,
    ) -> Response<ResponseBody> {
        let mut response = Some(response);
        let respond = service_fn(move |_| {
            ready(Ok::<_, Infallible>(response.take().expect("one response for one request")))
        });
        let Ok(response) = self.0.layer(respond).call(Request::from_parts(head, ())).await;
        response
    }
}

/// The origins whose pages may call the routes for clients. Those of other origins are refused,
/// since a browser sends their requests even where it does not let them read the responses.
#[derive(Clone, Debug)]
pub(super) struct AllowedOrigins(Vec<HeaderValue>);

impl AllowedOrigins {
    /// None when every origin is allowed.
    pub(super) fn new(origins: &CorsOrigins) -> Option<Self> {
        match origins {
            CorsOrigins::Any => None,
            CorsOrigins::List(origins) => Some(Self(origins.clone())),
        }
    }

    /// Refuses a request that a browser sends for a page of another site.
    pub(super) fn check(&self, headers: &HeaderMap) -> Result<(), Problem> {
        let site = headers.get(SEC_FETCH_SITE).map(HeaderValue::as_bytes);
        let page = match headers.get(header::ORIGIN) {
            Some(origin) if self.0.contains(origin) || is_own(origin, site, headers) => {
                return Ok(());
            }
            Some(origin) => format!("pages of {origin:?}"),
            None if site == Some(b"cross-site") => "pages of other sites".into(),
            None => return Ok(()),
        };
        tracing::debug!(page, "request refused: not an allowed origin");
        let detail = format!("{page} may not call this service: see http.cors_origins");
        Err(Problem::new(ProblemCode::Forbidden, detail))
    }
}

/// Refuses a request that a browser sends for a page that is not this service's own: for what
/// changes something.
pub(super) fn check_own_page(headers: &HeaderMap) -> Result<(), Problem> {
    let site = headers.get(SEC_FETCH_SITE).map(HeaderValue::as_bytes);
    let is_own = match headers.get(header::ORIGIN) {
        Some(origin) => is_own(origin, site, headers),
        // "none" is what a person does, without a page.
        None => site.is_none_or(|site| site == b"same-origin" || site == b"none"),
    };
    if is_own {
        return Ok(());
    }
    tracing::debug!("request refused: it comes from a page of another site");
    Err(Problem::new(ProblemCode::Forbidden, "pages of other sites may not change anything here"))
}

/// Whether the page came from this service's own address, as behind a gateway with both.
fn is_own(origin: &HeaderValue, site: Option<&[u8]>, headers: &HeaderMap) -> bool {
    let origin = origin.as_bytes();
    let host = origin.strip_prefix(b"https://").or_else(|| origin.strip_prefix(b"http://"));
    let is_host = |host: &[u8]| {
        headers.get(header::HOST).is_some_and(|own| own.as_bytes().eq_ignore_ascii_case(host))
    };
    site == Some(b"same-origin") || host.is_some_and(is_host)
}

/// Whether a browser asks if it may send a request. Every other OPTIONS is just another method.
pub(super) fn is_preflight(head: &Parts) -> bool {
    head.method == Method::OPTIONS
        && head.headers.contains_key(header::ACCESS_CONTROL_REQUEST_METHOD)
}
