//! The policy of the simulated nodes: no rule is broken, or one on purpose.
//!
//! Each simulation runs on one thread, so what is planted stands in a thread-local. The policy
//! also counts what it is asked, because issuing does not tell when it makes a cursor.

use std::cell::Cell;

use raindrop::core::planted::{Bug, planted};

/// Every bug, in the order in which they are reported.
pub(crate) const BUGS: [Planting; 15] = [
    Planting::Rule(Bug::LimitIgnored),
    Planting::Rule(Bug::MarkAfterIssuing),
    Planting::TokenNotCompared,
    Planting::Rule(Bug::TokenDerived),
    Planting::Rule(Bug::OwnByHolder),
    Planting::Rule(Bug::RenewalKeepsToken),
    Planting::Rule(Bug::GoesOnAfterLowering),
    Planting::Rule(Bug::LoweredUnsealed),
    Planting::Rule(Bug::LoweredBelowStart),
    Planting::Rule(Bug::LoweredToLastClaimed),
    Planting::Rule(Bug::CursorAtClock),
    Planting::Rule(Bug::TablePerRenewal),
    Planting::Rule(Bug::EvictionWithoutFloor),
    Planting::Rule(Bug::LostReplyIsFailure),
    Planting::Rule(Bug::LimitWithoutCap),
];

/// What is wrong with the nodes or the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Planting {
    Nothing,
    /// The nodes break this rule.
    Rule(Bug),
    /// The store swaps whatever token stands there.
    TokenNotCompared,
}

impl Planting {
    pub(crate) fn name(self) -> String {
        match self {
            Self::Nothing => "none".into(),
            Self::Rule(bug) => format!("{bug:?}"),
            Self::TokenNotCompared => "TokenNotCompared".into(),
        }
    }

    pub(crate) fn by_name(name: &str) -> Option<Self> {
        BUGS.into_iter().find(|bug| bug.name() == name)
    }
}

thread_local! {
    static PLANTED: Cell<Option<Bug>> = const { Cell::new(None) };
    static CURSORS: Cell<u64> = const { Cell::new(0) };
}

/// Breaks the rule that was planted on this thread.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Planted;

impl Policy for Planted {
    fn has(self, bug: Bug) -> bool {
        if bug == Bug::CursorAtClock {
            CURSORS.set(CURSORS.get() + 1);
        }
        PLANTED.get() == Some(bug)
    }
}

/// Plants the bug on this thread, instead of the one before.
pub(crate) fn plant(planting: Planting) {
    PLANTED.set(match planting {
        Planting::Rule(bug) => Some(bug),
        Planting::Nothing | Planting::TokenNotCompared => None,
    });
}

/// How many cursors were made on this thread by nodes of the policy [`Planted`].
pub(crate) fn cursors_made() -> u64 {
    CURSORS.get()
}
