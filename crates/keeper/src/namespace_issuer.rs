//! The issuer of a namespace, of whichever mode.

use raindrop_core::layout::Layout;

use crate::{
    ground::status::UnavailableReason, lease::issuer::Issuer, segment::issuer::SegmentIssuer,
};

/// The issuer of a namespace; cheap to clone.
#[derive(Clone, Debug)]
pub enum NamespaceIssuer {
    /// By time and a worker id.
    Snowflake(Issuer),
    /// By counting.
    Segment(SegmentIssuer),
}

impl NamespaceIssuer {
    /// The namespace.
    pub fn namespace(&self) -> &str {
        match self {
            Self::Snowflake(issuer) => issuer.namespace(),
            Self::Segment(issuer) => issuer.namespace(),
        }
    }

    /// The layout of its IDs; plain numbers have none.
    pub fn layout(&self) -> Option<&Layout> {
        match self {
            Self::Snowflake(issuer) => Some(issuer.layout()),
            Self::Segment(_) => None,
        }
    }

    /// Whether IDs can be issued now.
    pub fn is_issuing(&self) -> bool {
        match self {
            Self::Snowflake(issuer) => issuer.status().is_issuing(),
            Self::Segment(issuer) => issuer.status().issuing,
        }
    }

    /// Resolves when IDs can be issued for the first time, or the keeper is shutting down.
    pub async fn ready(&self) {
        match self {
            Self::Snowflake(issuer) => drop(issuer.leased().await),
            Self::Segment(issuer) => issuer.prepared().await,
        }
    }

    /// Why it cannot issue, or soon will be unable to.
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
