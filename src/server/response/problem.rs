//! Every error response is a [`Problem`]: a problem document of RFC 9457.
//!
//! The table of [`ProblemCode`]s is a contract, since programs tell errors apart by `code`; a test
//! compares it with docs/http.md. `detail` tells people what is wrong with this request, and what
//! is allowed.
//!
//! The conversions below decide the code and the `Retry-After` of each error of the library. Those
//! of `ClaimError`, `IssueError` and `BackfillError` match every variant, so a new one must be
//! decided here. Requests that are not authenticated, or not permitted, get a challenge (RFC 6750).
//!
//! A problem does not quote the store's errors to clients: they may name the server (see
//! [`store_text`]). Tests: tests/http/problems.rs, and matrix.rs for the refusals.

use std::{borrow::Cow, time::Duration};

use ProblemCode as P;
use axum::{
    http::{HeaderName, HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};
use serde::Serialize;
use utoipa::{
    ToSchema,
    openapi::{Object, ObjectBuilder, Type},
};

use super::body;
use crate::{
    auth::{Forbidden, Refusal},
    config::WrongNamespace,
    core::{
        encoding::{EncoderError, InvalidId},
        issue::ClaimError,
        layout::BoundsError,
    },
    keeper::{BackfillError, IssueError, UnavailableReason},
    store::{StoreError, with_sources},
};

/// The challenge to a request without a token (RFC 6750).
const MISSING_TOKEN: &str = r#"Bearer realm="raindrop""#;
/// The challenge to a request with a token that is not valid.
const INVALID_TOKEN: &str = r#"Bearer realm="raindrop", error="invalid_token""#;
/// The challenge to a token without the permission.
const INSUFFICIENT: &str = r#"Bearer realm="raindrop", error="insufficient_scope""#;

/// The longest `detail` in bytes.
const LONGEST_DETAIL: usize = 1000;

macro_rules! problem_codes {
    ($($code:ident: $status:ident, $name:literal, $title:literal;)*) => {
        /// The kind of an error, by which programs tell errors apart.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum ProblemCode {
            $(
                #[doc = concat!("`", $name, "`: ", $title, ".")]
                $code,
            )*
        }

        impl ProblemCode {
            /// Every code, in the order of their statuses.
            pub const ALL: [Self; [$($name),*].len()] = [$(Self::$code),*];

            /// Status, name and title.
            const fn row(self) -> (StatusCode, &'static str, &'static str) {
                match self {
                    $(Self::$code => (StatusCode::$status, $name, $title),)*
                }
            }
        }
    };
}

problem_codes! {
    InvalidCode: BAD_REQUEST, "invalid_code", "Invalid code";
    InvalidCount: BAD_REQUEST, "invalid_count", "Invalid count";
    InvalidId: BAD_REQUEST, "invalid_id", "Invalid ID";
    InvalidParameter: BAD_REQUEST, "invalid_parameter", "Invalid parameter";
    Unauthorized: UNAUTHORIZED, "unauthorized", "Authentication required";
    Forbidden: FORBIDDEN, "forbidden", "The request is not allowed";
    NotFound: NOT_FOUND, "not_found", "Route not found";
    UnknownNamespace: NOT_FOUND, "unknown_namespace", "Namespace not found";
    UnknownCode: NOT_FOUND, "unknown_code", "The code is not served";
    MethodNotAllowed: METHOD_NOT_ALLOWED, "method_not_allowed", "The method is not allowed";
    Conflict: CONFLICT, "conflict", "The code cannot be changed like this";
    RetiredCode: GONE, "retired_code", "The code is retired";
    PreconditionFailed: PRECONDITION_FAILED, "precondition_failed", "The code exists already";
    UnsupportedMediaType: UNSUPPORTED_MEDIA_TYPE, "unsupported_media_type", "The body is not of the type that is read";
    RequestTimeout: REQUEST_TIMEOUT, "request_timeout", "Request timed out";
    PayloadTooLarge: PAYLOAD_TOO_LARGE, "payload_too_large", "The body is too large";
    UriTooLong: URI_TOO_LONG, "uri_too_long", "The address is too long";
    UnsafeNumber: UNPROCESSABLE_ENTITY, "unsafe_number", "A JSON number would lose digits";
    NotEncodable: UNPROCESSABLE_ENTITY, "not_encodable", "These IDs cannot be written like this";
    NotDecodable: UNPROCESSABLE_ENTITY, "not_decodable", "Not an ID of this layout";
    OutOfRange: UNPROCESSABLE_ENTITY, "out_of_range", "Time outside the allowed range";
    TooManyCodes: TOO_MANY_REQUESTS, "too_many_codes", "Too many codes are in use";
    TooManyRequests: TOO_MANY_REQUESTS, "too_many_requests", "Too many requests of this client";
    Internal: INTERNAL_SERVER_ERROR, "internal", "Internal error";
    NotImplemented: NOT_IMPLEMENTED, "not_implemented", "The transfer coding is not supported";
    SequenceExhausted: SERVICE_UNAVAILABLE, "sequence_exhausted", "Sequence exhausted";
    ClockRollback: SERVICE_UNAVAILABLE, "clock_rollback", "The clock stepped back";
    ClockOutOfRange: SERVICE_UNAVAILABLE, "clock_out_of_range", "The clock is out of range";
    LeaseUnavailable: SERVICE_UNAVAILABLE, "lease_unavailable", "No lease is available";
    StoreUnavailable: SERVICE_UNAVAILABLE, "store_unavailable", "The store is unavailable";
    StoreLost: SERVICE_UNAVAILABLE, "store_lost", "Rows or records are missing from the store";
    Overloaded: SERVICE_UNAVAILABLE, "overloaded", "Too many requests in flight";
    ShuttingDown: SERVICE_UNAVAILABLE, "shutting_down", "The service is shutting down";
}

