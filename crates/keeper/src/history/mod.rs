//! Follows the history of a store, as the record of a namespace has it, and begins new epochs.

pub(crate) mod follower;
pub(crate) mod known;
