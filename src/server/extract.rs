//! What handlers are given of a request. Whatever cannot be read is a problem that says why.

use std::{convert::Infallible, error::Error, net::IpAddr, sync::Arc};

use axum::{
    body::{Body, Bytes, HttpBody as _, to_bytes},
    extract::{self, FromRequest, FromRequestParts, Request},
    http::{HeaderMap, Method, StatusCode, Version, header, request::Parts},
    response::Response,
};
use http_body_util::LengthLimitError;
use serde::{Serialize, de::DeserializeOwned};
use utoipa::IntoParams;

use super::{
    audience::{Audience, Listener},
    listener::Connection,
    openapi,
    response::{
        Problem, ProblemCode, Reservation, UnsentBudget,
        body::{json_bytes, response, uncached},
    },
};
use crate::{
    auth::Caller,
    core::{encoding::Encoding, instant::parse_unix_ms},
};

/// The largest body in bytes; no request needs one.
const LARGEST_BODY: usize = 64 * 1024;

/// Who sends a request: the connection on which it came, if a listener of ours accepted it, and the
/// client, once the gate has let it in. One extension, since each of them is allocated.
#[derive(Clone)]
pub(super) struct Sender {
    connection: Option<Arc<Connection>>,
    client: Option<Client>,
}

impl Sender {
    pub(super) fn on(connection: Arc<Connection>) -> Self {
        Self { connection: Some(connection), client: None }
    }

    pub(super) fn connection(request: &Request) -> Option<&Arc<Connection>> {
        request.extensions().get::<Self>()?.connection.as_ref()
    }

    /// Notes the client of a request that was let in.
    pub(super) fn let_in(request: &mut Request, client: Client) {
        let extensions = request.extensions_mut();
        match extensions.get_mut::<Self>() {
            Some(sender) => sender.client = Some(client),
            None => drop(extensions.insert(Self { connection: None, client: Some(client) })),
        }
    }
}

/// Who sends a request, as the gate found out.
#[derive(Clone, Debug)]
pub(super) struct Client {
    pub(super) caller: Caller,
    /// Unknown for a request that no listener of ours accepted.
    pub(super) address: Option<IpAddr>,
    pub(super) version: Version,
    pub(super) listener: Listener,
    pub(super) audience: Audience,
    /// Bounds the memory of responses.
    pub(super) unsent: UnsentBudget,
}

impl Client {
    /// Reserves memory for a response of this many bytes, until it is sent. A part of the memory is
    /// for operators, on their listener and for their routes elsewhere.
    pub(super) fn reserve(&self, bytes: usize) -> Result<Option<Arc<Reservation>>, Problem> {
        let is_for_operators =
            self.is_operator() || matches!(self.audience, Audience::Operators | Audience::Scrapers);
        self.unsent.reserve(bytes, self.version, !is_for_operators)
    }

    /// A JSON response that caches may keep, and whose memory is reserved.
    pub(super) fn cached_json(&self, value: &impl Serialize) -> Result<Response, Problem> {
        let json = json_bytes(value);
        let reservation = self.reserve(json.len())?;
        Ok(response("application/json", json, reservation))
    }

    /// A JSON response that no cache keeps, and whose memory is reserved.
    pub(super) fn json(
        &self,
        status: StatusCode,
        value: &impl Serialize,
    ) -> Result<Response, Problem> {
        Ok(uncached(status, self.cached_json(value)?))
    }

    /// Whether the request came by the operators' listener.
    pub(super) fn is_operator(&self) -> bool {
        self.listener == Listener::Operators
    }
}

impl<S: Sync> FromRequestParts<S> for Client {
    type Rejection = Infallible;

    async fn from_request_parts(head: &mut Parts, _: &S) -> Result<Self, Infallible> {
        let client = head.extensions.get_mut::<Sender>().and_then(|sender| sender.client.take());
        Ok(client.expect("every route has a gate, and no handler asks twice"))
    }
}

/// The parameter in the path, decoded; a handler says itself what is wrong with `None`, which is no
/// UTF-8.
#[derive(Debug)]
pub(super) struct InPath(pub(super) Option<String>);

impl<S: Send + Sync> FromRequestParts<S> for InPath {
    type Rejection = Infallible;

    async fn from_request_parts(head: &mut Parts, state: &S) -> Result<Self, Infallible> {
        let text = extract::Path::<String>::from_request_parts(head, state).await;
        Ok(Self(text.ok().map(|extract::Path(text)| text)))
    }
}

/// What the API document says of the code in a path.
#[derive(IntoParams)]
#[into_params(parameter_in = Path)]
#[expect(dead_code, reason = "InPath reads it")]
pub(super) struct CodeInPath {
    /// The caller's name for a sequence.
    #[param(inline, value_type = openapi::Code)]
    code: String,
}

/// The query parameters, read strictly: a typing error must not silently mean the default.
#[derive(Debug)]
pub(super) struct Query<T>(pub(super) T);