impl ProblemCode {
    /// Returns the HTTP status of this problem.
    pub const fn status(self) -> StatusCode {
        self.row().0
    }

    /// Returns its name in responses, such as `invalid_code`.
    pub const fn name(self) -> &'static str {
        self.row().1
    }

    /// Returns the title: the meaning of the code in a few words.
    pub const fn title(self) -> &'static str {
        self.row().2
    }
}

/// An error response.
#[derive(Clone, Debug)]
pub struct Problem {
    code: ProblemCode,
    detail: String,
    retry_after: Option<Duration>,
    /// One more header of the response.
    header: Option<(HeaderName, &'static str)>,
}

/// A problem document (RFC 9457).
#[derive(Serialize, ToSchema)]
#[schema(as = Problem)]
pub(in crate::server) struct Document<'a> {
    /// `urn:raindrop:problem:` and the code.
    #[schema(example = "urn:raindrop:problem:invalid_code")]
    r#type: String,
    /// The meaning of the code, for people.
    title: &'a str,
    /// The status of the answer.
    #[schema(minimum = 400, maximum = 599)]
    status: u16,
    /// Explains the error of this request, for people.
    detail: &'a str,
    /// The kind of the error, for programs.
    #[schema(schema_with = any_code)]
    code: &'a str,
}

fn any_code() -> Object {
    let names = ProblemCode::ALL.map(ProblemCode::name);
    ObjectBuilder::new().schema_type(Type::String).enum_values(Some(names)).build()
}

impl Problem {
    /// Creates a problem; `detail` says what is wrong with this request.
    pub fn new(code: ProblemCode, detail: impl Into<String>) -> Self {
        Self { code, detail: detail.into(), retry_after: None, header: None }
    }

    /// Creates a problem that passes: its response tells clients to retry after this time.
    pub fn passing(code: ProblemCode, detail: impl Into<String>, retry_after: Duration) -> Self {
        Self { retry_after: Some(retry_after), ..Self::new(code, detail) }
    }

    /// Adds a header to the response.
    pub(in crate::server) fn with_header(self, name: HeaderName, value: &'static str) -> Self {
        Self { header: Some((name, value)), ..self }
    }

    /// Says in `detail` that the problem is about the part of the text after this prefix.
    pub(in crate::server) fn after(self, prefix: &str) -> Self {
        if prefix.is_empty() {
            return self;
        }
        Self { detail: format!("after the prefix {prefix:?}: {}", self.detail), ..self }
    }

    /// Adds what the client may have meant to `detail`.
    pub(in crate::server) fn with_hint(self, hint: &str) -> Self {
        Self { detail: format!("{}; {hint}", self.detail), ..self }
    }

    /// Returns the code of this problem.
    pub const fn code(&self) -> ProblemCode {
        self.code
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let (status, code, title) = self.code.row();
        let detail = shortened(&self.detail);
        let document = Document {
            r#type: format!("urn:raindrop:problem:{code}"),
            title,
            status: status.as_u16(),
            detail: &detail,
            code,
        };
        let mut response = body::uncached_json(status, &document);
        // For the request log.
        response.extensions_mut().insert(self.code);
        let headers = response.headers_mut();
        let problem_json = HeaderValue::from_static("application/problem+json");
        headers.insert(header::CONTENT_TYPE, problem_json);
        if let Some(retry_after) = self.retry_after {
            headers.insert(header::RETRY_AFTER, retry_after_seconds(retry_after).into());
        }
        if let Some((name, value)) = self.header {
            headers.insert(name, HeaderValue::from_static(value));
        }
        response
    }
}

