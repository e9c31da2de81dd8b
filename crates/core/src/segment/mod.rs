//! Segment mode: plain ascending numbers from blocks that a process reserves ahead of demand.
//!
//! A reservation gives a block of numbers to one process, which issues them without the store. The
//! blocks of a code form a chain, and each code has one cursor, which moves through the chain and
//! only rises. Nothing here reserves: a task of the keeper does, woken by claims that find few
//! numbers left. The scheme is that of Meituan's Leaf, with a step that follows the demand. These
//! rules keep numbers apart (`docs/safety/segments.md`; `models` checks the first two with loom):
//!
//! - The cursor moves in one atomic step from its position to the end of the claim. All numbers in
//!   between are in blocks of this process, or are skipped.
//! - The limit of the fast path never passes the end of the block that the cursor has reached.
//! - The chain refuses a block below an earlier one: it shows that the store was rolled back.
//! - The keeper seals the cursor before it returns unused numbers, so that no claim can still take
//!   them.
//!
//! A strict code has no block in hand; `strict.rs` argues for its writes.

mod chain;
mod code_settings;
pub(crate) mod cursor;
mod gap;
#[cfg(all(test, feature = "loom"))]
mod models;
mod numbers;
mod planted;
mod spec;
mod spec_change;
mod step;
mod strict;
mod text_form;

pub use self::{
    chain::{Chain, ClaimedIndexes, Remaining, UnusedEnd, WentBack},
    code_settings::{CodeSettings, UnreadableSettings},
    gap::{CodeRow, GapRule},
    numbers::Numbers,
    spec::{Block, Progression, SegmentSpec},
    spec_change::SpecChange,
    step::StepRule,
    strict::{StrictWrites, Unissued},
    text_form::{AroundNumber, InvalidNumberText, InvalidTextForm, TextForm},
};
