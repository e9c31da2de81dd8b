//! The request log: a line for each request that `log.requests` selects, once its response is
//! decided.
//!
//! Each kind of problem of 500 or above gets at most one line a second, and so do slow responses.
//! The next line says how many were left out: a store that does not answer, or a flood, must not
//! fill the disk. With `all` nothing is left out. Lines go through the queue of the log, which
//! drops and counts what standard error does not take, so a request never waits for its line.
//!
//! The line does not say whether the client received the response, nor how long a large batch took
//! to send. Requests that hyper refuses are not here: they have no route. docs/request-log.md lists
//! the fields; tests are in tests/http/request_log.rs.

use std::{
    net::IpAddr,
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

use axum::{
    extract::Request,
    http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, uri::PathAndQuery},
    response::Response,
};
use tokio::time::Instant;

use super::response::{ProblemCode, shortened};
use crate::{auth::Caller, config::LoggedRequests};

/// Names a request in the logs of every service that it passes.
pub(super) const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// The longest request id of a client, in bytes, that the log and the response repeat.
const LONGEST_REQUEST_ID: usize = 128;

/// The parameters of this API, whose values are logged. Others could be secrets of the client.
const PARAMETERS: [&str; 30] = [
    "after",
    "all",
    "at",
    "code",
    "data_center",
    "data_center_bits",
    "dry_run",
    "encoding",
    "epoch",
    "for",
    "format",
    "from",
    "layout",
    "level",
    "max_sequence",
    "min_sequence",
    "n",
    "namespace",
    "order",
    "padded",
    "preset",
    "reserved_bits",
    "reserved_value",
    "rollback_bits",
    "rollback_initial",
    "time_unit",
    "timestamp_bits",
    "to",
    "up_to",
    "worker_bits",
];

/// The index among the limits of errors without a problem document, such as those of `/readyz`.
const NO_PROBLEM: usize = ProblemCode::ALL.len();

/// The index among the limits of slow responses.
const SLOW: usize = NO_PROBLEM + 1;

/// Decides which requests get a line, and writes it.
#[derive(Debug)]
pub(super) struct RequestLog {
    requests: LoggedRequests,
    slow_after: Duration,
    begun: Instant,
    /// One for each problem, and the two above.
    limits: [Limit; SLOW + 1],
}

/// The parts of a request that its line needs.
#[derive(Debug)]
pub(super) struct LoggedRequest {
    target: Option<PathAndQuery>,
    /// Taken over from the client if it is safe.
    id: Option<HeaderValue>,
    /// The address of the client, once the gate knows it.
    pub(super) address: Option<IpAddr>,
    /// The client with its token, once the gate has admitted the request.
    pub(super) caller: Caller,
}

/// The number of IDs in a response: an extension of it, if the log needs it.
#[derive(Clone, Copy, Debug)]
pub(super) struct IssuedCount(pub(super) usize);

/// How a request was answered.
#[derive(Clone, Copy, Debug)]
pub(super) struct Answered<'a> {
    pub(super) method: &'a Method,
    pub(super) route: &'a str,
    pub(super) took: Duration,
}

impl RequestLog {
    /// Creates a log of these requests; `slow_after` counts for [`LoggedRequests::Slow`].
    pub(super) fn new(requests: LoggedRequests, slow_after: Duration) -> Self {
        let limits = [const { Limit::new() }; SLOW + 1];
        Self { requests, slow_after, begun: Instant::now(), limits }
    }

    /// Keeps what a line would need of a request, unless no request gets a line.
    pub(super) fn note(&self, request: &Request) -> Option<LoggedRequest> {
        if self.requests == LoggedRequests::Off {
            return None;
        }
        let id = id_of_client(request.headers()).cloned();
        let target = request.uri().path_and_query().cloned();
        Some(LoggedRequest { target, id, address: None, caller: Caller::default() })
    }

    /// Returns whether responses need an [`IssuedCount`]: whether those with IDs may get a line.
    pub(super) fn needs_count(&self) -> bool {
        matches!(self.requests, LoggedRequests::Slow | LoggedRequests::All)
    }

    /// Writes the line of a request, if it gets one, and names the request in its response.
    pub(super) fn answered(
        &self,
        request: &LoggedRequest,
        answered: Answered<'_>,
        response: &mut Response,
    ) {
        let problem = response.extensions().get::<ProblemCode>().copied();
        let left_out = self.select(problem, response, answered.took);
        let id = match (&request.id, left_out) {
            (None, None) => return,
            (Some(id), _) => id.clone(),
            (None, Some(_)) => new_id(),
        };
        if let Some(left_out) = left_out {
            request.log(answered, problem, response, &id, left_out);
        }
        response.headers_mut().insert(REQUEST_ID, id);
    }

