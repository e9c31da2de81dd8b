//! The problems of requests that are not authenticated, or not permitted (RFC 6750).

use axum::http::header;

use super::problem::{Problem, ProblemCode};
use crate::auth::{Forbidden, Refusal};

/// The challenge to a request without a token (RFC 6750).
const MISSING_TOKEN: &str = r#"Bearer realm="raindrop""#;
/// The challenge to a request with a token that is not valid.
const INVALID_TOKEN: &str = r#"Bearer realm="raindrop", error="invalid_token""#;
/// The challenge to a token without the permission.
const INSUFFICIENT: &str = r#"Bearer realm="raindrop", error="insufficient_scope""#;

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