impl<S: Sync, T: DeserializeOwned> FromRequestParts<S> for Query<T> {
    type Rejection = Problem;

    async fn from_request_parts(head: &mut Parts, _: &S) -> Result<Self, Problem> {
        let query = extract::Query::try_from_uri(&head.uri);
        query.map(|extract::Query(query)| Self(query)).map_err(|error| {
            let mut cause: &dyn Error = &error;
            while let Some(source) = cause.source() {
                cause = source;
            }
            // serde speaks of fields.
            let text = cause.to_string().replace("unknown field", "unknown parameter");
            let text = text.replace("duplicate field", "given more than once: parameter");
            invalid(text.replace('`', "\""))
        })
    }
}

/// A body that is read as a JSON object; an empty one is an object without fields.
#[derive(Debug)]
pub(super) struct JsonBody<T>(pub(super) T);

impl<S: Sync, T: DeserializeOwned> FromRequest<S> for JsonBody<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, _: &S) -> Result<Self, Problem> {
        let is_json = is_json(request.headers());
        let body = read(request.into_body(), LARGEST_BODY, too_large).await?;
        let body = match &*body {
            [] => b"{}",
            _ if !is_json => {
                let detail = "the header Content-Type must be application/json";
                return Err(Problem::new(ProblemCode::UnsupportedMediaType, detail));
            }
            body => body,
        };
        // An array would be read as the fields in their order.
        if body.trim_ascii_start().first() != Some(&b'{') {
            return Err(invalid("the body: must be a JSON object"));
        }
        let value = serde_json::from_slice(body);
        value.map(Self).map_err(|error| invalid(format!("the body: {error}")))
    }
}

/// The body of a request that has none: one that has is refused, because it would be ignored.
#[derive(Debug)]
pub(super) struct NoBody;

impl<S: Sync> FromRequest<S> for NoBody {
    type Rejection = Problem;

    async fn from_request(request: Request, _: &S) -> Result<Self, Problem> {
        // GET and HEAD have none that means anything.
        if matches!(*request.method(), Method::GET | Method::HEAD) {
            return Ok(Self);
        }
        let refuse = || {
            let detail = "a body is not read: ask by path and query, as in POST /ids/order?n=3";
            Problem::new(ProblemCode::UnsupportedMediaType, detail)
        };
        // One that is sent in chunks may turn out to be empty.
        read(request.into_body(), 0, refuse).await.map(|_| Self)
    }
}

/// Reads a body of at most so many bytes.
async fn read(body: Body, most: usize, longer: fn() -> Problem) -> Result<Bytes, Problem> {
    to_bytes(body, most).await.map_err(|error| {
        let error = error.into_inner();
        let unreadable = || invalid(format!("cannot read the body: {error}"));
        if error.is::<LengthLimitError>() { longer() } else { unreadable() }
    })
}

/// Refuses a body that is announced to be too large, before any of it is asked for.
pub(super) fn check_body(body: &Body) -> Result<(), Problem> {
    if body.size_hint().lower() > LARGEST_BODY as u64 { Err(too_large()) } else { Ok(()) }
}

fn too_large() -> Problem {
    let detail = format!("the body must have at most {LARGEST_BODY} bytes");
    let problem = Problem::new(ProblemCode::PayloadTooLarge, detail);
    // What is left of the body is not read, even where it has arrived already.
    problem.with_header(header::CONNECTION, "close")
}

fn is_json(headers: &HeaderMap) -> bool {
    let content_type = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok());
    let media_type = content_type.map(|text| text.split(';').next().unwrap_or_default().trim());
    media_type.is_some_and(|media_type| media_type.eq_ignore_ascii_case("application/json"))
}

/// Parses a parameter, if it is given; `allowed` says what it must be.
pub(super) fn parse<T>(
    name: &str,
    text: Option<&str>,
    allowed: impl FnOnce() -> String,
    parse: impl FnOnce(&str) -> Option<T>,
) -> Result<Option<T>, Problem> {
    let Some(text) = text else { return Ok(None) };
    let refuse = || invalid(format!("{name} = {text:?}: must be {}", allowed()));
    parse(text).ok_or_else(refuse).map(Some)
}

/// The parameter `encoding`; decimal when it is missing.
pub(super) fn encoding(text: Option<&str>) -> Result<Encoding, Problem> {
    let names = || format!("one of {}", Encoding::ALL.map(Encoding::name).join(", "));
    Ok(parse("encoding", text, names, Encoding::by_name)?.unwrap_or_default())
}

/// An instant, if it is given; Unix ms.
pub(super) fn instant(name: &str, text: Option<&str>) -> Result<Option<i64>, Problem> {
    let form = "an RFC 3339 instant such as 2026-11-20T00:00:00Z; a + is written %2B in an address";
    parse(name, text, || form.into(), parse_unix_ms)
}

pub(super) fn invalid(detail: impl Into<String>) -> Problem {
    Problem::new(ProblemCode::InvalidParameter, detail)
}
