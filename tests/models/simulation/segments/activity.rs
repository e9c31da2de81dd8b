//! Counts the events of the nodes of segment mode.

use std::ops::{Add, AddAssign};

crate::activity::activity! {
    numbers: "numbers checked",
    strict: "numbers of strict codes checked",
    across: "batches across blocks",
    reserved: "blocks reserved",
    skipped: "blocks reserved beyond a gap",
    lost_replies: "reservations whose answer was lost",
    never_arrived: "reservations that never arrived",
    late_reserved: "reservations applied late",
    given_back: "tails given back",
    refused: "tails not given back, because somebody reserved since",
    late_refused: "late give-backs refused",
    late_applied: "late give-backs applied",
    undone: "reservations of strict codes undone",
    keyed: "requests with keys answered",
    given_up_keyed: "callers with keys that gave up",
    repeated: "of them repeated",
    late_texts: "texts of keys written late",
    fail_overs: "fail-overs to a server without the last writes",
    crashes: "crashes",
    stops: "clean stops",
    sealed: "claims refused by a node that gives back",
    given_up: "callers that gave up",
    waited: "claims that waited for a block",
    crashed: "claims refused by a node whose keeper crashed",
    unavailable: "claims refused because the store was away",
    used_up: "claims refused because the code is used up",
}
