//! The names of the keys: all of one namespace share a hash tag.

use crate::store::Scope;

/// A key and what it must hold.
#[derive(Clone, Debug)]
pub(super) struct Key {
    pub(super) name: String,
    pub(super) kind: &'static str,
}

/// The keys under one worker table's name.
#[derive(Debug)]
pub(super) struct Keys {
    table: String,
}

impl Keys {
    pub(super) fn new(table: &str) -> Self {
        Self { table: table.to_owned() }
    }

    /// Every scope that has rows, each as its reserved key, a blank and its namespace.
    pub(super) fn scopes(&self) -> Key {
        Key { name: format!("{}:scopes", self.table), kind: "set" }
    }

    /// The layout record of a namespace.
    pub(super) fn layout(&self, namespace: &str) -> Key {
        Key { name: format!("{}:{{{namespace}}}:layout", self.table), kind: "hash" }
    }

    /// What the names of a scope's rows begin with.
    pub(super) fn rows(&self, scope: &Scope) -> String {
        self.of_scope(scope, "row") + ":"
    }

    /// A row.
    pub(super) fn row(&self, scope: &Scope, worker: u64) -> Key {
        Key { name: self.rows(scope) + &worker_id(worker), kind: "hash" }
    }

    /// The scope's worker ids.
    pub(super) fn workers(&self, scope: &Scope) -> Key {
        Key { name: self.of_scope(scope, "workers"), kind: "zset" }
    }

    /// The scope's worker ids by the time of their last write.
    pub(super) fn unused(&self, scope: &Scope) -> Key {
        Key { name: self.of_scope(scope, "unused"), kind: "zset" }
    }

    /// The scope's worker ids by the time when they become free.
    pub(super) fn expiry(&self, scope: &Scope) -> Key {
        Key { name: self.of_scope(scope, "expiry"), kind: "zset" }
    }

    fn of_scope(&self, scope: &Scope, what: &str) -> String {
        format!("{}:{{{}}}:{what}:{}", self.table, scope.namespace, scope.reserved_key)
    }
}

/// The keys under one segment table's name.
#[derive(Debug)]
pub(super) struct SegmentKeys {
    table: String,
}

impl SegmentKeys {
    pub(super) fn new(table: &str) -> Self {
        Self { table: table.to_owned() }
    }

    /// Every code as its namespace, a blank and its name.
    pub(super) fn names(&self) -> Key {
        Key { name: format!("{}:codes", self.table), kind: "set" }
    }

    /// What the names of a namespace's codes begin with.
    pub(super) fn codes(&self, namespace: &str) -> String {
        format!("{}:{{{namespace}}}:code:", self.table)
    }

    /// A code.
    pub(super) fn code(&self, namespace: &str, code: &str) -> Key {
        Key { name: self.codes(namespace) + code, kind: "hash" }
    }
}

/// A worker id as the scripts know it.
pub(super) fn worker_id(worker: u64) -> String {
    format!("{worker:020}")
}
