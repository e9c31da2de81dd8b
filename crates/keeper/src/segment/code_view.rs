//! A code as operators see it.

use raindrop_core::segment::SegmentSpec;
use raindrop_store::ListedSegment;

/// The party that decides about a code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CodeKind {
    /// The configuration lists the code.
    Configured,
    /// Operators manage it in the store.
    Managed,
    /// A client's first claim created the code.
    Automatic,
    /// An operator has retired the code for good.
    Retired,
    /// The store has the code, but this service does not serve it.
    Unserved,
}

/// A code as the store and the configuration have it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CodeView {
    /// The code's row in the store.
    pub listed: ListedSegment,
    /// The party that decides about the code.
    pub kind: CodeKind,
    /// Its settings, if it has any.
    pub spec: Option<SegmentSpec>,
}

impl CodeKind {
    /// Returns its name in responses.
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
    /// Returns the code as it is once an operator has given it these settings.
    #[must_use]
    pub fn with(self, spec: SegmentSpec) -> Self {
        let next = self.listed.next.max(spec.first());
        let listed = ListedSegment { next, ..self.listed };
        Self { listed, kind: CodeKind::Managed, spec: Some(spec) }
    }

    /// Returns the text of the next number, if the code has a form of texts and a number is left.
    pub fn next_text(&self) -> Option<String> {
        let spec = self.spec?;
        let (text, numbers) = (spec.text?, spec.progression());
        let next = numbers.number(numbers.index_at(self.listed.next));
        (self.left()? > 0).then(|| text.write(next))
    }

    /// Returns how many numbers can still be reserved.
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
