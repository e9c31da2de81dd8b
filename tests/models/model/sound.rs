//! Explores the protocol unbroken: every state of every configuration.

use crate::{configuration::Configuration, report::explore};

/// Two processes, one row, one lane and one code.
pub(crate) const SMALL: Configuration = Configuration {
    name: "one row, one lane",
    rows: 1,
    lanes: 1,
    codes: 1,
    positions_per_tick: 2,
    ticks: 2,
    reach_ticks: 0,
    writes: &[3, 2],
    crashes: 0,
    panics: 0,
    compares_tokens: true,
    keeps_leases: false,
};

/// The same with a store that crashes once.
pub(crate) const CRASHES: Configuration =
    Configuration { name: "a store that crashes", crashes: 1, ..SMALL };

/// The same with a state file for each process.
pub(crate) const KEPT: Configuration =
    Configuration { name: "state files", keeps_leases: true, writes: &[2, 2], ..SMALL };

/// With two lanes, so that the lane in the file is not always the one that the row was left on.
pub(crate) const KEPT_LANES: Configuration =
    Configuration { name: "state files and two lanes", lanes: 2, positions_per_tick: 1, ..KEPT };

/// Returns whether `RAINDROP_MODEL` asks for larger worlds.
pub(crate) fn is_large() -> bool {
    std::env::var("RAINDROP_MODEL").is_ok_and(|size| size == "large")
}

fn explore_up_to(small: &'static [u8], large: &'static [u8], configuration: Configuration) {
    let writes = if is_large() { large } else { small };
    explore(&Configuration { writes, ..configuration });
}

#[test]
fn one_row_and_one_lane() {
    explore(&SMALL);
}

#[test]
fn a_task_that_panics() {
    let panics = Configuration { name: "a task that panics", panics: 1, ..SMALL };
    explore_up_to(&[2, 2], &[3, 2], panics);
}

#[test]
fn a_task_that_panics_with_a_state_file() {
    let panics = Configuration { name: "a task that panics, state files", panics: 1, ..KEPT };
    explore_up_to(&[2, 1], &[2, 2], panics);
}

#[test]
fn a_task_that_panics_over_two_rows_with_two_lanes() {
    let panics = Configuration {
        name: "a task that panics, two rows and two lanes",
        rows: 2,
        lanes: 2,
        positions_per_tick: 1,
        panics: 1,
        ..SMALL
    };
    explore_up_to(&[2, 1], &[2, 2], panics);
}

#[test]
fn a_store_that_crashes() {
    explore_up_to(&[2, 2], &[3, 2], CRASHES);
}

#[test]
fn a_store_with_two_rows_that_crashes() {
    let rows = Configuration { name: "two rows of a store that crashes", rows: 2, ..CRASHES };
    explore_up_to(&[2, 1], &[2, 2], rows);
}

#[test]
fn state_files() {
    explore_up_to(&[2, 2], &[3, 2], KEPT);
}

#[test]
fn state_files_and_two_lanes() {
    explore_up_to(&[2, 1], &[3, 2], KEPT_LANES);
}

#[test]
fn state_files_and_a_store_that_crashes() {
    let crashes = Configuration { name: "state files, a store that crashes", crashes: 1, ..KEPT };
    explore_up_to(&[2, 1], &[2, 2], crashes);
}

#[test]
fn two_codes() {
    let codes = Configuration { name: "two codes", codes: 2, ..SMALL };
    explore_up_to(&[2, 1], &[2, 2], codes);
}

#[test]
fn two_lanes() {
    let lanes = Configuration { name: "two lanes", lanes: 2, ..SMALL };
    explore(&Configuration { writes: &[2, 2], ..lanes });
}

#[test]
fn two_rows() {
    let rows = Configuration { name: "two rows", rows: 2, ..SMALL };
    explore_up_to(&[2, 1], &[2, 2], rows);
}

#[test]
fn reaching_ahead() {
    let ahead = Configuration {
        name: "reaching ahead",
        positions_per_tick: 1,
        ticks: 3,
        reach_ticks: 1,
        ..SMALL
    };
    explore_up_to(&[2, 2], &[3, 2], ahead);
}

#[test]
fn three_processes() {
    let three = Configuration { name: "three processes", ..SMALL };
    explore_up_to(&[1, 1, 1], &[2, 1, 1], three);
}
