//! Explores the unbroken rules: every state of every configuration.

use super::{
    configuration::{Breaks, Configuration},
    report::explore,
    world::{ANEW, LATE, LOST, OVER_SEVERAL, UNBROKEN},
};
use crate::sound::is_large;

/// Two processes whose leases reach little ahead, and rows that expire at once.
pub(super) const QUICK: Configuration = Configuration {
    name: "fail-over and fail-back",
    lanes: 1,
    initial_lane: 0,
    writes: &[3, 2],
    instants: &[0, 1],
    windows: &[0, 0],
    first_reach: 9,
    ttl: 0,
    skew: 0,
    clocks: [0, 0],
    failovers: 2,
    returns: false,
    prompt: false,
    raises: 0,
    releases: 0,
    breaks: Breaks::Nothing,
    shows: &[LOST, LATE, ANEW],
};

/// Leases that reach ahead and outlive a fail-over.
pub(super) const UNBROKEN_LEASES: Configuration = Configuration {
    name: "leases that go on unbroken",
    writes: &[3, 1],
    instants: &[0, 1, 2, 3],
    windows: &[2, 2],
    ttl: 2,
    failovers: 1,
    shows: &[LOST, LATE, UNBROKEN, ANEW],
    ..QUICK
};

/// A server whose clock is ahead of the one that takes over.
pub(super) const SKEWED: Configuration = Configuration {
    name: "a server behind",
    writes: &[2, 2],
    instants: &[0, 1, 2],
    skew: 1,
    clocks: [1, 0],
    failovers: 1,
    ..QUICK
};

/// The same with a ttl that proves something beyond all skews.
pub(super) const SKEWED_UNBROKEN: Configuration = Configuration {
    name: "leases that go on unbroken on a server behind",
    writes: &[3, 1],
    instants: &[0, 1, 5],
    windows: &[5, 5],
    ttl: 5,
    shows: &[LOST, LATE, UNBROKEN],
    ..SKEWED
};

pub(super) const TWO_LANES: Configuration = Configuration {
    name: "two lanes and fail-over",
    lanes: 2,
    writes: &[3, 2],
    instants: &[0, 1],
    failovers: 1,
    ..QUICK
};

/// An operator releases the row of a lease before its first renewal.
pub(super) const RELEASED: Configuration = Configuration {
    name: "a row that an operator releases",
    instants: &[0, 1],
    first_reach: 0,
    releases: 1,
    shows: &[LOST, LATE, UNBROKEN],
    ..UNBROKEN_LEASES
};

pub(super) const RELEASED_LANES: Configuration = Configuration {
    name: "a row with two lanes that an operator releases",
    lanes: 2,
    instants: &[0],
    first_reach: 9,
    ..RELEASED
};

/// Holders check the store once while two epochs begin.
pub(super) const SEVERAL: Configuration = Configuration {
    name: "several epochs between two checks",
    writes: &[3, 3],
    instants: &[0, 1, 2, 3],
    windows: &[2, 2],
    first_reach: 0,
    ttl: 2,
    prompt: true,
    shows: &[LOST, OVER_SEVERAL, ANEW],
    ..QUICK
};

/// The same where the first server returns as it was left.
pub(super) const RETURNING: Configuration = Configuration {
    name: "a server that returns without an epoch",
    returns: true,
    shows: &[LOST, UNBROKEN, ANEW],
    ..SEVERAL
};

/// The same, and an operator begins an epoch.
pub(super) const RAISED: Configuration =
    Configuration { name: "a server that returns, and an operator", raises: 1, ..RETURNING };

fn explore_up_to(configuration: &Configuration, large: &[&Configuration]) {
    explore(configuration);
    if is_large() {
        large.iter().for_each(|large| explore(large));
    }
}

#[test]
fn fail_over_and_fail_back() {
    let shared = Configuration { writes: &[3, 3], ..QUICK };
    let ahead = Configuration {
        instants: &[0, 1, 2, 3],
        windows: &[1, 1],
        ttl: 2,
        shows: &[LOST, LATE, UNBROKEN, ANEW],
        ..QUICK
    };
    explore_up_to(&QUICK, &[&shared, &ahead]);
}

#[test]
fn leases_that_go_on_unbroken() {
    let more = Configuration { writes: &[3, 2], instants: &[0, 1, 2], ..UNBROKEN_LEASES };
    let twice = Configuration { writes: &[4, 1], failovers: 2, ..UNBROKEN_LEASES };
    explore_up_to(&UNBROKEN_LEASES, &[&more, &twice]);
}

#[test]
fn a_server_behind() {
    let twice = Configuration { failovers: 2, ..SKEWED };
    explore_up_to(&SKEWED, &[&Configuration { instants: &[0, 1, 2, 3], ..SKEWED }, &twice]);
}

#[test]
fn a_server_ahead() {
    explore(&Configuration { name: "a server ahead", clocks: [0, 1], ..SKEWED });
}

#[test]
fn leases_that_go_on_unbroken_on_a_server_behind() {
    explore_up_to(&SKEWED_UNBROKEN, &[&Configuration { failovers: 2, ..SKEWED_UNBROKEN }]);
}

#[test]
fn two_lanes() {
    let twice = Configuration { instants: &[0], failovers: 2, shows: &[LOST, LATE], ..TWO_LANES };
    explore_up_to(&TWO_LANES, &[&twice]);
}

#[test]
fn an_operator_releases_a_row() {
    explore_up_to(&RELEASED, &[&Configuration { instants: &[0, 1, 2, 3], ..RELEASED }]);
}

#[test]
fn an_operator_releases_a_row_with_two_lanes() {
    explore_up_to(&RELEASED_LANES, &[&Configuration { instants: &[0, 1], ..RELEASED_LANES }]);
}

#[test]
fn three_processes() {
    let three = Configuration {
        name: "three processes and fail-over",
        writes: &[2, 1, 1],
        windows: &[0, 0, 0],
        failovers: 1,
        shows: &[LOST, LATE],
        ..QUICK
    };
    explore_up_to(&three, &[&Configuration { writes: &[2, 2, 1], ..three.clone() }]);
}

#[test]
fn several_epochs_between_two_checks() {
    let more = Configuration { writes: &[4, 4], ..SEVERAL };
    let three = Configuration { writes: &[2, 2, 2], windows: &[2, 2, 2], ..SEVERAL };
    explore_up_to(&SEVERAL, &[&more, &three]);
}

#[test]
fn several_epochs_on_servers_whose_clocks_differ() {
    let several = Configuration {
        name: "several epochs on servers whose clocks differ",
        prompt: true,
        failovers: 2,
        shows: &[OVER_SEVERAL],
        ..SKEWED_UNBROKEN
    };
    explore_up_to(&several, &[&Configuration { writes: &[3, 3], ..several.clone() }]);
}

#[test]
fn several_epochs_and_a_row_that_an_operator_releases() {
    let released = Configuration { name: "several epochs and a release", releases: 1, ..SEVERAL };
    explore_up_to(&released, &[&Configuration { writes: &[4, 4], ..released.clone() }]);
}

#[test]
fn a_server_that_returns_without_an_epoch() {
    let more = Configuration { writes: &[4, 4], ..RETURNING };
    let later = Configuration { instants: &[0, 1, 2, 3, 4], windows: &[3, 3], ttl: 3, ..RETURNING };
    explore_up_to(&RETURNING, &[&more, &later]);
}

#[test]
fn a_server_that_returns_and_an_operator() {
    explore_up_to(&RAISED, &[&Configuration { writes: &[4, 4], ..RAISED }]);
}
