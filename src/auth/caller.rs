//! The client that sends a request, its permissions, and the reasons to refuse a request.

use std::sync::Arc;

use super::rights::{Permission, Rights};

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

/// The client that sends a request. The default is a client that needs no token and may use
/// everything.
#[derive(Clone, Debug, Default)]
pub(crate) struct Caller(pub(super) Option<Arc<Rights>>);

impl Caller {
    /// Refuses a path whose permission the caller does not have.
    pub(crate) fn check_permission(
        &self,
        permission: Option<Permission>,
        path: &str,
    ) -> Result<(), Forbidden> {
        if let (Some(rights), Some(needed)) = (&self.0, permission)
            && !rights.permissions.contains(&needed)
        {
            let what = format!("{path}, which needs the permission {}", needed.name());
            let allowed = rights.permissions.iter().map(|it| it.name().to_owned()).collect();
            return Err(forbidden(rights, &what, Some(&allowed)));
        }
        Ok(())
    }

    /// Returns the name of the client's entry, if it needed one.
    pub(crate) fn name(&self) -> Option<&str> {
        self.0.as_ref().map(|rights| rights.name.as_str())
    }

    /// Refuses a code that the caller may not use.
    pub(crate) fn check_code(&self, code: &str) -> Result<(), Forbidden> {
        if let Some(rights) = &self.0
            && !rights.has_code(code)
        {
            return Err(forbidden(rights, &format!("code {code:?}"), rights.codes.as_ref()));
        }
        Ok(())
    }

    /// Returns whether the caller may use a code.
    pub(crate) fn has_code(&self, code: &str) -> bool {
        self.0.as_ref().is_none_or(|rights| rights.has_code(code))
    }

    /// Returns the smallest text at or above `first` that a code which the caller may use can have.
    /// Listings skip to it.
    pub(crate) fn code_from<'a>(&'a self, first: &'a str) -> Option<&'a str> {
        self.0.as_ref().map_or(Some(first), |rights| rights.code_from(first))
    }

    /// Refuses a request for the namespace `own` if the caller may not use it. `requested` is the
    /// namespace that the request names, if it names one. The error names a namespace only if the
    /// request did, and is the same whether or not that namespace exists.
    pub(crate) fn check_namespace(
        &self,
        own: &str,
        requested: Option<&str>,
    ) -> Result<(), Forbidden> {
        let Some(rights) = &self.0 else { return Ok(()) };
        let what = match requested {
            Some(name) if !rights.has_namespace(name) => format!("namespace {name:?}"),
            _ if rights.has_namespace(own) => return Ok(()),
            Some(_) => "what is requested".into(),
            None => "what is requested without ?namespace=".into(),
        };
        Err(forbidden(rights, &what, rights.namespaces.as_ref()))
    }

    /// Returns whether the caller may use a namespace.
    pub(crate) fn may_use(&self, namespace: &str) -> bool {
        self.0.as_ref().is_none_or(|rights| rights.has_namespace(namespace))
    }
}

fn forbidden(rights: &Rights, what: &str, allowed: Option<&Vec<String>>) -> Forbidden {
    let token = &rights.name;
    tracing::debug!(token, what, "request forbidden");
    let allowed = allowed.filter(|allowed| !allowed.is_empty());
    let allowed = allowed.map_or_else(|| "none".into(), |allowed| allowed.join(", "));
    Forbidden(format!("the token {token:?} may not use {what}; allowed: {allowed}"))
}
