//! A code as people see it.

use raindrop_core::segment::SegmentSpec;
use raindrop_store::ListedSegment;

/// Who decides about a code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CodeKind {
    /// The configuration lists it.
    Configured,
    /// Operators manage it in the store.
    Managed,
    /// It was created on demand.
    Automatic,
    /// It is retired for good.
    Retired,
    /// It is in the store, but this service does not serve it.
    Unserved,
}

/// A code as the store and the configuration have it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CodeView {
    /// Its place in the store.
    pub listed: ListedSegment,
    /// Who decides about it.
    pub kind: CodeKind,
    /// Its settings, where it has some.
    pub spec: Option<SegmentSpec>,
}

impl CodeKind {
    /// Its name in answers.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Configured => "configured",
            Self::Managed => "managed",
            Self::Automatic => "automatic",
            Self::Retired => "retired",
            Self::Unserved => "unserved",
        }
    }
}

impl CodeView {
    /// How many numbers can still be reserved.
    pub fn left(&self) -> Option<u64> {
        let spec = self.spec?;
        if self.kind == CodeKind::Retired {
            return Some(0);
        }
        let progression = spec.progression();
        let end = progression.index_at(spec.max.saturating_add(1));
        Some(end.saturating_sub(progression.index_at(self.listed.next)))
    }
}
