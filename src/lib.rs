//! Unique, time-ordered 64-bit IDs: a service over HTTP/JSON, and the same generator as a library.
//!
//! ```
//! use std::{sync::Arc, time::Duration};
//! use raindrop::{
//!     core::{clock::SystemClock, preset::Preset},
//!     keeper::{Keeper, KeeperSettings, NoObserver},
//!     store::{StoreSettings, connect},
//! };
//!
//! # tokio::runtime::Runtime::new()?.block_on(async {
//! let clock = Arc::new(SystemClock::default());
//! // In place of `memory:`, the address of a database that all processes share.
//! let store = connect(&StoreSettings::new("memory:"), clock.clone())?;
//! let settings = KeeperSettings::new(Preset::Raindrop.spec().build()?, "my service");
//! let (keeper, issuer) = Keeper::start(settings, store, clock, Arc::new(NoObserver));
//! println!("{}", issuer.next_id("order").await?);
//! keeper.release(Duration::from_secs(10)).await;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! # })?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # The promise and its contract
//!
//! No ID of a namespace is issued twice, whatever clocks, crashes and networks do, unless
//! [`codes_shared`](core::issue::IssueSettings::codes_shared) is turned off: then codes are
//! independent and may get equal IDs. `docs/safety/argument.md` has the argument,
//! `docs/safety/premises.md` its premises, and `docs/glossary.md` defines the terms.
//!
//! # Which part do I need?
//!
//! | you want | use |
//! |---|---|
//! | IDs over HTTP | the `raindrop` command |
//! | IDs in your own process, with worker ids leased from a database | `raindrop-keeper`: [`keeper::Keeper`] with a [`store`] |
//! | plain numbers in your own process, reserved from a database | `raindrop-keeper`: [`keeper::SegmentKeeper`] with a [`store`] |
//! | IDs in your own process, with a worker id that you assign | `raindrop-core`: [`core::issue::Generator`], with a [`core::worker_id`] source |
//!
//! # Features
//!
//! `kubernetes`, `mysql`, `postgres`, `redis`, `sqlite` (all by default): the stores that are built
//! in.
//!
//! # Layers
//!
//! `core ← store ← keeper ← config ← auth, plan, process ← server ← cli`: each layer uses only
//! those to its left. The first three are packages of their own.

pub mod auth;
pub mod cli;
pub mod config;
mod plan;
pub mod process;
pub mod server;
#[cfg(test)]
mod test_corpus;

pub use raindrop_keeper::{self as keeper, core, store};
