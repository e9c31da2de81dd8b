//! Segment mode: plain increasing numbers from blocks that are reserved ahead.
//!
//! A block belongs to one process from its reservation on, which hands out its numbers without
//! asking the store. The blocks form a chain; each code has one cursor, which moves through the
//! chain and only rises. The scheme is the 'segment' of Meituan's Leaf, with a step that follows
//! the demand.
//!
//! Invariants:
//! - the cursor moves in one atomic step from where it stands to the end of the claim; everything in
//!   between is in blocks of this process or is skipped;
//! - the limit of the quick path never passes the end of the block that the cursor has reached;
//! - a block below one that was held before is refused, because the store went back in time;
//! - the cursor is sealed before numbers are given back, so that no claim can still take them.

mod chain;
mod code_settings;
pub(crate) mod cursor;
mod gap;
#[cfg(all(test, feature = "loom"))]
mod models;
mod numbers;
mod spec;
mod spec_change;
mod step;

pub use self::{
    chain::{Chain, ClaimedIndexes, Remaining, UnusedEnd, WentBack},
    code_settings::{CodeSettings, UnreadableSettings},
    gap::{CodeRow, GapRule},
    numbers::Numbers,
    spec::{Block, Progression, SegmentSpec},
    spec_change::SpecChange,
    step::StepRule,
};
