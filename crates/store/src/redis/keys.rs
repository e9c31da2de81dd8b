//! The names of the keys. All keys of a namespace share a hash tag.

use super::RedisStore;
use crate::{
    Scope,
    value::{FromValue, Value},
};

/// The name of a key, and the type that it must have.
#[derive(Clone, Debug)]
pub(super) struct Key {
    pub(super) name: String,
    pub(super) kind: &'static str,
}

impl RedisStore {
    /// The set of scopes that have rows, each as its reserved key, a blank and its namespace.
    pub(super) fn scopes_key(&self) -> Key {
        Key { name: format!("{}:scopes", self.settings.worker_table), kind: "set" }
    }

    /// The hash with the layout record of a namespace.
    pub(super) fn layout_key(&self, namespace: &str) -> Key {
        Key { name: format!("{}:{{{namespace}}}:layout", self.settings.worker_table), kind: "hash" }
    }

    /// Returns the prefix of the names of a scope's rows.
    pub(super) fn row_prefix(&self, scope: &Scope) -> String {
        self.of_scope(scope, "row") + ":"
    }

    /// The hash with a row.
    pub(super) fn row_key(&self, scope: &Scope, worker: u64) -> Key {
        Key { name: self.row_prefix(scope) + &worker_id(worker), kind: "hash" }
    }

    /// The sorted set of a scope's worker ids, all with one score.
    pub(super) fn workers_key(&self, scope: &Scope) -> Key {
        Key { name: self.of_scope(scope, "workers"), kind: "zset" }
    }

    /// The sorted set of a scope's worker ids by the time of their last write.
    pub(super) fn unused_key(&self, scope: &Scope) -> Key {
        Key { name: self.of_scope(scope, "unused"), kind: "zset" }
    }

    /// The sorted set of a scope's worker ids by the time at which they become free.
    pub(super) fn expiry_key(&self, scope: &Scope) -> Key {
        Key { name: self.of_scope(scope, "expiry"), kind: "zset" }
    }

    fn of_scope(&self, scope: &Scope, what: &str) -> String {
        self.of_key(&scope.namespace, what, &scope.reserved_key)
    }

    /// Returns the name of a namespace's key of this kind for a reserved key.
    pub(super) fn of_key(&self, namespace: &str, what: &str, reserved_key: &str) -> String {
        format!("{}:{{{namespace}}}:{what}:{reserved_key}", self.settings.worker_table)
    }

    /// The sorted set of codes, each as its namespace, a blank and its name, all with one score.
    pub(super) fn codes_key(&self) -> Key {
        Key { name: format!("{}:codes", self.settings.segment_table), kind: "zset" }
    }

    /// The hash with the settings of a namespace's managed codes, each after its token and a blank.
    pub(super) fn settings_key(&self, namespace: &str) -> Key {
        let table = &self.settings.segment_table;
        Key { name: format!("{table}:{{{namespace}}}:settings"), kind: "hash" }
    }

    /// The hash of an idempotency key. A code has no blank, and a key none either.
    pub(super) fn idempotency_key(&self, namespace: &str, code: &str, key: &str) -> Key {
        let table = &self.settings.segment_table;
        Key { name: format!("{table}:{{{namespace}}}:key:{code} {key}"), kind: "hash" }
    }

    /// Returns the prefix of the names of a namespace's codes.
    pub(super) fn code_prefix(&self, namespace: &str) -> String {
        format!("{}:{{{namespace}}}:code:", self.settings.segment_table)
    }

    /// The hash with a code.
    pub(super) fn code_key(&self, namespace: &str, code: &str) -> Key {
        Key { name: self.code_prefix(namespace) + code, kind: "hash" }
    }
}

/// Returns a worker id for the scripts: with leading zeros, so that the order of texts is that of
/// numbers.
pub(super) fn worker_id(worker: u64) -> String {
    format!("{worker:020}")
}

/// A worker id in the form of [`worker_id`]. The key of a row has this form, so a member of a set
/// with another one belongs to no row.
pub(super) struct WorkerId(u64);

impl FromValue for WorkerId {
    fn from_value(value: &Value) -> Result<Self, String> {
        let worker = u64::from_value(value)?;
        if *value != worker_id(worker).into() {
            return Err("a worker id has 20 digits here".to_owned());
        }
        Ok(Self(worker))
    }
}

impl From<WorkerId> for u64 {
    fn from(WorkerId(worker): WorkerId) -> Self {
        worker
    }
}
