//! Extractors of the handlers: client, path, query and body. An input that cannot be read becomes a
//! problem that says what is wrong with it.

use std::{convert::Infallible, error::Error, net::IpAddr, sync::Arc};

use axum::{
    body::{Body, Bytes, HttpBody as _, to_bytes},
    extract::{self, FromRequest, FromRequestParts, Request},
    http::{HeaderMap, Method, StatusCode, Version, header, request::Parts},
    response::Response,
};
use http_body_util::LengthLimitError;
use serde::{Deserialize, Deserializer, Serialize, de::DeserializeOwned};
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

/// The largest body in bytes, more than any valid request has.
const LARGEST_BODY: usize = 64 * 1024;

/// The sender of a request: its connection, if one of our listeners accepted it, and its client,
/// once the gate has admitted it. Both are in one extension, since each extension costs an
/// allocation.
#[derive(Clone)]
pub(super) struct Sender {
    connection: Option<Arc<Connection>>,
    client: Option<Client>,
}

impl Sender {
    pub(super) fn from_connection(connection: Arc<Connection>) -> Self {
        Self { connection: Some(connection), client: None }
    }

    pub(super) fn connection(request: &Request) -> Option<&Arc<Connection>> {
        request.extensions().get::<Self>()?.connection.as_ref()
    }

    /// Records the client of a request that the gate admitted.
    pub(super) fn set_client(request: &mut Request, client: Client) {
        let extensions = request.extensions_mut();
        match extensions.get_mut::<Self>() {
            Some(sender) => sender.client = Some(client),
            None => drop(extensions.insert(Self { connection: None, client: Some(client) })),
        }
    }
}

/// The client of a request, as the gate identified it.
#[derive(Clone, Debug)]
pub(super) struct Client {
    pub(super) caller: Caller,
    /// `None` if the request came through neither our listener nor an embedding server that sets
    /// `ConnectInfo`.
    pub(super) address: Option<IpAddr>,
    pub(super) version: Version,
    pub(super) listener: Listener,
    pub(super) audience: Audience,
    /// Bounds the memory of responses.
    pub(super) unsent_budget: UnsentBudget,
}

impl Client {
    /// Reserves memory for a response of this many bytes, until it is sent. Clients cannot reserve
    /// the last part of the budget: it is left to operators and scrapes.
    pub(super) fn reserve(&self, bytes: usize) -> Result<Option<Arc<Reservation>>, Problem> {
        let is_for_operators =
            self.is_operator() || matches!(self.audience, Audience::Operators | Audience::Scrapers);
        self.unsent_budget.reserve(bytes, self.version, !is_for_operators)
    }

    /// Returns a JSON response that caches may store, with its memory reserved.
    pub(super) fn cached_json(&self, value: &impl Serialize) -> Result<Response, Problem> {
        let json = json_bytes(value);
        let reservation = self.reserve(json.len())?;
        Ok(response("application/json", json, reservation))
    }

    /// Returns a JSON response that no cache may store, with its memory reserved.
    pub(super) fn json(
        &self,
        status: StatusCode,
        value: &impl Serialize,
    ) -> Result<Response, Problem> {
        Ok(uncached(status, self.cached_json(value)?))
    }

    /// Returns whether the request came through the operators' listener.
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

/// The parameter in the path, decoded; `None` if it is not UTF-8. Each handler answers that with
/// its own problem.
#[derive(Debug)]
pub(super) struct InPath(pub(super) Option<String>);

impl<S: Send + Sync> FromRequestParts<S> for InPath {
    type Rejection = Infallible;

    async fn from_request_parts(head: &mut Parts, state: &S) -> Result<Self, Infallible> {
        let text = extract::Path::<String>::from_request_parts(head, state).await;
        Ok(Self(text.ok().map(|extract::Path(text)| text)))
    }
}

/// Describes the code in a path for the API document.
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
            // serde's messages say "field"; clients know them as parameters.
            let text = cause.to_string().replace("unknown field", "unknown parameter");
            let text = text.replace("duplicate field", "given more than once: parameter");
            invalid(text.replace('`', "\""))
        })
    }
}

/// Reads several query parameters, as strictly as [`Query`] and with the same errors. It returns
/// the values in the order of their names. Without serde, a request for an ID with a query costs a
/// tenth less.
pub(super) fn parameters<const N: usize>(
    query: &str,
    names: [&str; N],
) -> Result<[Option<String>; N], Problem> {
    let mut values = [const { None }; N];
    for (name, value) in form_urlencoded::parse(query.as_bytes()) {
        let index = names.iter().position(|known| *known == name).ok_or_else(|| {
            let known = names.map(|known| format!("\"{known}\"")).join(", ");
            invalid(format!("{name}: unknown parameter \"{name}\", expected one of {known}"))
        })?;
        if values[index].replace(value.into_owned()).is_some() {
            return Err(invalid(format!("given more than once: parameter \"{name}\"")));
        }
    }
    Ok(values)
}

/// A body that must be a JSON object. An empty body counts as an object without fields.
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
        // serde would accept an array, as the values of the fields in their order.
        if body.trim_ascii_start().first() != Some(&b'{') {
            return Err(invalid("the body: must be a JSON object"));
        }
        parse_json(body).map(Self).map_err(|error| invalid(format!("the body: {error}")))
    }
}

