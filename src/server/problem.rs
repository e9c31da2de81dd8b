//! Every error answer: problem documents of RFC 9457.

use std::time::Duration;

use axum::{
    body::Body,
    http::{HeaderName, HeaderValue, Response, StatusCode, header},
    response::IntoResponse,
};
use serde::Serialize;
use utoipa::{
    ToSchema,
    openapi::{Object, ObjectBuilder, Type},
};

use super::body::{self, ResponseBody};
use crate::{
    config::WrongNamespace,
    core::{encoding::InvalidId, issue::ClaimError, layout::BoundsError},
    keeper::{BackfillError, IssueError, UnavailableReason},
    store::with_sources,
};

macro_rules! problem_codes {
    ($($(#[$doc:meta])* $code:ident: $status:ident, $name:literal, $title:literal;)*) => {
        /// What went wrong, as programs tell errors apart.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum ProblemCode {
            $($(#[$doc])* $code,)*
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
    /// The code is no name for a sequence.
    InvalidCode: BAD_REQUEST, "invalid_code", "Invalid code";
    /// The number of IDs is not possible.
    InvalidCount: BAD_REQUEST, "invalid_count", "Invalid count";
    /// The text is not an ID.
    InvalidId: BAD_REQUEST, "invalid_id", "Invalid ID";
    /// A query parameter is unknown, repeated or unusable.
    InvalidParameter: BAD_REQUEST, "invalid_parameter", "Invalid parameter";
    /// A token is needed, and none of those that are known came.
    Unauthorized: UNAUTHORIZED, "unauthorized", "Authentication required";
    /// The token may not use this namespace or code.
    Forbidden: FORBIDDEN, "forbidden", "The token may not do this";
    /// There is no such route.
    NotFound: NOT_FOUND, "not_found", "Route not found";
    /// There is no such namespace.
    UnknownNamespace: NOT_FOUND, "unknown_namespace", "Namespace not found";
    /// The code is not among those that are served.
    UnknownCode: NOT_FOUND, "unknown_code", "The code is not served";
    /// The route does not know the method.
    MethodNotAllowed: METHOD_NOT_ALLOWED, "method_not_allowed", "The method is not allowed";
    /// The answer took too long.
    RequestTimeout: REQUEST_TIMEOUT, "request_timeout", "Request timed out";
    /// The body is too large.
    PayloadTooLarge: PAYLOAD_TOO_LARGE, "payload_too_large", "The body is too large";
    /// The address is too long.
    UriTooLong: URI_TOO_LONG, "uri_too_long", "The address is too long";
    /// A JSON number would lose digits.
    UnsafeNumber: UNPROCESSABLE_ENTITY, "unsafe_number", "A JSON number would lose digits";
    /// The layout has no such ID, or the namespace has plain numbers.
    NotDecodable: UNPROCESSABLE_ENTITY, "not_decodable", "Not an ID of this layout";
    /// The layout has no IDs of these instants.
    OutOfRange: UNPROCESSABLE_ENTITY, "out_of_range", "Time outside the allowed range";
    /// Every cursor is in use.
    TooManyCodes: TOO_MANY_REQUESTS, "too_many_codes", "Too many codes are in use";
    /// A defect of the service.
    Internal: INTERNAL_SERVER_ERROR, "internal", "Internal error";
    /// The sequence is used up.
    SequenceExhausted: SERVICE_UNAVAILABLE, "sequence_exhausted", "Sequence exhausted";
    /// The clock went back.
    ClockRollback: SERVICE_UNAVAILABLE, "clock_rollback", "The clock stepped back";
    /// The clock is outside the layout's time.
    ClockOutOfRange: SERVICE_UNAVAILABLE, "clock_out_of_range", "The clock is out of range";
    /// No lease with range left.
    LeaseUnavailable: SERVICE_UNAVAILABLE, "lease_unavailable", "No lease is available";
    /// The store fails, and no lease or block is left.
    StoreUnavailable: SERVICE_UNAVAILABLE, "store_unavailable", "The store is unavailable";
    /// The store lost this node's row, or a code.
    StoreLost: SERVICE_UNAVAILABLE, "store_lost", "Rows or records are missing from the store";
    /// Too many requests at a time.
    Overloaded: SERVICE_UNAVAILABLE, "overloaded", "Too many requests in flight";
    /// The service is stopping.
    ShuttingDown: SERVICE_UNAVAILABLE, "shutting_down", "The service is shutting down";
}

impl ProblemCode {
    /// The status of its responses.
    pub const fn status(self) -> StatusCode {
        self.row().0
    }

    /// Its name in responses.
    pub const fn name(self) -> &'static str {
        self.row().1
    }

    /// What it means, in a few words.
    pub const fn title(self) -> &'static str {
        self.row().2
    }
}

/// An error answer.
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
pub(super) struct Document<'a> {
    /// `urn:raindrop:problem:` and the code.
    #[schema(example = "urn:raindrop:problem:invalid_code")]
    r#type: String,
    /// What the code means, for people.
    title: &'a str,
    /// The status of the answer.
    #[schema(minimum = 400, maximum = 599)]
    status: u16,
    /// What is wrong with this request, for people.
    detail: &'a str,
    /// What went wrong, for programs.
    #[schema(schema_with = any_code)]
    code: &'a str,
}

fn any_code() -> Object {
    let names = ProblemCode::ALL.map(ProblemCode::name);
    ObjectBuilder::new().schema_type(Type::String).enum_values(Some(names)).build()
}

impl Problem {
    /// A problem; `detail` says what is wrong with this request.
    pub fn new(code: ProblemCode, detail: impl Into<String>) -> Self {
        Self { code, detail: detail.into(), retry_after: None, header: None }
    }

    /// A problem that passes.
    pub fn passing(code: ProblemCode, detail: impl Into<String>, retry_after: Duration) -> Self {
        Self { retry_after: Some(retry_after), ..Self::new(code, detail) }
    }

    /// The same problem with one more header.
    pub(super) fn with_header(self, name: HeaderName, value: &'static str) -> Self {
        Self { header: Some((name, value)), ..self }
    }

    /// The same problem, of what follows this prefix of the text that was given.
    pub(super) fn after(self, prefix: &str) -> Self {
        if prefix.is_empty() {
            return self;
        }
        Self { detail: format!("after the prefix {prefix:?}: {}", self.detail), ..self }
    }

    /// What went wrong.
    pub const fn code(&self) -> ProblemCode {
        self.code
    }
}

impl Problem {
    /// The problem document.
    pub(super) fn response(self) -> Response<ResponseBody> {
        let (status, code, title) = self.code.row();
        let document = Document {
            r#type: format!("urn:raindrop:problem:{code}"),
            title,
            status: status.as_u16(),
            detail: &self.detail,
            code,
        };
        let mut response = body::uncached_json(status, &document);
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

impl IntoResponse for Problem {
    fn into_response(self) -> axum::response::Response {
        self.response().map(Body::new)
    }
}

/// Whole seconds, at least one, so that clients neither round down nor come back at once.
pub(super) fn retry_after_seconds(wait: Duration) -> u64 {
    let begun = u64::from(wait.subsec_nanos() > 0);
    wait.as_secs().saturating_add(begun).max(1)
}

/// How long to wait where nobody knows better.
pub(super) const RETRY_UNKNOWN: Duration = Duration::from_secs(5);

impl From<WrongNamespace> for Problem {
    fn from(error: WrongNamespace) -> Self {
        Self::new(ProblemCode::InvalidParameter, error.to_string())
    }
}

impl From<InvalidId> for Problem {
    fn from(error: InvalidId) -> Self {
        let code = match error {
            // The text may be an ID, but not by this layout.
            InvalidId::NoLayout | InvalidId::Wraps => ProblemCode::NotDecodable,
            _ => ProblemCode::InvalidId,
        };
        Self::new(code, error.to_string())
    }
}

impl From<BoundsError> for Problem {
    fn from(error: BoundsError) -> Self {
        let code = match error {
            BoundsError::Reversed { .. } => ProblemCode::InvalidParameter,
            BoundsError::OutOfRange { .. } | BoundsError::Wraps => ProblemCode::OutOfRange,
        };
        Self::new(code, error.to_string())
    }
}

impl From<BackfillError> for Problem {
    fn from(error: BackfillError) -> Self {
        match error {
            BackfillError::Refused(error) => error.into(),
            BackfillError::NotReserved { .. }
            | BackfillError::OutOfRange { .. }
            | BackfillError::UsedUp { .. } => Self::new(ProblemCode::OutOfRange, error.to_string()),
            BackfillError::RecordChanged { .. } | BackfillError::CountedOtherwise { .. } => {
                Self::passing(ProblemCode::StoreLost, error.to_string(), RETRY_UNKNOWN)
            }
            BackfillError::Store(error) => {
                let how = with_sources(&error);
                Self::passing(ProblemCode::StoreUnavailable, how, RETRY_UNKNOWN)
            }
        }
    }
}

impl From<IssueError> for Problem {
    fn from(error: IssueError) -> Self {
        match error {
            IssueError::Refused(error) => error.into(),
            IssueError::NoLease { ref reason, retry_after } => {
                Self::passing(code_of(reason), error.to_string(), retry_after)
            }
        }
    }
}

impl From<ClaimError> for Problem {
    fn from(error: ClaimError) -> Self {
        let detail = error.to_string();
        match error {
            ClaimError::InvalidCode(_) => Self::new(ProblemCode::InvalidCode, detail),
            ClaimError::UnknownCode(_) => Self::new(ProblemCode::UnknownCode, detail),
            ClaimError::InvalidCount { .. } => Self::new(ProblemCode::InvalidCount, detail),
            ClaimError::TooManyCodes { retry_after, .. } => {
                Self::passing(ProblemCode::TooManyCodes, detail, retry_after)
            }
            ClaimError::SequenceExhausted { retry_after } => {
                Self::passing(ProblemCode::SequenceExhausted, detail, retry_after)
            }
            ClaimError::ClockRollback { retry_after, .. } => {
                Self::passing(ProblemCode::ClockRollback, detail, retry_after)
            }
            ClaimError::ClockOutOfRange { .. } => {
                Self::passing(ProblemCode::ClockOutOfRange, detail, RETRY_UNKNOWN)
            }
            ClaimError::LimitReached | ClaimError::NoLease => {
                Self::passing(ProblemCode::LeaseUnavailable, detail, RETRY_UNKNOWN)
            }
        }
    }
}

const fn code_of(reason: &UnavailableReason) -> ProblemCode {
    match reason {
        UnavailableReason::StoreUnavailable(_) => ProblemCode::StoreUnavailable,
        UnavailableReason::StoreLost => ProblemCode::StoreLost,
        UnavailableReason::ShuttingDown => ProblemCode::ShuttingDown,
        UnavailableReason::ClockWentBack => ProblemCode::ClockRollback,
        UnavailableReason::ClockOutOfRange => ProblemCode::ClockOutOfRange,
        UnavailableReason::NumbersUsedUp => ProblemCode::SequenceExhausted,
        UnavailableReason::Starting
        | UnavailableReason::NoFreeWorker { .. }
        | UnavailableReason::ClockAhead(_)
        | UnavailableReason::LimitReached => ProblemCode::LeaseUnavailable,
    }
}
