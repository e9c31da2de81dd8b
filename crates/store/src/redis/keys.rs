//! The names of the keys: all of one namespace share a hash tag.

use super::RedisStore;
use crate::Scope;

/// A key and what it must hold.
#[derive(Clone, Debug)]
pub(super) struct Key {
    pub(super) name: String,
    pub(super) kind: &'static str,
}

impl RedisStore {
    /// Every scope that has rows, each as its reserved key, a blank and its namespace.
    pub(super) fn scopes_key(&self) -> Key {
        Key { name: format!("{}:scopes", self.settings.worker_table), kind: "set" }
    }

    /// The layout record of a namespace.
    pub(super) fn layout_key(&self, namespace: &str) -> Key {
        Key { name: format!("{}:{{{namespace}}}:layout", self.settings.worker_table), kind: "hash" }
    }

    /// What the names of a scope's rows begin with.
    pub(super) fn row_prefix(&self, scope: &Scope) -> String {
        self.of_scope(scope, "row") + ":"
    }

    /// A row.
    pub(super) fn row_key(&self, scope: &Scope, worker: u64) -> Key {
        Key { name: self.row_prefix(scope) + &worker_id(worker), kind: "hash" }
    }

    /// The scope's worker ids.
    pub(super) fn workers_key(&self, scope: &Scope) -> Key {
        Key { name: self.of_scope(scope, "workers"), kind: "zset" }
    }

    /// The scope's worker ids by the time of their last write.
    pub(super) fn unused_key(&self, scope: &Scope) -> Key {
        Key { name: self.of_scope(scope, "unused"), kind: "zset" }
    }

    /// The scope's worker ids by the time when they become free.
    pub(super) fn expiry_key(&self, scope: &Scope) -> Key {
        Key { name: self.of_scope(scope, "expiry"), kind: "zset" }
    }

    fn of_scope(&self, scope: &Scope, what: &str) -> String {
        self.of_key(&scope.namespace, what, &scope.reserved_key)
    }

    /// What a namespace has of this kind for a reserved key.
    pub(super) fn of_key(&self, namespace: &str, what: &str, reserved_key: &str) -> String {
        format!("{}:{{{namespace}}}:{what}:{reserved_key}", self.settings.worker_table)
    }

    /// Every code as its namespace, a blank and its name, all with one score.
    pub(super) fn codes_key(&self) -> Key {
        Key { name: format!("{}:codes", self.settings.segment_table), kind: "zset" }
    }

    /// The settings of a namespace's managed codes, each behind its token and a blank.
    pub(super) fn settings_key(&self, namespace: &str) -> Key {
        let table = &self.settings.segment_table;
        Key { name: format!("{table}:{{{namespace}}}:settings"), kind: "hash" }
    }

    /// What the names of a namespace's codes begin with.
    pub(super) fn code_prefix(&self, namespace: &str) -> String {
        format!("{}:{{{namespace}}}:code:", self.settings.segment_table)
    }

    /// A code.
    pub(super) fn code_key(&self, namespace: &str, code: &str) -> Key {
        Key { name: self.code_prefix(namespace) + code, kind: "hash" }
    }
}

/// A worker id as the scripts know it.
pub(super) fn worker_id(worker: u64) -> String {
    format!("{worker:020}")
}
