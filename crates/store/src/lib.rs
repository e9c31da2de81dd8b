//! Stores of worker rows and segment codes: small traits with the same semantics on every engine.
//!
//! ```
//! use std::sync::Arc;
//! use raindrop_core::clock::SystemClock;
//! use raindrop_store::{StoreSettings, connect};
//!
//! # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
//! let store = connect(&StoreSettings::new("memory:"), Arc::new(SystemClock::default()))?;
//! let warnings = store.prepare().await?;
//! let record = store.read_record("default").await?;
//! assert!(warnings.is_empty() && record.is_none());
//! store.close().await;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! # })?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! `docs/glossary.md` in the repository defines the terms.
//!
//! A store answers queries, and replaces rows and records by compare-and-swap. It decides nothing:
//! which row to take, and what an unknown outcome means, are decisions of `raindrop-core`. A call
//! that fails or is cut off may have taken place, or may still; the caller learns that by reading
//! the row's token.
//!
//! # Adding an engine
//!
//! 1. Implement [`Store`] in a new folder. For a SQL database, write two files in `sql`: the
//!    statements, named as those of the other engines, and an `Engine` that sets up sessions and
//!    classifies errors.
//! 2. Make every method one statement, or a few that are harmless when repeated or cut short. A
//!    swap is *one* autocommitted statement: never read-then-write in a transaction.
//! 3. Take the time from the store's own clock, in UTC, inside the statement.
//! 4. Compare text byte for byte: `Order` and `order` are different everywhere.
//! 5. In each write, compare the server with the one on which the session was set up, so that no
//!    proxy can pass the write to another server.
//! 6. Add a line to `KINDS` in `connect.rs`, and run the conformance suite in `tests/store` on a
//!    real server.

mod address;
mod connect;
mod error;
#[cfg(any(feature = "redis", feature = "sql"))]
mod hosts;
mod idempotency;
#[cfg(any(test, feature = "simulation"))]
#[path = "tests/intercept.rs"]
mod intercept;
#[cfg(feature = "kubernetes")]
mod kubernetes;
mod memory;
#[cfg(any(feature = "kubernetes", feature = "redis", feature = "sql"))]
mod parameters;
#[cfg(any(feature = "redis", feature = "sql"))]
mod pool;
mod record;
#[cfg(feature = "redis")]
mod redis;
#[cfg(any(feature = "redis", feature = "sql"))]
mod renewed;
mod segment;
#[cfg(feature = "sql")]
mod sql;
mod store_id;
mod tls;
#[cfg(any(feature = "kubernetes", feature = "redis", feature = "sql"))]
mod value;