/// Cuts a text at [`LONGEST_DETAIL`]: problems and log lines quote texts of clients, which can be
/// long.
pub(in crate::server) fn shortened(text: &str) -> Cow<'_, str> {
    if text.len() <= LONGEST_DETAIL {
        return text.into();
    }
    format!("{}…", &text[..text.floor_char_boundary(LONGEST_DETAIL)]).into()
}

/// Rounds up to whole seconds, at least one, so that clients neither retry too early nor at once.
pub(in crate::server) fn retry_after_seconds(wait: Duration) -> u64 {
    let begun = u64::from(wait.subsec_nanos() > 0);
    wait.as_secs().saturating_add(begun).max(1)
}

/// The `Retry-After` of a problem whose end the service cannot estimate.
pub(in crate::server) const RETRY_UNKNOWN: Duration = Duration::from_secs(5);
/// The `Retry-After` while a keeper reads the store.
const RETRY_SOON: Duration = Duration::from_secs(1);

impl From<WrongNamespace> for Problem {
    fn from(error: WrongNamespace) -> Self {
        Self::new(P::InvalidParameter, error.to_string())
    }
}

impl From<InvalidId> for Problem {
    fn from(error: InvalidId) -> Self {
        let code = match error {
            // The text may be an ID, but this layout cannot decode it.
            InvalidId::NoLayout | InvalidId::Wraps | InvalidId::NotEncodable(_) => P::NotDecodable,
            _ => P::InvalidId,
        };
        Self::new(code, error.to_string())
    }
}

impl From<EncoderError> for Problem {
    fn from(error: EncoderError) -> Self {
        let code = if error.encoding().is_uuid() { P::NotEncodable } else { P::InvalidParameter };
        Self::new(code, error.to_string())
    }
}

impl From<BoundsError> for Problem {
    fn from(error: BoundsError) -> Self {
        let code = match error {
            BoundsError::Reversed { .. } => P::InvalidParameter,
            BoundsError::OutOfRange { .. } | BoundsError::Wraps => P::OutOfRange,
        };
        Self::new(code, error.to_string())
    }
}

impl From<BackfillError> for Problem {
    fn from(error: BackfillError) -> Self {
        let (code, retry_after) = match error {
            BackfillError::Refused(error) => return error.into(),
            BackfillError::NoLease(error) => return error.into(),
            BackfillError::Store(error) => return store_problem(&error, false),
            BackfillError::NotReserved { .. }
            | BackfillError::OutOfRange { .. }
            | BackfillError::UsedUp { .. }
            | BackfillError::CountedOtherwise { .. } => (P::OutOfRange, None),
            BackfillError::RecordChanged { .. } => (P::StoreLost, Some(RETRY_UNKNOWN)),
            // Here the keeper reads the store at once, or that of another node has done so.
            BackfillError::NotRenewed { .. }
            | BackfillError::EpochEnded { .. }
            | BackfillError::Unconfirmed { .. } => (P::LeaseUnavailable, Some(RETRY_SOON)),
        };
        Self { retry_after, ..Self::new(code, error.to_string()) }
    }
}

impl From<ClaimError> for Problem {
    fn from(error: ClaimError) -> Self {
        let (code, retry_after) = match error {
            ClaimError::InvalidCode(_) | ClaimError::MemberTooLong(_) => (P::InvalidCode, None),
            ClaimError::UnknownCode(_) => (P::UnknownCode, None),
            ClaimError::RetiredCode(_) => (P::RetiredCode, None),
            ClaimError::NoIdempotencyKeys { .. } => (P::InvalidParameter, None),
            ClaimError::InvalidCount { .. } => (P::InvalidCount, None),
            ClaimError::TooManyCodes { retry_after, .. }
            | ClaimError::ClientShareUsed { retry_after, .. } => {
                (P::TooManyCodes, Some(retry_after))
            }
            ClaimError::SequenceExhausted { retry_after } => {
                (P::SequenceExhausted, Some(retry_after))
            }
            ClaimError::ClockRollback { retry_after, .. } => (P::ClockRollback, Some(retry_after)),
            ClaimError::ClockOutOfRange { .. } => (P::ClockOutOfRange, Some(RETRY_UNKNOWN)),
            ClaimError::LimitReached | ClaimError::NoLease => {
                (P::LeaseUnavailable, Some(RETRY_UNKNOWN))
            }
        };
        Self { retry_after, ..Self::new(code, error.to_string()) }
    }
}

