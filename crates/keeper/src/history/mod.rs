//! The history of a store, which its record tells: who follows it, and begins a new epoch.

pub(crate) mod follower;
pub(crate) mod known;
pub(crate) mod record;
