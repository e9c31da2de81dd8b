//! The audiences of routes, the two listeners, and where a request needs a token.

use crate::auth::Permission;

/// A listener of the service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::server) enum Listener {
    /// `http.listen`.
    Public,
    /// `http.admin_listen`, where only changes need a token.
    Operators,
}

/// The requests of a listener that need a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::server) enum TokensFor {
    Nothing,
    /// Only requests that change something.
    Changes,
    Everything,
}

impl TokensFor {
    pub(in crate::server) const fn of(listener: Listener, has_tokens: bool) -> Self {
        match listener {
            _ if !has_tokens => Self::Nothing,
            Listener::Operators => Self::Changes,
            Listener::Public => Self::Everything,
        }
    }
}

/// The callers that a group of routes is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::server) enum Audience {
    /// Clients with the permission `ids`, and the pages that `http.cors_origins` allows.
    Clients,
    /// Operators: with the permission `admin`, and only this service's own pages may change
    /// anything.
    Operators,
    /// Prometheus, with the permission `metrics`.
    Scrapers,
    /// Every caller with a token, whatever it permits.
    TokenHolders,
    /// Orchestrators, and browsers that load a page: neither has a token.
    Anybody,
}

impl Audience {
    /// Returns the tag under which the API document lists the routes of this audience.
    pub(in crate::server) const fn tag(self) -> &'static str {
        match self {
            Self::Clients => "ids",
            Self::Operators => "operators",
            Self::Scrapers => "metrics",
            Self::TokenHolders => "about",
            Self::Anybody => "probes",
        }
    }

    /// Returns the permission that a token needs for these routes, if they need a particular one.
    pub(in crate::server) const fn permission(self) -> Option<Permission> {
        match self {
            Self::Clients => Some(Permission::Ids),
            Self::Operators => Some(Permission::Admin),
            Self::Scrapers => Some(Permission::Metrics),
            Self::TokenHolders | Self::Anybody => None,
        }
    }
}