use std::{
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use async_trait::async_trait;
use raindrop_core::lease::{Row, RowWrite, Token};

#[cfg(any(feature = "redis", feature = "sql"))]
use self::error::LOSES_WRITES;
pub use self::{
    address::{StoreUrl, UrlSource, identity},
    connect::{Failover, StoreSettings, check, connect, is_valid_table_name},
    error::{Result, StoreError, with_sources},
    idempotency::{IdempotencyStore, KEYS_AT_ONCE, KEYS_KEPT, KeyState, KeyText},
    memory::MemoryStore,
    record::{CreatedRows, LayoutRecord, ListedRow, NewRows, Scope, Survey, UnreleasedRow},
    segment::{
        CodeState, ForeignSegment, ForeignTable, ListedSegment, ManagedCode, NewSegment,
        Reservation, Reserved, SegmentStore, Undo, UnusedNumbers,
    },
    store_id::{check_store_id, store_id},
    tls::TlsMode,
};
#[cfg(any(test, feature = "simulation"))]
pub use self::{
    intercept::{Call, Intercept, Reply},
    memory::Snapshot,
};

/// Keeps the rows of worker ids and the layout records of namespaces.
///
/// A row is free when it was released or has expired by the store's clock. When a write fails, its
/// outcome is unknown: it may have taken place, may still arrive, or may never arrive.
///
/// An acknowledged write is durable, and so is every write that the store showed before it. A write
/// that only a read has shown need not be durable: a crash of the store may undo it and everything
/// after it, as long as nothing after it was acknowledged.
#[async_trait]
pub trait Store: SegmentStore + IdempotencyStore {
    /// Returns whether the store's clock is the node's own, as in an embedded database. Comparing
    /// the two then proves nothing.
    fn clock_is_local(&self) -> bool;

    /// Returns whether no other server on the network can pose as the store: it is embedded or on
    /// this machine, or its certificate is verified.
    fn is_verified(&self) -> bool;

    /// Returns how long a call other than [`Self::prepare`] may take: the sum of the time-outs of
    /// its steps. After that the caller may give up.
    fn longest_call(&self) -> Duration {
        Duration::from_secs(10)
    }

    /// Creates or checks the tables and asserts durability settings. Returns warnings for the
    /// operator about settings under which acknowledged writes may be lost. Safe to repeat, and
    /// to run on many nodes at once. Refuses a store that has not the id in
    /// [`StoreSettings::id`], and writes nothing to it.
    async fn prepare(&self) -> Result<Vec<String>>;

    /// Returns which Kubernetes Lease keeps no labels and why, if the API server refused lately to
    /// give one its labels again. Makes no call of the store.
    fn refused_labels(&self) -> Option<String> {
        None
    }

    /// Creates the layout record of a namespace unless there is one. Returns the stored record.
    async fn create_record(&self, namespace: &str, record: &LayoutRecord) -> Result<LayoutRecord>;

    /// Returns the layout record of a namespace, if there is one.
    async fn read_record(&self, namespace: &str) -> Result<Option<LayoutRecord>>;

    /// Replaces the layout record of a namespace if its token is still `expected`, and if the
    /// server has the identity in the new record, unless that is empty. Returns `false` otherwise,
    /// or if there is no record.
    async fn swap_record(
        &self,
        namespace: &str,
        expected: Token,
        record: &LayoutRecord,
    ) -> Result<bool>;

    /// Inserts the missing rows of the scope, free and never written, and leaves the others as they
    /// are. Returns `false` if some are still missing because the premise of `new` no longer holds.
    /// Safe to repeat.
    async fn create_rows(&self, scope: &Scope, new: &NewRows) -> Result<bool>;

    /// Reads the store's clock and the state of the scope's rows, in one statement.
    async fn survey(&self, scope: &Scope) -> Result<Survey>;

    /// Like [`Self::survey`], but the counts of rows may be two minutes old on engines that must
    /// read every row to count them. The clock, the identity and the record are always current.
    async fn summary(&self, scope: &Scope) -> Result<Survey> {
        self.survey(scope).await
    }

    /// Returns at most `limit` rows of a namespace that were written and not released, whatever
    /// their reserved key and worker id, the last written first, in one statement.
    async fn unreleased_rows(&self, namespace: &str, limit: u32) -> Result<Vec<UnreleasedRow>>;

    /// Returns at most `limit` free rows of the scope, longest unused first; with a holder, only
    /// the rows that it wrote last, the most recent one first. Leaves out rows that cannot be
    /// parsed.
    async fn free_rows(&self, scope: &Scope, holder: Option<&str>, limit: u32) -> Result<Vec<Row>>;

    /// Returns one row, free or not.
    async fn read_row(&self, scope: &Scope, worker: u64) -> Result<Option<Row>>;

    /// Replaces a row if its token is still `expected`, if the namespace's record has the epoch in
    /// the write, and if the server has the identity in the record, unless that is empty. All of
    /// this is one statement. Returns `false` otherwise, or if there is no such row. The heartbeat
    /// becomes the store's present time.
    async fn swap_row(
        &self,
        scope: &Scope,
        worker: u64,
        expected: Token,
        write: &RowWrite,
    ) -> Result<bool>;

    /// Lists every row of every namespace for people, by namespace, reserved key and worker.
    async fn list_rows(&self) -> Result<Vec<ListedRow>>;

    /// Closes the connections. The store is not used afterwards.
    async fn close(&self);
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
