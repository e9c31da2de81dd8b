//! How an ID is issued: grants, cursors and claims.
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
