//! Supports the other modules: errors and status, calls and clocks of the store, tasks, randomness.

pub(crate) mod error;
pub(crate) mod observer;
pub(crate) mod random;
pub(crate) mod status;
pub(crate) mod store_call;
pub(crate) mod tasks;
