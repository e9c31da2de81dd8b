//! Leases worker ids and blocks of numbers from a store, and issues IDs and numbers with them.
//!
//! A background task, the [`Keeper`], acquires, renews, moves and releases the lease of a
//! namespace; an [`Issuer`] issues its IDs. [`SegmentKeeper`] and [`SegmentIssuer`] do the same for
//! plain numbers. The [`Operator`] carries out the commands of operators, from the command line and
//! the administrators' routes. `docs/glossary.md` in the repository defines the terms.
//!
//! [`core`] and [`store`] are re-exported: an application names only this package, with the
//! features of its engines (`kubernetes`, `mysql`, `postgres`, `redis`, `sqlite`). The features
//! `serde`, `sqlx`, `sqlx-postgres` and `utoipa` are those of [`core::id`].
//!
//! # Example
//!
//! The keeper leases a worker id from the store and renews it in the background. Issuing does not
//! query the store, so it continues while the store is down.
//!
//! ```
//! # #[cfg(feature = "sqlite")]
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use std::{sync::Arc, time::Duration};
//! use raindrop_keeper::{
//!     Keeper, KeeperSettings, NoObserver,
//!     core::{clock::SystemClock, preset::Preset},
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
//! # Runtimes and cryptography
//!
//! - A keeper runs on the tokio runtime in which the application started it. Keep both for as long
//!   as you issue IDs: without them, claims use up the lease and then fail with
//!   [`UnavailableReason::KeeperEnded`].
//! - Any executor may poll claims: if they wait, they wait on the keeper's runtime. Everything else
//!   that calls the store, such as an [`Operator`] or a [`CodeManager`], needs a tokio runtime.
//! - TLS to Redis and Kubernetes uses the cryptography that the process has installed for rustls.
//!   If none is installed by then, the store installs ring. An application that wants another one
//!   installs that first.

mod backfill;
mod history;
mod keeper;
mod lease;
mod operator;
mod segment;
mod state_file;
mod support;
#[cfg(all(test, not(feature = "planted")))]
mod tests;
#[cfg(all(test, feature = "planted"))]
#[path = "tests/planted.rs"]
mod tests;

pub use raindrop_core as core;
pub use raindrop_store as store;

#[cfg(any(test, feature = "planted"))]
pub use self::state_file::MemoryDisk;
#[doc(hidden)]
pub use self::support::tasks::catch_panic;
pub use self::{
    backfill::{Backfill, BackfillError},
    keeper::{Keeper, NamespaceIssuer},
    lease::{
        handle::{IssuerBlocks, IssuerHandle},
        issuer::Issuer,
        settings::KeeperSettings,
        stop::Released,
    },
    operator::{
        FinishedMove, Operator, OperatorError, RaisePreview, RelayoutOutcome, RelayoutPreview,
        WorkerRelease,
    },
    segment::{
        CodeKind, CodeManager, CodeView, GivenBack, IdempotencyKey, InvalidIdempotencyKey,
        KeyedNumber, ManageError, RaiseError, SegmentHandle, SegmentIssuer, SegmentKeeper,
        SegmentSettings, SegmentStatus,
    },
    state_file::{StateFile, StateFileError},
    support::{
        error::{IssueError, KeeperError, LayoutError},
        observer::{
            Exhaustion, KeeperTask, LeaseOperation, LeaseOutcome, NoObserver, Observer,
            RefillOutcome, RollbackAction, SPANS, StoreOperation,
        },
        status::{LeaseView, Status, StoreFailure, UnavailableReason},
    },
};
pub use crate::lease::settings::LeaseTimes;
