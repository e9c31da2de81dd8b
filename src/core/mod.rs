//! The pure part: layouts, cursors, grants and the decisions of the lease protocol.
//!
//! Nothing here reads a socket, a file, a database or a clock, outside [`clock`] and [`host`];
//! nothing sleeps. Time, tokens and randomness are passed in, so that tests, models and
//! simulations own them.
//!
//! | where | what |
//! |---|---|
//! | [`layout`] | how 63 bits are divided; compose and decompose |
//! | [`preset`] | layouts by name, and those of other systems |
//! | [`encoding`] | IDs as text, and back |
//! | [`clock`] | the one place that reads clocks |
//! | [`host`] | the one place that asks the machine for its name and address |
//! | [`worker_id`] | worker ids that are given, not leased |
//! | [`issue`] | cursors, grants and claims: how an ID is handed out |
//! | [`segment`] | plain numbers from blocks that are reserved ahead |
//! | `planted` | rules that checkers break on purpose |
//! | [`lease`] | which row, lane, start and limit to take, and what an unknown outcome means |

pub mod clock;
pub mod code;
pub mod encoding;
#[cfg(all(test, raindrop_loom))]
mod explore;
pub mod host;
pub mod id;
pub mod instant;
pub mod issue;
pub mod layout;
pub mod lease;
pub mod namespace;
#[cfg(raindrop_planted)]
pub mod planted;
#[cfg(not(raindrop_planted))]
pub(crate) mod planted;
pub mod preset;
pub mod segment;
mod sync;
pub mod violation;
pub mod worker_id;
