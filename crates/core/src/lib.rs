//! The part of Raindrop without I/O: layouts, issuing, and the decisions of the lease protocol.
//!
//! ```
//! use std::sync::Arc;
//! use raindrop_core::{clock::SystemClock, issue::{Generator, IssueSettings}, preset::Preset};
//!
//! let (layout, clock) = (Preset::Raindrop.spec().build()?, Arc::new(SystemClock::default()));
//! // No other process may use the worker id 7. `raindrop-keeper` leases one that none has.
//! let generator = Generator::with_worker(layout, 7, &IssueSettings::default(), clock)?;
//! let claim = generator.claim("order", 2)?;
//! std::thread::sleep(claim.wait);
//! claim.ids.for_each(|id| println!("{id}"));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Nothing here sleeps, or reads a socket, a file, a database or a clock, except [`clock`],
//! [`host`] and [`worker_id::WorkerIdSource`], which may read an environment variable. Time, tokens
//! and randomness are parameters, so that tests, models and simulations control them.
//!
//! `docs/glossary.md` in the repository defines the terms: tick, position, lane, mark, grant,
//! cursor, claim, seal and eight more.
//!
//! | where | what |
//! |---|---|
//! | [`layout`] | how 63 bits are divided; compose and decompose |
//! | [`preset`] | layouts by name: Raindrop's and those of other systems |
//! | [`encoding`] | IDs as text, and back |
//! | [`clock`] | the only place that reads clocks |
//! | [`host`] | the name and the address of this machine |
//! | [`worker_id`] | worker ids that are assigned, not leased |
//! | [`issue`] | how an ID is issued: grants, cursors and claims |
//! | [`segment`] | plain numbers, from blocks that a process reserves ahead of demand |
//! | [`keeper_api`] | the parts that only a keeper may use |
//! | [`lease`] | which row, lane, start and limit to lease, and how to resolve an unknown outcome |
//! | `planted` | bugs that the checkers must find |

pub mod clock;
pub mod code;
#[doc(hidden)]
pub mod duration;
pub mod encoding;
#[cfg(all(test, feature = "loom"))]
mod explore;
pub mod host;
pub mod id;
pub mod instant;
pub mod issue;
pub mod layout;
pub mod lease;
pub mod namespace;
#[doc(hidden)]
pub mod planted;
pub mod preset;
pub mod segment;
mod sync;
pub mod violation;
#[doc(hidden)]
pub mod visible;
pub mod worker_id;

/// The parts of this crate that only a keeper may use: misused, they issue IDs twice.
///
/// A program that embeds Raindrop needs none of them. Other methods that only the keeper and the
/// service call are public, too, but hidden from this documentation.
pub mod keeper_api {
    pub use crate::{
        issue::grant::Grant,
        segment::cursor::{Denied, GiveBack, SegmentCursor},
    };
}
