//! The bug that a simulation plants, if any.
//!
//! Each simulation runs on one thread, and the bug breaks the rule on that thread only.

use raindrop_core::planted::{self, Bug};

use crate::check::FailureKind;

/// Every bug, in the order of the report: those that loom, the keeper's explorer and the protocol's
/// models do not find in the same lines of code.
pub(crate) const BUGS: [Planting; 22] = [
    Planting::TokenNotCompared,
    Planting::Rule(Bug::TokenDerived),
    Planting::Rule(Bug::OwnByHolder),
    Planting::Rule(Bug::RenewalKeepsToken),
    Planting::Rule(Bug::TokenOfBirth),
    Planting::Rule(Bug::StaleBirth),
    Planting::Rule(Bug::UnrecordedRowTaken),
    Planting::Rule(Bug::GoesOnAfterLowering),
    Planting::Rule(Bug::LoweredBelowStart),
    Planting::Rule(Bug::LostReplyIsFailure),
    Planting::Rule(Bug::LimitWithoutCap),
    Planting::Rule(Bug::RecordNotReread),
    Planting::Rule(Bug::RelayoutWithoutFencing),
    Planting::Rule(Bug::LocalMarkAfterIssuing),
    Planting::Rule(Bug::ResumedAtClock),
    Planting::Rule(Bug::EpochNotInRows),
    Planting::Rule(Bug::IdentityIgnored),
    Planting::Rule(Bug::StaleStoreTaken),
    Planting::Rule(Bug::RenewalCountedFromEnd),
    Planting::Rule(Bug::PastUnconfirmed),
    Planting::Rule(Bug::OtherRowsIgnored),
    Planting::Rule(Bug::BarrierLoweredToNow),
];

/// The fault of the nodes or the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Planting {
    Nothing,
    /// The nodes break this rule.
    Rule(Bug),
    /// The store swaps whatever token the row has.
    TokenNotCompared,
    /// The store undoes a reservation whatever token the row has.
    UndoTokenNotCompared,
}

impl Planting {
    pub(crate) fn name(self) -> String {
        match self {
            Self::Nothing => "none".into(),
            Self::Rule(bug) => format!("{bug:?}"),
            Self::TokenNotCompared => "TokenNotCompared".into(),
            Self::UndoTokenNotCompared => "UndoTokenNotCompared".into(),
        }
    }

    pub(crate) fn by_name(name: &str) -> Option<Self> {
        BUGS.into_iter().find(|bug| bug.name() == name)
    }

    /// Returns the promise that the bug breaks.
    pub(crate) const fn breaks(self) -> FailureKind {
        match self {
            Self::Rule(Bug::LimitWithoutCap) => FailureKind::MarkRanAway,
            Self::Rule(Bug::RenewalCountedFromEnd) => FailureKind::RenewedTooSeldom,
            _ => FailureKind::Duplicate,
        }
    }
}

/// Plants the bug on this thread, instead of the one before.
pub(crate) fn plant(planting: Planting) {
    planted::plant(match planting {
        Planting::Rule(bug) => Some(bug),
        Planting::Nothing | Planting::TokenNotCompared | Planting::UndoTokenNotCompared => None,
    });
}
