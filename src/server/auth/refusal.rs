//! Why a request is refused with 401.

use axum::http::header;

use crate::server::response::{Problem, ProblemCode};

/// The challenge to a request without a token (RFC 6750).
const MISSING_TOKEN: &str = r#"Bearer realm="raindrop""#;
/// The challenge to a request with a token that is not valid.
const INVALID_TOKEN: &str = r#"Bearer realm="raindrop", error="invalid_token""#;

/// Why a request is not authenticated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::server) enum Refusal {
    /// It has no token, and no client certificate.
    Missing,
    /// It has something that can be no token.
    Unusable,
    /// No entry has its token.
    UnknownToken,
    /// It has no token, and no entry names its client certificate.
    UnknownCertificate,
    /// The entry of its token or client certificate has expired.
    Expired,
}

impl Refusal {
    /// The labels of its metric.
    pub(in crate::server) const REASONS: [&str; 3] = ["missing", "invalid", "expired"];

    /// The label of its metric.
    pub(in crate::server) const fn reason(self) -> &'static str {
        let [missing, invalid, expired] = Self::REASONS;
        match self {
            Self::Missing => missing,
            Self::Unusable | Self::UnknownToken | Self::UnknownCertificate => invalid,
            Self::Expired => expired,
        }
    }
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
