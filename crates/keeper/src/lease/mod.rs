//! Keeps the lease of a namespace: the task that acquires, renews, moves and releases it
//! (`task.rs`), and the issuer of its IDs (`issuer.rs`).

pub(crate) mod context;
pub(crate) mod handle;
pub(crate) mod held;
pub(crate) mod issuer;
mod planted;
pub(crate) mod prepare;
pub(crate) mod resume;
mod search;
pub(crate) mod settings;
pub(crate) mod shared;
pub(crate) mod stale_wait;
pub(crate) mod state_file_writer;
pub(crate) mod stop;
pub(crate) mod task;
