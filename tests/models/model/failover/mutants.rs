//! Breaks one rule or premise at a time: each must lead to a position that is issued twice.

use raindrop_core::planted::Bug;

use super::{
    configuration::{Breaks, Configuration},
    process::Operation,
    report::{find, is_duplicate_after},
    sound::{
        QUICK, RAISED, RELEASED, RELEASED_LANES, RETURNING, SEVERAL, SKEWED, SKEWED_UNBROKEN,
        TWO_LANES, UNBROKEN_LEASES,
    },
    world::Action,
};

macro_rules! finds {
    ($($name:ident: $bug:ident in $world:expr),+ $(,)?) => {$(
        #[test]
        fn $name() {
            find(Some(Bug::$bug), &$world);
        }
    )+};
}

finds!(
    rows_without_an_epoch: EpochNotInRows in QUICK,
    an_ignored_identity: IdentityIgnored in QUICK,
    an_identity_that_is_checked_before_the_swap: IdentityCheckedBefore in QUICK,
    an_epoch_made_of_the_identity: EpochIsIdentity in QUICK,
    a_barrier_by_the_clock_of_a_node: BarrierByNodeClock in SKEWED,
    a_lease_renewed_across_epochs: RenewedAcrossEpochs in UNBROKEN_LEASES,
    other_lanes_that_are_not_raised: OtherLanesNotRaised
        in Configuration { writes: &[3, 3], ..TWO_LANES },
    a_release_that_keeps_the_mark: ReleaseKeepsMark in RELEASED,
    a_lease_of_several_epochs_ago_whose_row_was_rolled_back: RolledBackRowPassed in SEVERAL,
    a_lease_of_several_epochs_ago_whose_row_expired: TtlPassed in SEVERAL,
    a_lease_that_goes_on_over_a_lost_epoch: LostEpochPassed in RETURNING,
    a_lease_that_goes_on_over_an_operators_epoch: RaisePassed in RAISED,
);

macro_rules! breaks {
    ($($name:ident: $breaks:ident in $world:expr),+ $(,)?) => {$(
        #[test]
        fn $name() {
            find(None, &Configuration { breaks: Breaks::$breaks, ..$world });
        }
    )+};
}

breaks!(
    a_swap_that_does_not_name_the_epoch: EpochNotInSwap in QUICK,
    a_ttl_that_ignores_the_skews: TtlWithoutSkews in SKEWED_UNBROKEN,
    a_barrier_without_the_reach: BarrierWithoutReach
        in Configuration { windows: &[1, 1], instants: &[0, 1, 2], ..QUICK },
    a_barrier_without_the_skews: BarrierWithoutSkews in SKEWED,
    a_holder_that_forgets_its_marks: WentBackForgetsMarks in Configuration {
        writes: &[5, 0],
        instants: &[0, 2],
        windows: &[1, 1],
        ttl: 1,
        ..TWO_LANES
    },
    a_search_that_releases_at_an_old_mark: AbandonedMarkNotRaised
        in Configuration { initial_lane: 1, writes: &[4, 2], instants: &[0], ..TWO_LANES },
    other_lanes_of_an_unbroken_lease_that_are_not_raised: UnbrokenLanesNotRaised in RELEASED_LANES,
    a_ttl_longer_than_leases_reach: TtlBeyondReach
        in Configuration { ttl: 9, windows: &[0, 0], ..RELEASED },
    a_record_read_apart_from_the_identity: RecordReadApart
        in Configuration { writes: &[2, 2], ..QUICK },
    a_fail_over_that_nobody_saw: NobodyLooked in QUICK,
    a_fail_over_that_loses_the_record: RecordLost in QUICK,
    a_store_whose_clock_is_not_believed: StoreClockBehind in QUICK,
);

/// Premise: the clocks of two servers, and how long the old one accepts writes, differ by no more
/// than the skew in total.
#[test]
fn servers_that_differ_by_two_skews() {
    find(None, &Configuration { clocks: [2, 0], ..SKEWED });
}

/// Premise: a fail-over does not lose the first record of a longer window.
#[test]
fn a_longer_window_that_is_lost() {
    find(None, &Configuration { windows: &[0, 2], writes: &[2, 3], failovers: 1, ..QUICK });
}

const fn look(process: usize) -> Action {
    Action::Survey { process, ahead: false, operation: Operation::Renew }
}

const fn arrive(all: bool) -> Action {
    Action::Arrive { message: 0, all }
}

/// Too deep for a search: a holder lowers, after a fail-over, the lane that it left before.
#[test]
fn a_left_lane_that_is_lowered_in_a_new_epoch() {
    let rotate = |process| Action::Survey { process, ahead: false, operation: Operation::Rotate };
    let trace = [
        look(0),
        arrive(true),
        // The holder leaves a lane on which it issued nothing.
        rotate(0),
        arrive(false),
        Action::Tick,
        // The holder's row expired, and the store loses the lease of the other process.
        look(1),
        arrive(true),
        Action::FailOver { kept: 3 },
        look(1),
        arrive(true),
        look(0),
        Action::Read { process: 0 },
        // The holder leases the row again, without an answer, and stops.
        look(0),
        Action::GiveUp { process: 0 },
        arrive(true),
        Action::Leave { process: 0, all: true },
        Action::Read { process: 0 },
        arrive(true),
        look(0),
        arrive(true),
    ];
    let lanes = Configuration { writes: &[6, 3], ..TWO_LANES };
    assert!(!is_duplicate_after(&lanes, &trace));
    let broken = Configuration { breaks: Breaks::LeftLaneLowered, ..lanes };
    assert!(is_duplicate_after(&broken, &trace));
}
