//! The rights that an entry grants.

use crate::{core::code::is_valid_code, keeper::labels};

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
