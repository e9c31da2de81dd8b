//! Why a request is refused.

/// Why a request is not authenticated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
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
    pub(crate) const REASONS: [&str; 3] = ["missing", "invalid", "expired"];

    /// The label of its metric.
    pub(crate) const fn reason(self) -> &'static str {
        let [missing, invalid, expired] = Self::REASONS;
        match self {
            Self::Missing => missing,
            Self::Unusable | Self::UnknownToken | Self::UnknownCertificate => invalid,
            Self::Expired => expired,
        }
    }
}

/// What a caller may not use: a text for the client.
#[derive(Debug)]
pub(crate) struct Forbidden(pub(crate) String);
