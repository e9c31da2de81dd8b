//! The errors of authentication and authorization.

/// Why a request is unauthenticated. The client must send a valid token or certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// The request has no token and no client certificate.
    Missing,
    /// The request has a malformed token.
    Unusable,
    /// No entry has the token of the request.
    UnknownToken,
    /// The request has no token, and no entry names its client certificate.
    UnknownCertificate,
    /// The entry of the token or client certificate has expired.
    Expired,
}

impl Refusal {
    /// Every value of the metric's label.
    pub(crate) const REASONS: [&str; 3] = ["missing", "invalid", "expired"];

    /// Returns the value of the metric's label.
    pub(crate) const fn reason(self) -> &'static str {
        let [missing, invalid, expired] = Self::REASONS;
        match self {
            Self::Missing => missing,
            Self::Unusable | Self::UnknownToken | Self::UnknownCertificate => invalid,
            Self::Expired => expired,
        }
    }
}

/// Why an authenticated client may not use something: a text for the client.
#[derive(Debug)]
pub(crate) struct Forbidden(pub(crate) String);