    /// Returns how many lines like this one were left out before it, or `None` if there is to be
    /// no line.
    fn select(
        &self,
        problem: Option<ProblemCode>,
        response: &Response,
        took: Duration,
    ) -> Option<u64> {
        let is_error = is_error(response.status());
        let is_slow = self.requests == LoggedRequests::Slow && took >= self.slow_after;
        match self.requests {
            LoggedRequests::All => return Some(0),
            _ if !is_error && !is_slow => return None,
            _ => {}
        }
        let index = match problem {
            _ if !is_error => SLOW,
            None => NO_PROBLEM,
            Some(code) => code as usize,
        };
        self.limits[index].admit(self.begun.elapsed())
    }
}

impl LoggedRequest {
    fn log(
        &self,
        answered: Answered<'_>,
        problem: Option<ProblemCode>,
        response: &Response,
        id: &HeaderValue,
        left_out: u64,
    ) {
        let target = self.target.as_ref();
        let (path, query) = target.map_or(("", None), |target| (target.path(), target.query()));
        // A macro, because the level of an event is a constant.
        macro_rules! line {
            ($level:ident) => {
                tracing::$level!(
                    http.request.method = answered.method.as_str(),
                    http.route = answered.route,
                    http.response.status_code = response.status().as_u16(),
                    url.query = query.map(shown_query).as_deref().map(shortened).as_deref(),
                    client.address = self.address.map(tracing::field::display),
                    duration_ms = answered.took.as_micros() as f64 / 1000.0,
                    error.type = problem.map(ProblemCode::name),
                    request_id = id.to_str().ok(),
                    token = self.caller.name(),
                    code = code_in_path(answered.route, path).map(shortened).as_deref(),
                    count = response.extensions().get::<IssuedCount>().map(|count| count.0),
                    left_out = (left_out > 0).then_some(left_out),
                    "request"
                )
            };
        }
        if is_error(response.status()) { line!(warn) } else { line!(info) }
    }
}

/// Lets one line a second through, and counts those between.
#[derive(Debug)]
struct Limit {
    /// When the last line was, in seconds since the start, plus one; 0 before the first.
    last: AtomicU64,
    left_out: AtomicU64,
}

impl Limit {
    const fn new() -> Self {
        Self { last: AtomicU64::new(0), left_out: AtomicU64::new(0) }
    }

    /// Returns how many lines were left out before this one, or `None` if this is left out.
    fn admit(&self, since_start: Duration) -> Option<u64> {
        let now = since_start.as_secs() + 1;
        let last = self.last.load(Ordering::Relaxed);
        let is_first = last < now
            && self.last.compare_exchange(last, now, Ordering::Relaxed, Ordering::Relaxed).is_ok();
        if is_first {
            return Some(self.left_out.swap(0, Ordering::Relaxed));
        }
        self.left_out.fetch_add(1, Ordering::Relaxed);
        None
    }
}

/// Returns whether the service failed to answer as it should. A time-out may also be the client's,
/// which did not send its body in time.
fn is_error(status: StatusCode) -> bool {
    status.is_server_error() || status == StatusCode::REQUEST_TIMEOUT
}

/// Returns the id that a client gave to its request, if it is safe.
pub(super) fn id_of_client(headers: &HeaderMap) -> Option<&HeaderValue> {
    headers.get(REQUEST_ID).filter(|id| is_safe(id))
}

/// Returns whether a request id of a client may stand in logs and headers as it is.
fn is_safe(id: &HeaderValue) -> bool {
    let is_plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"-_.:/+=@".contains(byte);
    (1..=LONGEST_REQUEST_ID).contains(&id.len()) && id.as_bytes().iter().all(is_plain)
}

/// Makes a request id: 128 random bits, as unique as a UUID.
fn new_id() -> HeaderValue {
    let id = format!("{:032x}", rand::random::<u128>());
    HeaderValue::try_from(id).expect("digits are a valid header")
}

/// Returns a query without the values of parameters that this API does not have.
fn shown_query(query: &str) -> String {
    let is_known = |part: &&str| {
        let name = part.split('=').next().unwrap_or_default();
        part.is_empty() || PARAMETERS.contains(&name)
    };
    let parts = query.split('&').map(|part| Some(part).filter(is_known).unwrap_or("***"));
    parts.collect::<Vec<_>>().join("&")
}

