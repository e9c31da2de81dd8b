//! The issuer of a namespace, of whichever mode.

use crate::{
    core::layout::Layout,
    keeper::{Issuer, SegmentIssuer},
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