/// Reads JSON. An error of a value names its key, and one of the syntax its place.
pub(super) fn parse_json<T: DeserializeOwned>(json: &[u8]) -> Result<T, String> {
    let mut reader = serde_json::Deserializer::from_slice(json);
    let value = serde_path_to_error::deserialize(&mut reader).map_err(|error| {
        let (text, cause) = (error.to_string(), error.inner());
        let place = format!(" at line {} column {}", cause.line(), cause.column());
        match text.strip_suffix(&place) {
            Some(named) if cause.is_data() => named.to_owned(),
            _ => text,
        }
    })?;
    reader.end().map_err(|error| error.to_string())?;
    Ok(value)
}

/// Reads a key that may be left out but has no null, which would count as left out.
pub(super) fn given<'a, D: Deserializer<'a>, T: Deserialize<'a>>(
    value: D,
) -> Result<Option<T>, D::Error> {
    T::deserialize(value).map(Some)
}

/// Refuses a request with a body on a route that reads none: the client would believe that it was
/// read.
#[derive(Debug)]
pub(super) struct NoBody;

impl<S: Sync> FromRequest<S> for NoBody {
    type Rejection = Problem;

    async fn from_request(request: Request, _: &S) -> Result<Self, Problem> {
        // In GET and HEAD a body has no meaning (RFC 9110), so it is ignored.
        if matches!(*request.method(), Method::GET | Method::HEAD) {
            return Ok(Self);
        }
        let refuse = || {
            let detail = "a body is not read: ask by path and query, as in POST /ids/order?n=3";
            Problem::new(ProblemCode::UnsupportedMediaType, detail)
        };
        // A chunked body has no announced length and may turn out to be empty, so it is read.
        read(request.into_body(), 0, refuse).await.map(|_| Self)
    }
}

/// Reads a body of at most `most` bytes; a longer one is the problem that `longer` returns.
async fn read(body: Body, most: usize, longer: fn() -> Problem) -> Result<Bytes, Problem> {
    to_bytes(body, most).await.map_err(|error| {
        let error = error.into_inner();
        let unreadable = || invalid(format!("cannot read the body: {error}"));
        if error.is::<LengthLimitError>() { longer() } else { unreadable() }
    })
}

/// Refuses a body whose announced length is too large, before the service asks the client for any
/// of it.
pub(super) fn check_body(body: &Body) -> Result<(), Problem> {
    if body.size_hint().lower() > LARGEST_BODY as u64 { Err(too_large()) } else { Ok(()) }
}

fn too_large() -> Problem {
    let detail = format!("the body must have at most {LARGEST_BODY} bytes");
    let problem = Problem::new(ProblemCode::PayloadTooLarge, detail);
    // The rest of the body stays unread, even if it has arrived, so the connection cannot be used
    // again.
    problem.with_header(header::CONNECTION, "close")
}

fn is_json(headers: &HeaderMap) -> bool {
    let content_type = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok());
    let media_type = content_type.map(|text| text.split(';').next().unwrap_or_default().trim());
    media_type.is_some_and(|media_type| media_type.eq_ignore_ascii_case("application/json"))
}

/// Parses a parameter if the request has it; `allowed` describes the valid values for the error.
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

/// Parses the parameter `encoding` if the request has it.
pub(super) fn encoding(text: Option<&str>) -> Result<Option<Encoding>, Problem> {
    let names = || format!("one of {}", Encoding::ALL.map(Encoding::name).join(", "));
    parse("encoding", text, names, Encoding::by_name)
}

/// Parses an instant if the request has it; returns Unix milliseconds.
pub(super) fn instant(name: &str, text: Option<&str>) -> Result<Option<i64>, Problem> {
    let form = "an RFC 3339 instant such as 2026-11-20T00:00:00Z; a + is written %2B in an address";
    parse(name, text, || form.into(), parse_unix_ms)
}

pub(super) fn invalid(detail: impl Into<String>) -> Problem {
    Problem::new(ProblemCode::InvalidParameter, detail)
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;

    use super::*;

    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Three {
        n: Option<String>,
        format: Option<String>,
        at: Option<String>,
    }

    #[tokio::test]
    async fn parameters_are_read_as_serde_reads_them() {
        for query in [
            "",
            "n=1",
            "at=x&n=2",
            "n",
            "n=&at",
            "&&n=a%20b+c%2Bd&",
            "n=%ff&format=%C3%B6",
            "%6e=1",
            "at=x=y",
            "N=1",
            "m=1",
            "=1",
            "n=1&m%20m=2&n=3",
            "n=1&n=2&m=3",
            "format=a&format=a",
        ] {
            let found = parameters(query, ["n", "format", "at"]);
            let request = Request::builder().uri(format!("/id/x?{query}")).body(());
            let (mut head, ()) = request.expect("valid").into_parts();
            let expected = Query::<Three>::from_request_parts(&mut head, &()).await;
            let expected = expected.map(|Query(Three { n, format, at })| [n, format, at]);
            assert_eq!(format!("{found:?}"), format!("{expected:?}"), "{query}");
        }
    }
}
