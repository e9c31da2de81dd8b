//! The layout record's Lease, which also lists the rows that were born.

use std::collections::BTreeMap;

use k8s_openapi::api::coordination::v1::Lease;
use serde_json::{Value as Json, json};

use super::{
    births::Births,
    names::{LAYOUT, Tables, namespace_label},
    object::{TOKEN, columns, expect_token, lease, ours, set},
};
use crate::{
    core::lease::Token,
    store::{LayoutRecord, Result, StoreError, value::Reader},
};

const ROWS: &str = ours!("rows");

/// The layout record of a namespace, with the rows of its reserved keys.
#[derive(Debug)]
pub(super) struct Record {
    pub(super) layout: LayoutRecord,
    rows: BTreeMap<String, Births>,
    /// Changes with every write of the Lease.
    version: String,
}

impl Record {
    /// Reads a record from its Lease.
    pub(super) fn read(namespace: &str, lease: &Lease) -> Result<Self> {
        let names = [
            TOKEN,
            ours!("words"),
            ours!("complete"),
            ours!("since-tick"),
            ours!("first-tick"),
            ROWS,
        ];
        let name = lease.metadata.name.as_deref().unwrap_or_default();
        let mut reader = Reader::new(name, namespace, columns(lease, names));
        let layout = reader.layout_record()?;
        let rows: String = reader.get("rows")?;
        let rows = serde_json::from_str(&rows).map_err(|error| StoreError::Corrupt {
            table: name.to_owned(),
            row: namespace.to_owned(),
            column: "rows",
            value: rows,
            reason: error.to_string(),
        })?;
        let version = lease.metadata.resource_version.clone().unwrap_or_default();
        Ok(Self { layout, rows, version })
    }

    /// Returns the rows of a reserved key; `None` when it never had any.
    pub(super) fn births(&self, reserved_key: &str) -> Option<&Births> {
        self.rows.get(reserved_key)
    }

    /// Returns the reserved keys that have or had rows.
    pub(super) fn reserved_keys(&self) -> impl Iterator<Item = &str> {
        self.rows.keys().map(String::as_str)
    }

    /// Changes the rows of a reserved key. Returns the merge patch that writes the change, if no
    /// other write of the record is first.
    pub(super) fn change(mut self, reserved_key: &str, change: impl FnOnce(&mut Births)) -> Json {
        change(self.rows.entry(reserved_key.to_owned()).or_default());
        let rows = serde_json::to_string(&self.rows).expect("births are JSON");
        json!({ "metadata": { "resourceVersion": self.version, "annotations": { ROWS: rows } } })
    }
}

/// Returns the Lease of a new record, without rows.
pub(super) fn new_record(tables: &Tables, namespace: &str, record: &LayoutRecord) -> Lease {
    let [token, words, complete, since, first] = annotations(record);
    lease(
        tables.record(namespace),
        [
            (ours!("table"), &tables.worker),
            (ours!("namespace"), &namespace_label(namespace)),
            (ours!("reserved"), LAYOUT),
        ],
        [
            (ours!("namespace"), namespace.to_owned()),
            (ROWS, "{}".to_owned()),
            token,
            words,
            complete,
            since,
            first,
        ],
    )
}

/// Returns the JSON patch that replaces a record and leaves its rows alone.
pub(super) fn record_patch(expected: Token, record: &LayoutRecord) -> Vec<Json> {
    let mut patch = vec![expect_token(expected)];
    patch.extend(set(annotations(record)));
    patch
}

fn annotations(record: &LayoutRecord) -> [(&'static str, String); 5] {
    let LayoutRecord { token, canonical, complete, since_tick, first_tick } = record;
    [
        (TOKEN, token.to_string()),
        (ours!("words"), canonical.clone()),
        (ours!("complete"), complete.join(",")),
        (ours!("since-tick"), since_tick.to_string()),
        (ours!("first-tick"), first_tick.to_string()),
    ]
}
