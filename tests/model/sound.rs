//! The protocol as it is: every state of every configuration.

use raindrop::core::policy::Sound;

use crate::{configuration::Configuration, report::explore};

/// Two processes, one row, one lane and one code.
pub(crate) const SMALL: Configuration = Configuration {
    name: "one row, one lane",
    processes: 2,
    rows: 1,
    lanes: 1,
    codes: 1,
    positions_per_tick: 2,
    ticks: 2,
    reach_ticks: 0,
    writes: 3,
    compares_tokens: true,
};

#[test]
fn one_row_one_lane() {
    explore::<Sound>(&SMALL);
}

#[test]
fn two_codes() {
    explore::<Sound>(&Configuration { name: "two codes", codes: 2, writes: 2, ..SMALL });
}

#[test]
fn two_lanes() {
    explore::<Sound>(&Configuration { name: "two lanes", lanes: 2, writes: 2, ..SMALL });
}

#[test]
fn two_rows() {
    explore::<Sound>(&Configuration { name: "two rows", rows: 2, writes: 2, ..SMALL });
}

#[test]
fn three_processes() {
    explore::<Sound>(&Configuration { name: "three processes", processes: 3, writes: 1, ..SMALL });
}
