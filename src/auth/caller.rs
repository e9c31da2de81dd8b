//! The client that sends a request, the rights that an entry of the file grants it, and the reasons
//! to refuse a request.

use std::sync::Arc;

use crate::{core::code::is_valid_code, keeper::labels};

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

labels! {
    /// A group of routes that an entry permits. Entries without `permissions` do not grant a new
    /// permission, unless [`Permission::is_granted_by_default`] says so.
    pub(crate) Permission {
        /// `/id`, `/ids`, `/parse`, `/bounds` and `/plan`.
        Ids = "ids",
        /// `/metrics`.
        Metrics = "metrics",
        /// `/cluster`, `/codes` and `/log`, where operators have no listener of their own.
        Admin = "admin",
    }
}

impl Permission {
    /// Returns the permission of this name.
    pub(crate) fn by_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|permission| permission.name() == name)
    }

    /// Returns whether entries without `permissions` grant it.
    pub(crate) const fn is_granted_by_default(self) -> bool {
        match self {
            Self::Ids | Self::Metrics => true,
            Self::Admin => false,
        }
    }
}

/// The rights of the bearer of a token or certificate.
#[derive(Debug)]
pub(super) struct Rights {
    /// The entry's name.
    pub(super) name: String,
    pub(super) permissions: Vec<Permission>,
    /// `None` permits every namespace.
    pub(super) namespaces: Option<Vec<String>>,
    /// Codes, and prefixes of codes followed by `*`. `None` permits every code.
    pub(super) codes: Option<Vec<String>>,
}

impl Rights {
    pub(super) fn has_namespace(&self, name: &str) -> bool {
        self.namespaces.as_ref().is_none_or(|names| names.iter().any(|allowed| allowed == name))
    }

    pub(super) fn has_code(&self, code: &str) -> bool {
        let fits = |allowed: &String| match allowed.strip_suffix('*') {
            Some(beginning) => code.starts_with(beginning),
            None => code == allowed,
        };
        self.codes.as_ref().is_none_or(|codes| codes.iter().any(fits))
    }

    /// Returns the smallest text at or above `first` that an allowed code can have.
    pub(super) fn code_from<'a>(&'a self, first: &'a str) -> Option<&'a str> {
        let Some(codes) = &self.codes else { return Some(first) };
        let from = |allowed: &'a String| match allowed.strip_suffix('*') {
            Some(beginning) if first.starts_with(beginning) => Some(first),
            Some(beginning) => (beginning >= first).then_some(beginning),
            None => (allowed.as_str() >= first).then_some(allowed.as_str()),
        };
        codes.iter().filter_map(from).min()
    }
}

/// Returns whether a text is a code, or a prefix of codes followed by `*`.
pub(crate) fn is_code_or_beginning(text: &str) -> bool {
    is_valid_code(text.strip_suffix('*').unwrap_or(text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn next_allowed_name_is_found_without_those_between() {
        let of = |codes: Option<&[&str]>| Rights {
            name: "shop".into(),
            permissions: Vec::new(),
            namespaces: None,
            codes: codes.map(|codes| codes.iter().map(|&code| code.to_owned()).collect()),
        };
        let limited = of(Some(&["order", "b*", "z"]));
        for (first, next) in [
            ("", Some("b")),
            ("b", Some("b")),
            ("b-x", Some("b-x")),
            ("c", Some("order")),
            ("order", Some("order")),
            ("order-", Some("z")),
            ("z-", None),
        ] {
            assert_eq!(limited.code_from(first), next, "{first:?}");
        }
        assert_eq!(of(Some(&["*"])).code_from("c"), Some("c"));
        assert_eq!(of(Some(&[])).code_from(""), None);
        assert_eq!(of(None).code_from("c"), Some("c"));
    }
}