impl From<IssueError> for Problem {
    fn from(error: IssueError) -> Self {
        let (reason, retry_after) = match error {
            IssueError::Refused(error) => return error.into(),
            IssueError::NoLease { reason, retry_after } => (reason, retry_after),
        };
        let detail = format!("nothing left to issue from: {}", reason.public_text());
        let code = match reason {
            UnavailableReason::StoreUnavailable(_) => P::StoreUnavailable,
            UnavailableReason::StoreLost => P::StoreLost,
            UnavailableReason::ShuttingDown => P::ShuttingDown,
            UnavailableReason::ClockWentBack => P::ClockRollback,
            UnavailableReason::ClockOutOfRange => P::ClockOutOfRange,
            UnavailableReason::NumbersUsedUp | UnavailableReason::NumbersSkipped => {
                P::SequenceExhausted
            }
            UnavailableReason::CodeRefused(error) => return error.into(),
            UnavailableReason::Starting
            | UnavailableReason::NoFreeWorker { .. }
            | UnavailableReason::FailedOver { .. }
            | UnavailableReason::BarrierFarAhead { .. }
            | UnavailableReason::StaleStore { .. }
            | UnavailableReason::ClocksDiffer(_)
            | UnavailableReason::ClockAhead(_)
            | UnavailableReason::LimitReached
            | UnavailableReason::UnreadableSettings
            | UnavailableReason::KeeperEnded
            | UnavailableReason::NotKept(_) => P::LeaseUnavailable,
        };
        Self::passing(code, detail, retry_after)
    }
}

/// Returns the text of a store failure. Operators get the whole error; others get only its kind,
/// because the text may name the server.
pub(in crate::server) fn store_text(error: &StoreError, is_operator: bool) -> String {
    if is_operator { with_sources(error) } else { error.kind().to_owned() }
}

/// Returns the problem of a store failure, worded as [`store_text`] does.
pub(in crate::server) fn store_problem(error: &StoreError, is_operator: bool) -> Problem {
    let text = store_text(error, is_operator);
    let code = match error {
        StoreError::Vanished(_) => ProblemCode::StoreLost,
        _ => ProblemCode::StoreUnavailable,
    };
    Problem::passing(code, format!("the store is unavailable: {text}"), RETRY_UNKNOWN)
}

impl From<Refusal> for Problem {
    fn from(refusal: Refusal) -> Self {
        tracing::debug!(reason = ?refusal, "request unauthorized");
        let (challenge, detail) = match refusal {
            Refusal::Missing => {
                (MISSING_TOKEN, "send a token in the header Authorization: Bearer <token>")
            }
            Refusal::Unusable => (
                INVALID_TOKEN,
                "send one header Authorization: Bearer <token>, with a token of at most 512 bytes",
            ),
            Refusal::UnknownToken => (INVALID_TOKEN, "the token is not known"),
            Refusal::UnknownCertificate => (
                MISSING_TOKEN,
                "the client certificate is not known, and there is no token in the header \
                 Authorization: Bearer <token>",
            ),
            Refusal::Expired => (INVALID_TOKEN, "the token or client certificate has expired"),
        };
        let problem = Self::new(ProblemCode::Unauthorized, detail);
        problem.with_header(header::WWW_AUTHENTICATE, challenge)
    }
}

impl From<Forbidden> for Problem {
    fn from(Forbidden(detail): Forbidden) -> Self {
        let problem = Self::new(ProblemCode::Forbidden, detail);
        problem.with_header(header::WWW_AUTHENTICATE, INSUFFICIENT)
    }
}

#[cfg(test)]
mod tests {
    use http_body_util::BodyExt as _;

    use super::*;

    #[tokio::test]
    async fn a_long_text_of_a_client_makes_no_long_problem() {
        for text in ["\"".repeat(5_000), "\u{6c34}".repeat(5_000)] {
            let problem = Problem::new(P::NotFound, format!("there is no route {text:?}"));
            let body = problem.into_response().into_body().collect().await.expect("a body");
            let body = body.to_bytes();
            assert!((1_000..2_500).contains(&body.len()), "{} bytes", body.len());
            let read: serde_json::Value = serde_json::from_slice(&body).expect("JSON");
            assert!(read["detail"].as_str().expect("a text").ends_with('…'), "{read}");
        }
    }
}
