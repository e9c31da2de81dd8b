//! Where worker rows are kept: one small trait, the same semantics on every engine.
//!
//! # Adding an engine
//!
//! 1. Implement [`Store`]. For a SQL database that is one file in `sql`: an `Engine` with its
//!    connection, a few expressions, its migrations and what its errors mean.
//! 2. Every method is one statement, or a few that are harmless when repeated or cut short. A
//!    swap is *one* autocommitted statement: never read-then-write in a transaction.
//! 3. Time is the store's own clock, in UTC, read inside the statement.
//! 4. Comparisons are binary: `Order` and `order` are different everywhere.
//! 5. Run the conformance suite in `tests/store` on a real server.

mod connect;
mod error;
#[cfg(any(test, raindrop_planted))]
mod intercept;
mod memory;
#[cfg(any(feature = "redis", feature = "sql"))]
mod pool;
mod record;
#[cfg(feature = "redis")]
mod redis;
mod segment;
#[cfg(feature = "sql")]
mod sql;
#[cfg(any(feature = "redis", feature = "sql"))]
mod value;

use async_trait::async_trait;

pub(crate) use self::error::with_sources;
pub use self::{
    connect::{StoreSettings, check, connect, describe, is_valid_table_name},
    error::StoreError,
    memory::MemoryStore,
    record::{LayoutRecord, ListedRow, NewRows, Scope, Survey},
    segment::{ListedSegment, NewSegment, Reservation, Reserved, SegmentStore},
};
#[cfg(any(test, raindrop_planted))]
pub use self::{
    intercept::{Call, Intercept, Reply},
    memory::Snapshot,
};
use crate::core::lease::{Row, RowWrite, Token};

/// Keeps the rows of worker ids and the layout records of namespaces.
///
/// A row is free when it was released or has expired by the store's clock. After an error of a
/// write its outcome is unknown: it may have taken place, may still arrive, or may never arrive.
///
/// An acknowledged write is durable, and with it every write before it that the store had shown.
/// What a read shows need not be durable: a crash of the store may undo it, and everything after
/// it, as long as nothing after it was acknowledged.
#[async_trait]
pub trait Store: SegmentStore {
    /// Whether the store has no clock but the node's own (an embedded database), so that a
    /// comparison of the two says nothing.
    fn clock_is_local(&self) -> bool;

    /// Creates or checks the tables and asserts durability settings. Returns warnings for the
    /// operator: settings under which acknowledged writes may be lost. Safe to repeat, and to
    /// run on many nodes at once.
    async fn prepare(&self) -> Result<Vec<String>, StoreError>;

    /// Writes the layout record of a namespace unless there is one, and returns the one that is
    /// there afterwards.
    async fn create_record(
        &self,
        namespace: &str,
        record: &LayoutRecord,
    ) -> Result<LayoutRecord, StoreError>;

    /// The layout record of a namespace, if there is one.
    async fn read_record(&self, namespace: &str) -> Result<Option<LayoutRecord>, StoreError>;

    /// Writes the layout record of a namespace if its token is still `expected`; `false` when it
    /// is not, or there is no record.
    async fn swap_record(
        &self,
        namespace: &str,
        expected: Token,
        record: &LayoutRecord,
    ) -> Result<bool, StoreError>;

    /// Inserts the rows of the scope that are missing, free and never written; leaves the others
    /// as they are. `false` when some are still missing, because `new` holds no longer. Safe to
    /// repeat.
    async fn create_rows(&self, scope: &Scope, new: &NewRows) -> Result<bool, StoreError>;

    /// The store's clock and the state of the scope's rows, in one statement.
    async fn survey(&self, scope: &Scope) -> Result<Survey, StoreError>;

    /// At most `limit` free rows of the scope, longest unused first; or, with a holder, those
    /// that it wrote last, the most recent one first. A row that cannot be read is left out.
    async fn free_rows(
        &self,
        scope: &Scope,
        holder: Option<&str>,
        limit: u32,
    ) -> Result<Vec<Row>, StoreError>;

    /// One row, free or not.
    async fn row(&self, scope: &Scope, worker: u64) -> Result<Option<Row>, StoreError>;

    /// Writes the row if its token is still `expected`; `false` when it is not, or the row is
    /// not there. The heartbeat becomes the store's present time.
    async fn swap(
        &self,
        scope: &Scope,
        worker: u64,
        expected: Token,
        write: &RowWrite,
    ) -> Result<bool, StoreError>;

    /// Every row of every namespace, by namespace, reserved key and worker: for people.
    async fn list(&self) -> Result<Vec<ListedRow>, StoreError>;

    /// Closes the connections. The store is not used afterwards.
    async fn close(&self);
}
