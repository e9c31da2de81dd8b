//! Crashes and broken promises of a store, for tests and simulations.

use std::fmt;

use super::{MemoryStore, Tables, key};
use crate::Scope;

/// The whole content of a store at one instant.
#[derive(Clone)]
pub struct Snapshot(Tables);

impl fmt::Debug for Snapshot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Snapshot").finish_non_exhaustive()
    }
}

impl MemoryStore {
    /// Copies the content of the store.
    pub fn snapshot(&self) -> Snapshot {
        Snapshot(self.tables().clone())
    }

    /// Restores the content of a snapshot.
    pub fn restore(&self, snapshot: Snapshot) {
        *self.tables() = snapshot.0;
    }

    /// Becomes another server, with this identity and the content of a snapshot.
    pub fn fail_over(&self, identity: &str, snapshot: Snapshot) {
        *self.tables() = Tables { identity: identity.to_owned(), ..snapshot.0 };
    }

    /// Forgets a row.
    pub fn lose_row(&self, scope: &Scope, worker: u64) {
        self.tables().rows.remove(&key(scope, worker));
    }

    /// Forgets the layout record of a namespace.
    pub fn lose_record(&self, namespace: &str) {
        self.tables().records.remove(namespace);
    }

    /// Forgets every segment code.
    pub fn lose_segments(&self) {
        self.tables().segments.clear();
    }
}
