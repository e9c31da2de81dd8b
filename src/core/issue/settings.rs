//! How IDs are issued.

use std::{collections::BTreeSet, time::Duration};

/// What to do when the clock went back by more than [`IssueSettings::hold`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RollbackPolicy {
    /// Lease another lane of the same worker; where none is to be had, another worker.
    #[default]
    Rotate,
    /// Lease another worker; where none is to be had, wait.
    Swap,
    /// Refuse until the clock has caught up.
    Wait,
}

impl RollbackPolicy {
    /// Every policy.
    pub const ALL: [Self; 3] = [Self::Rotate, Self::Swap, Self::Wait];

    /// Its name in configuration.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Rotate => "rotate",
            Self::Swap => "swap",
            Self::Wait => "wait",
        }
    }

    /// The policy of this name.
    pub fn by_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|policy| policy.name() == name)
    }
}

/// How IDs are issued; the defaults are the service's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IssueSettings {
    /// How far ahead of the clock an ID may be answered at once; 0 by default.
    pub borrow_ahead: Duration,
    /// The longest that a caller is made to wait for its tick; 1 s by default.
    pub max_wait: Duration,
    /// How far the clock may go back before the rollback policy applies; 1 s by default.
    pub hold: Duration,
    /// What happens beyond `hold`.
    pub rollback: RollbackPolicy,
    /// How many low bits of the sequence go on from tick to tick at low rates, so that
    /// `id % shards` spreads; 3 by default, capped at the sequence's width less 3.
    pub sequence_spread_bits: u32,
    /// How many codes have a cursor at a time; 100 000 by default.
    pub codes_max: usize,
    /// Whether all codes draw from one cursor, so that IDs are unique across codes too.
    pub codes_shared: bool,
    /// The codes that are served; `None` serves all.
    pub codes_allow: Option<BTreeSet<String>>,
}

impl Default for IssueSettings {
    fn default() -> Self {
        Self {
            borrow_ahead: Duration::ZERO,
            max_wait: Duration::from_secs(1),
            hold: Duration::from_secs(1),
            rollback: RollbackPolicy::default(),
            sequence_spread_bits: 3,
            codes_max: 100_000,
            codes_shared: false,
            codes_allow: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn policies_are_found_by_their_names() {
        let names = RollbackPolicy::ALL.map(RollbackPolicy::name);
        assert_eq!(names, ["rotate", "swap", "wait"]);
        assert_eq!(names.map(RollbackPolicy::by_name), RollbackPolicy::ALL.map(Some));
        assert_eq!(RollbackPolicy::by_name("Rotate"), None);
    }
}
