//! Supports the other modules: errors and status, calls and clocks of the store, tasks, randomness.

pub(crate) mod error;
pub(crate) mod failure_log;
pub(crate) mod keeper_runtime;
pub(crate) mod lease_times;
pub(crate) mod observer;
pub(crate) mod panics;
pub(crate) mod random;
pub(crate) mod spans;
pub(crate) mod status;
pub(crate) mod store_call;
pub(crate) mod task_handle;
