//! Whom routes are for, and where they are asked for.

use crate::auth::Permission;

/// Where requests come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::server) enum Listener {
    /// `http.listen`.
    Public,
    /// `http.admin_listen`, where only changes need a token.
    Operators,
}

/// What a listener wants a token for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::server) enum TokensFor {
    Nothing,
    /// Whatever changes something.
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

/// Whom routes are for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::server) enum Audience {
    /// Clients with the permission `ids`, and the pages that `http.cors_origins` allows.
    Clients,
    /// Operators: with the permission `admin`, and only this service's own pages may change
    /// anything.
    Operators,
    /// Prometheus, with the permission `metrics`.
    Scrapers,
    /// Whoever has any token.
    TokenHolders,
    /// Orchestrators, and browsers that load a page: they have no token.
    Anybody,
}

impl Audience {
    /// What the API document lists their routes under.
    pub(in crate::server) const fn tag(self) -> &'static str {
        match self {
            Self::Clients => "ids",
            Self::Operators => "operators",
            Self::Scrapers => "metrics",
            Self::TokenHolders => "about",
            Self::Anybody => "probes",
        }
    }

    /// What the token must permit.
    pub(in crate::server) const fn permission(self) -> Option<Permission> {
        match self {
            Self::Clients => Some(Permission::Ids),
            Self::Operators => Some(Permission::Admin),
            Self::Scrapers => Some(Permission::Metrics),
            Self::TokenHolders | Self::Anybody => None,
        }
    }
}
