//! Counts the events of a run, to prove that it was not idle.

use std::ops::{Add, AddAssign};

macro_rules! activity {
    ($($(#[$attribute:meta])* $field:ident: $words:literal,)*) => {
        /// How often each event happened.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub(crate) struct Activity {
            $($(#[$attribute])* pub(crate) $field: u64,)*
        }

        impl Activity {
            /// Returns every count with its name.
            pub(crate) fn counts(&self) -> Vec<(&'static str, u64)> {
                vec![$(($words, self.$field),)*]
            }
        }

        impl Add for Activity {
            type Output = Self;

            fn add(mut self, other: Self) -> Self {
                self += other;
                self
            }
        }

        impl AddAssign for Activity {
            fn add_assign(&mut self, other: Self) {
                $(self.$field += other.$field;)*
            }
        }
    };
}

pub(crate) use activity;

activity! {
    ids: "IDs checked",
    shared: "of these from a cursor that all codes share",
    dispossessed: "IDs issued by a node whose row another had taken",
    took_place: "unknown outcomes that took place",
    unchanged: "unknown outcomes that left the row unchanged",
    lost: "unknown outcomes that lost the row",
    late_refused: "late writes refused",
    late_applied: "late writes applied",
    late_after_crash: "late writes of crashed nodes",
    reused: "lanes re-used above a mark",
    lowered_starts: "starts on a lowered mark",
    held: "clocks that went back: held",
    rotated: "clocks that went back: rotated",
    swapped: "clocks that went back: swapped",
    refused_rollback: "clocks that went back: refused",
    past: "IDs for a past time",
    past_refused: "claims of these that were refused",
    past_unconfirmed: "of these because the node's row did not show its last write",
    recreated: "codes that were evicted and came back",
    recreated_stale: "of these by a reader with an older clock",
    limits_reached: "limits reached",
    woken: "refused claims served after a woken renewal",
    quick: "IDs of a handle that looked at nothing but its cursor",
    waited: "claims that waited for their tick",
    borrowed: "claims that borrowed from ticks ahead",
    exhausted: "claims refused for want of positions",
    clock_ahead: "leases refused because the clock is ahead",
    releases: "clean releases",
    given_up: "releases that were given up",
    crashes: "crashes",
    resumed_leases: "leases resumed from a state file",
    refused_leases: "leases in a state file that were refused",
    kept: "clean stops that left the lease in the state file",
    failed_files: "state files that failed",
    ended: "processes that ended because they could not join",
    conflicts: "layouts refused",
    operator_released: "rows released by an operator",
    operator_raised: "times that an operator raised all marks",
    operator_lowered: "times that an operator lowered a barrier that a clock put ahead",
    relaid: "moves to another layout",
    relayout_refused: "moves refused because of the marks",
    taken_back: "moves that were taken back",
    resumed: "moves that had been cut short and were finished",
    operators_killed: "operators killed at work",
    operator_unknown: "of their writes with an unknown outcome",
    moving_refused: "nodes refused during a move",
    old_layout: "IDs of an old layout issued after a move",
    more_rows: "times that more rows were created",
    lost_rows: "rows that vanished",
    lost_held: "of these under a holder",
    lost_records: "records that vanished",
    store_crashes: "crashes of the store",
    lost_writes: "visible writes that they lost",
    restored: "backups that were restored",
    restored_in_place: "backups that were restored under running nodes",
    failed_over: "fail-overs",
    failed_back: "of these back to the server before",
    begun_epochs: "epochs that nodes began",
    store_lost: "claims refused because the store was lost",
    coarse: "IDs with a unit of an hour or a day",
}
