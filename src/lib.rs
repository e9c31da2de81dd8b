//! Unique, time-ordered 64-bit IDs: a service over HTTP/JSON, and the same generator as a library.
//!
//! # The promise and its contract
//!
//! No ID is issued twice for one (namespace, code), whatever clocks, crashes and networks do.
//! Different codes are independent and may get equal IDs, unless
//! [`codes_shared`](core::issue::IssueSettings::codes_shared) is set. `docs/safety.md` has the
//! argument and its premises.
//!
//! # Which part do I need?
//!
//! | you want | use |
//! |---|---|
//! | IDs over HTTP | the `raindrop` command |
//! | IDs in your own process, with worker ids leased from a database | [`keeper::Keeper`] with a [`store`] |
//! | plain numbers in your own process, reserved from a database | [`keeper::SegmentKeeper`] with a [`store`] |
//! | IDs in your own process, with a worker id that you assign | [`core::issue::Generator`], with a [`core::worker_id`] source |
//!
//! # Leased worker ids
//!
//! The keeper leases a worker id from the store and renews it in the background. Issuing does not
//! query the store, so it continues while the store is down.
//!
//! ```
//! # #[cfg(feature = "sqlite")]
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use std::{sync::Arc, time::Duration};
//! use raindrop::{
//!     core::{clock::SystemClock, preset::Preset},
//!     keeper::{Keeper, KeeperSettings, NoObserver},
//!     store::{StoreSettings, connect},
//! };
//!
//! # tokio::runtime::Runtime::new()?.block_on(async {
//! # let folder = tempfile::tempdir()?;
//! # let url = format!("sqlite://{}", folder.path().join("ids.db").display());
//! let clock = Arc::new(SystemClock::default());
//! let store = connect(&StoreSettings::new(url), clock.clone())?;
//! let settings = KeeperSettings::new(Preset::Raindrop.spec().build()?, "my service");
//! let (keeper, issuer) = Keeper::start(settings, store.clone(), clock, Arc::new(NoObserver));
//!
//! let id = issuer.next_id("order").await?;
//! let batch: Vec<_> = issuer.next_ids("order", 1000).await?.collect();
//! assert!(id < batch[0]);
//!
//! // A clean stop frees the worker id at once.
//! keeper.release(Duration::from_secs(10)).await;
//! store.close().await;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! # })
//! # }
//! # #[cfg(not(feature = "sqlite"))]
//! # fn main() {}
//! ```
//!
//! # The core alone
//!
//! With `default-features = false` only [`core`] is built: no runtime, no database, no server.
//! [`core::issue::Generator`] has an example. Its IDs are unique only while no two processes use
//! one worker id, and no restart finds the clock set back.
//!
//! # Features
//!
//! - `server` (default): the HTTP service and the command.
//! - `kubernetes`, `mysql`, `postgres`, `redis`, `sqlite` (default): stores.
//! - `keeper`: leases, with a store in memory; implied by the stores and the server.
//!
//! # Layers
//!
//! `core ← store ← keeper ← config ← server ← cli`: each layer uses only those to its left.

#![cfg_attr(
    not(feature = "keeper"),
    expect(rustdoc::broken_intra_doc_links, reason = "the keeper and the stores are features")
)]

#[cfg(feature = "server")]
pub mod cli;
#[cfg(feature = "server")]
pub mod config;
pub mod core;
#[cfg(feature = "keeper")]
pub mod keeper;
#[cfg(feature = "server")]
pub mod server;
#[cfg(feature = "keeper")]
pub mod store;