/// Returns the code of IDs in a path, where the route has one.
fn code_in_path<'a>(route: &str, path: &'a str) -> Option<&'a str> {
    // From the end: a router may be nested below a path of another service.
    let at = route.rsplit('/').position(|part| part == "{code}")?;
    path.rsplit('/').nth(at)
}

#[cfg(test)]
mod tests {
    use axum::body::Body;
    use serde_json::Value;

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn selected(requests: LoggedRequests, status: StatusCode, took: Duration) -> bool {
        let log = RequestLog::new(requests, SECOND);
        let mut response = Response::new(Body::empty());
        *response.status_mut() = status;
        log.select(None, &response, took).is_some()
    }

    #[test]
    fn setting_selects_errors_slow_responses_or_all() {
        use LoggedRequests::{All, Errors, Slow};
        let (fast, unavailable) = (Duration::ZERO, StatusCode::SERVICE_UNAVAILABLE);
        for (status, took, expected) in [
            (StatusCode::OK, fast, &[All][..]),
            (StatusCode::BAD_REQUEST, fast, &[All]),
            (StatusCode::OK, SECOND, &[Slow, All]),
            (unavailable, fast, &[Errors, Slow, All]),
            (unavailable, SECOND, &[Errors, Slow, All]),
            (StatusCode::REQUEST_TIMEOUT, fast, &[Errors, Slow, All]),
        ] {
            let all = [Errors, Slow, All];
            let found: Vec<_> = all.into_iter().filter(|it| selected(*it, status, took)).collect();
            assert_eq!(found, expected, "{status} {took:?}");
        }
    }

    #[test]
    fn lines_of_one_kind_leave_out_none_of_another() {
        let log = RequestLog::new(LoggedRequests::Slow, SECOND);
        let select = |problem, status| {
            let mut response = Response::new(Body::empty());
            *response.status_mut() = status;
            log.select(problem, &response, SECOND)
        };
        let unavailable = StatusCode::SERVICE_UNAVAILABLE;
        for (problem, status) in [
            (None, StatusCode::OK),
            (None, unavailable),
            (Some(ProblemCode::Overloaded), unavailable),
            (Some(ProblemCode::StoreUnavailable), unavailable),
        ] {
            assert_eq!(select(problem, status), Some(0), "{problem:?} {status}");
        }
    }

    #[test]
    fn limit_lets_one_line_a_second_through_and_counts_the_others() {
        let limit = Limit::new();
        let at = |ms| limit.admit(Duration::from_millis(ms));
        assert_eq!([0, 1, 999].map(at), [Some(0), None, None]);
        assert_eq!([1000, 1999, 5000, 6000].map(at), [Some(2), None, Some(1), Some(0)]);
    }

    #[test]
    fn parameters_are_those_of_the_api_document() {
        let document = include_str!("../../docs/openapi.json");
        let document: Value = serde_json::from_str(document).expect("JSON");
        let paths = document["paths"].as_object().expect("paths").values();
        let operations = paths.filter_map(Value::as_object).flat_map(|path| path.values());
        let parameters = operations.filter_map(|it| it["parameters"].as_array()).flatten();
        let mut names: Vec<_> = parameters
            .filter(|parameter| parameter["in"] == "query")
            .map(|parameter| parameter["name"].as_str().expect("a name"))
            .collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names, PARAMETERS);
    }

    #[test]
    fn values_of_unknown_parameters_are_hidden() {
        for (query, shown) in [
            ("n=3", "n=3"),
            ("n=3&token=abc&padded", "n=3&***&padded"),
            ("abc", "***"),
            ("N=3&=&", "***&***&"),
        ] {
            assert_eq!(shown_query(query), shown);
        }
    }

    #[test]
    fn code_is_found_in_the_path_of_its_route() {
        for (route, path, code) in [
            ("/id/{code}", "/id/order", Some("order")),
            ("/codes/{code}/raise", "/own/codes/order/raise", Some("order")),
            ("/parse/{id}", "/parse/17", None),
            ("<unmatched>", "/id/order/x", None),
        ] {
            assert_eq!(code_in_path(route, path), code, "{path}");
        }
    }

    #[test]
    fn request_ids_of_clients_are_taken_over_if_they_are_safe() {
        let longest = "x".repeat(LONGEST_REQUEST_ID);
        let longer = format!("{longest}x");
        for (id, expected) in [
            ("0af7651916cd43dd8448eb211c80319c", true),
            ("Root=1-67891233-abcdef012345678912345678", true),
            (longest.as_str(), true),
            (longer.as_str(), false),
            ("", false),
            ("a b", false),
            ("a\"b", false),
        ] {
            assert_eq!(is_safe(&HeaderValue::from_str(id).expect("a header")), expected, "{id}");
        }
    }
}
