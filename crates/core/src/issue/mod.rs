//! How an ID is issued: grants, cursors and claims, and the settings of all three.
//!
//! A [`Generator`] has at most one grant at a time, and a grant has a table of cursors. A claim
//! reads the clock, looks up the cursor of its code and moves it in one atomic step. Nothing here
//! calls the store or sleeps: the keeper installs the grant and raises its limit, and the caller
//! waits for [`Claim::wait`]. These rules keep two claims of one grant apart (steps
//! 4 to 6 of `docs/safety/argument.md`):
//!
//! - A cursor only rises until it is closed. A closed cursor stays closed.
//! - A new cursor starts at the grant's start or floor, never at a reading of the clock.
//! - A claim ends at or below the limit. The limit only rises, once the store acknowledged the
//!   mark.
//! - An eviction raises the floor before it closes the cursor.
//!
//! The models in `models` explore every interleaving of these steps with loom.

mod blocks;
mod claim;
mod cursor;
mod generator;
pub(crate) mod grant;
mod handle;
#[cfg(all(test, feature = "loom"))]
mod models;
mod planted;
mod recent_codes;
mod rules;
mod run;
mod table;

use std::{collections::BTreeSet, time::Duration};

pub use self::{
    blocks::Blocks,
    claim::{Claim, ClaimError, Count},
    generator::Generator,
    handle::CodeHandle,
    run::{IdRange, RepeatedRange, Run},
};

/// What happens when the clock goes back by more than [`IssueSettings::hold`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RollbackPolicy {
    /// Lease another lane of the same worker; if none is available, another worker.
    #[default]
    Rotate,
    /// Lease another worker; if none is available, do as [`Self::Wait`].
    Swap,
    /// Refuse claims until the clock has caught up.
    Wait,
}

impl RollbackPolicy {
    /// Every policy.
    pub const ALL: [Self; 3] = [Self::Rotate, Self::Swap, Self::Wait];

    /// Returns the name in configuration.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Rotate => "rotate",
            Self::Swap => "swap",
            Self::Wait => "wait",
        }
    }

    /// Returns the policy of this name.
    pub fn by_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|policy| policy.name() == name)
    }
}

/// The settings of issuing; the defaults are those of the service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IssueSettings {
    /// How far ahead of the clock IDs may be issued without a wait. Default: 0.
    pub borrow_ahead: Duration,
    /// The longest time that a caller waits for its tick. Default: 1 s.
    pub max_wait: Duration,
    /// How far the clock may go back before the rollback policy applies. Default: 1 s.
    pub hold: Duration,
    /// What happens when the clock goes back further than `hold`.
    pub rollback: RollbackPolicy,
    /// How many low bits of the sequence continue from tick to tick at low rates, so that `id %
    /// shards` is evenly spread. Default: 3. At most the width of the sequence less 3; 0 in layouts
    /// whose lowest field is the worker.
    pub sequence_spread_bits: u32,
    /// Whether all codes draw from one cursor, so that IDs are unique across codes. Default: true.
    /// If not, each code has a cursor for itself, and two codes may get equal IDs.
    pub codes_shared: bool,
    /// The largest number of codes that have a cursor at the same time. Default: 100 000. Ignored
    /// if all codes share one cursor.
    pub codes_max: usize,
    /// How many new codes a client may have in a tick of a minute or longer. Default: 10 000.
    /// Applies only to claims that identify their client, as the HTTP service does, and not if all
    /// codes share one cursor.
    pub codes_max_per_client: usize,
    /// The codes that are allowed; `None` allows all.
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
            codes_shared: true,
            codes_max: 100_000,
            codes_max_per_client: 10_000,
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
