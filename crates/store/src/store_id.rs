//! The id of a store: a random value by which a process tells its store from every other one.
//!
//! The id lasts, because it is written once and never replaced: it is the token of a layout record
//! of its own, under a name that no namespace can have. A new epoch, another layout, a fail-over or
//! a restored backup leave it as it is. So an id proves that a store is *another* one, and not that
//! it is the only one: a copy has the id of its original. Versions that do not know the record
//! never read it.
//!
//! A process whose settings name an id compares it when it prepares the store, before it creates,
//! leases or reserves anything there; a command does before its work. Tests: tests/store/conformance.rs
//! and tests/faults/another_store.rs.

#[cfg(any(feature = "kubernetes", feature = "redis", feature = "sql"))]
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use raindrop_core::lease::{History, NodeTimes, Token};

use super::{LayoutRecord, Result, Store, StoreError, StoreSettings};

/// The name of the record. Namespaces begin with a lower-case letter.
const NAME: &str = "STORE";
/// The text that a record of a namespace has its layout in.
const TEXT: &str = "the id of this store is the token";

/// Returns the id of a store; one that has none gets this fresh one. Creates missing tables.
pub async fn store_id(store: &dyn Store, fresh: Token) -> Result<Token> {
    store.prepare().await?;
    let history = History::first("", fresh, NodeTimes::default());
    let record = LayoutRecord::new(TEXT, fresh, 0, history);
    Ok(store.create_record(NAME, &record).await?.token)
}

/// Refuses a store that has not the id in the settings, if these have one. Writes nothing. A
/// command calls it before it changes a store that it does not prepare.
///
/// # Errors
///
/// [`StoreError::Unusable`] names both ids; or any error of reading the store.
pub async fn check_store_id(store: &dyn Store, settings: &StoreSettings) -> Result<()> {
    let Some(expected) = settings.id else { return Ok(()) };
    let found = match store.read_record(NAME).await {
        Err(StoreError::Vanished(_)) => None,
        record => record?.map(|record| record.token),
    };
    if found == Some(expected) {
        return Ok(());
    }
    let has = found.map_or_else(|| "has no id".to_owned(), |found| format!("has the id {found}"));
    Err(StoreError::Unusable(format!(
        "store.id = {expected}, but the store at {} {has}: it is another store, or its records \
         were deleted. Nothing was written to it. Nodes on two stores issue the same IDs: correct \
         the address, or stop every node of the other store first, and then set store.id to the id \
         that raindrop config --store-id prints",
        settings.url
    )))
}

/// Compares the id of a store with the one in the settings, until it is found to be the same.
///
/// Later the process trusts its store, because it keeps the hosts. So if an operator deletes the id
/// together with the tables, nodes that run still create the tables again.
#[cfg(any(feature = "kubernetes", feature = "redis", feature = "sql"))]
#[derive(Debug, Default)]
pub(super) struct StoreIdCheck {
    has_passed: AtomicBool,
}

#[cfg(any(feature = "kubernetes", feature = "redis", feature = "sql"))]
impl StoreIdCheck {
    /// Refuses a store that has not the id in the settings, if these have one.
    pub(super) async fn run(&self, store: &dyn Store, settings: &StoreSettings) -> Result<()> {
        if self.has_passed.load(Relaxed) {
            return Ok(());
        }
        check_store_id(store, settings).await?;
        self.has_passed.store(true, Relaxed);
        Ok(())
    }
}
