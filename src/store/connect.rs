//! Stand-in until the engines are merged: only `memory:`.

use std::{sync::Arc, time::Duration};

use super::{MemoryStore, Store, StoreError};
use crate::core::clock::Clock;

/// Where the rows are kept.
#[derive(Clone, Debug)]
pub struct StoreSettings {
    /// The store's address.
    pub url: String,
    /// The table of worker rows.
    pub worker_table: String,
    /// The most connections at a time.
    pub max_connections: u32,
    /// Time-out of connecting and of each statement.
    pub timeout: Duration,
}

/// Opens the store of this address.
pub async fn connect(
    settings: &StoreSettings,
    clock: Arc<dyn Clock>,
) -> Result<Arc<dyn Store>, StoreError> {
    match settings.url.as_str() {
        "memory:" => Ok(Arc::new(MemoryStore::new(clock))),
        other => Err(StoreError::Unusable(format!("store {} is not built in", describe(other)))),
    }
}

/// Whether a table may have this name.
pub fn is_valid_table_name(name: &str) -> bool {
    let mut bytes = name.bytes();
    bytes.next().is_some_and(|first| first.is_ascii_alphabetic() || first == b'_')
        && bytes.all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
        && name.len() <= 48
}

/// The address without secrets, for people.
pub fn describe(url: &str) -> String {
    url.split('@').next_back().unwrap_or_default().to_owned()
}
