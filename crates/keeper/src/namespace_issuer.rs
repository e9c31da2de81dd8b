//! The issuer of a namespace of either mode.

use raindrop_core::layout::Layout;

use crate::{
    lease::issuer::Issuer, segment::issuer::SegmentIssuer, support::status::UnavailableReason,
};

/// Issues IDs or numbers of one namespace. Cheap to clone.
#[derive(Clone, Debug)]
pub enum NamespaceIssuer {
    /// Issues IDs from a time and a worker id.
    Snowflake(Issuer),
    /// Issues plain numbers.
    Segment(SegmentIssuer),
}

impl NamespaceIssuer {
    /// Returns the name of the namespace.
    pub fn namespace(&self) -> &str {
        match self {
            Self::Snowflake(issuer) => issuer.namespace(),
            Self::Segment(issuer) => issuer.namespace(),
        }
    }

    /// Returns the layout of the IDs; plain numbers have none.
    pub fn layout(&self) -> Option<&Layout> {
        match self {
            Self::Snowflake(issuer) => Some(issuer.layout()),
            Self::Segment(_) => None,
        }
    }

    /// Returns whether IDs can be issued now.
    pub fn is_issuing(&self) -> bool {
        match self {
            Self::Snowflake(issuer) => issuer.status().is_issuing(),
            Self::Segment(issuer) => issuer.status().issuing,
        }
    }

    /// Resolves when IDs can be issued for the first time, or when the keeper shuts down.
    pub async fn ready(&self) {
        match self {
            Self::Snowflake(issuer) => drop(issuer.leased().await),
            Self::Segment(issuer) => issuer.prepared().await,
        }
    }

    /// Returns why no ID can be issued, or why issuing will soon stop.
    pub fn reason(&self) -> Option<UnavailableReason> {
        match self {
            Self::Snowflake(issuer) => issuer.status().reason,
            Self::Segment(issuer) => issuer.status().reason,
        }
    }
}

impl From<Issuer> for NamespaceIssuer {
    fn from(issuer: Issuer) -> Self {
        Self::Snowflake(issuer)
    }
}

impl From<SegmentIssuer> for NamespaceIssuer {
    fn from(issuer: SegmentIssuer) -> Self {
        Self::Segment(issuer)
    }
}
