//! How an ID is handed out: cursors, grants and claims.
//!
//! A [`Generator`] has at most one grant at a time. A grant has a table with one cursor for each
//! code. A claim reads the clock, looks up the cursor and moves it in one atomic step.
//!
//! Invariants:
//! - a cursor only rises until it is closed, and a closed one stays closed;
//! - a new cursor starts at the grant's start or floor, never at a reading of the clock;
//! - a claim ends at or below the limit, which only rises, after the store acknowledged it;
//! - an eviction raises the floor before it closes the cursor.

mod blocks;
mod claim;
mod cursor;
mod generator;
pub(crate) mod grant;
mod handle;
#[cfg(all(test, feature = "loom"))]
mod models;
mod recent_codes;
mod rules;
mod run;
mod settings;
mod table;

pub use self::{
    blocks::Blocks,
    claim::{Claim, ClaimError, Count},
    generator::Generator,
    handle::CodeHandle,
    run::{IdRange, RepeatedRange, Run},
    settings::{IssueSettings, RollbackPolicy},
};
