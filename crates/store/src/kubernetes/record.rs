//! The layout record's Lease, which also lists the rows that were born.

use std::{collections::BTreeMap, fmt::Display};

use k8s_openapi::api::coordination::v1::Lease;
use serde_json::Value as Json;

use super::{
    births::{self, Births, Template},
    names::{LAYOUT, Tables, key_label},
    object::{
        EPOCH, HISTORY, IDENTITY, TOKEN, annotation, columns, expect, expect_version, lease,
        name_of, remove, set, uid,
    },
};
use crate::{
    LayoutRecord, NewRows, Result, StoreError,
    value::{Reader, record_values},
};

/// The annotations of a record, in the order in which it is read.
const RECORD: [&str; 8] = [
    TOKEN,
    "raindrop/words",
    "raindrop/complete",
    "raindrop/since-tick",
    "raindrop/first-tick",
    IDENTITY,
    EPOCH,
    HISTORY,
];
/// The templates of each reserved key, as JSON.
const ROWS: &str = "raindrop/rows";
/// So many bytes of annotations are full: an object may have 256 KiB.
const FULL: usize = 240 << 10;
/// What the annotations begin with that list the rows which were born.
const BORN: &str = "born.raindrop/";

/// The layout record of a namespace, with the rows of its reserved keys.
#[derive(Debug)]
pub(super) struct Record {
    pub(super) layout: LayoutRecord,
    /// The UID of its Lease.
    pub(super) uid: String,
    /// The rows of each reserved key that has or had some.
    pub(super) rows: BTreeMap<String, Births>,
    /// The annotation that holds the templates.
    templates: String,
    /// Changes with every write of the Lease.
    version: Option<String>,
    /// The bytes of all annotations.
    size: usize,
}

impl Record {
    /// Reads a record from its Lease.
    pub(super) fn read(namespace: &str, lease: &Lease) -> Result<Self> {
        let name = name_of(lease);
        let mut reader = Reader::new(name, namespace, columns(lease, RECORD));
        let layout = reader.layout_record()?;
        let templates = annotation(lease, ROWS).unwrap_or_default();
        let read: BTreeMap<String, Vec<Template>> =
            serde_json::from_str(templates).map_err(|error| StoreError::Corrupt {
                table: name.to_owned(),
                row: namespace.to_owned(),
                column: "rows",
                value: templates.to_owned(),
                reason: error.to_string(),
            })?;
        let annotations = lease.metadata.annotations.iter().flatten();
        let sizes = annotations.clone().map(|(name, value)| name.len() + value.len());
        let rows = read.into_iter().map(|(key, templates)| {
            let workers = annotations.clone().filter_map(|(name, uid)| {
                let worker = name.strip_prefix(&born(&key, ""))?.parse().ok()?;
                Some((worker, uid.clone()))
            });
            (key.clone(), Births { born: workers.collect(), templates })
        });
        Ok(Self {
            rows: rows.collect(),
            layout,
            uid: uid(lease).to_owned(),
            templates: templates.to_owned(),
            version: lease.metadata.resource_version.clone(),
            size: sizes.sum(),
        })
    }

    /// Returns the rows of a reserved key.
    pub(super) fn births(&self, reserved_key: &str) -> &Births {
        self.rows.get(reserved_key).unwrap_or(&births::NONE)
    }

    /// Whether it has no room for rows that are born.
    pub(super) const fn is_full(&self) -> bool {
        self.size > FULL
    }

    /// Explains that it is full.
    pub(super) fn full(&self) -> StoreError {
        StoreError::Unusable(format!(
            "the layout record lists {} worker ids that were used, and has no room for more: with \
             kubernetes: a namespace can use about 4000",
            self.rows.values().map(|births| births.born.len()).sum::<usize>()
        ))
    }

    /// Returns the JSON patch that adds rows which are missing, ascending by worker id, and lists those
    /// that have a Lease, by worker id with its UID, if no other write of the record is first.
    pub(super) fn add_rows(
        mut self,
        reserved_key: &str,
        missing: &[u64],
        unlisted: &[(u64, String)],
        new: &NewRows,
    ) -> Vec<Json> {
        let births = self.rows.entry(reserved_key.to_owned()).or_default();
        let vanished = missing.iter().filter(|worker| births.uid(**worker).is_some());
        let mut patch = vec![expect_version(self.version.as_deref())];
        patch.extend(vanished.map(|worker| remove(&born(reserved_key, worker))));
        births.add(missing, new);
        let listed = |(worker, uid): &(u64, String)| (born(reserved_key, worker), uid.clone());
        patch.extend(unlisted.iter().map(listed).flat_map(|listed| set([listed])));
        let templates: BTreeMap<&String, &Vec<Template>> =
            self.rows.iter().map(|(key, births)| (key, &births.templates)).collect();
        let templates = serde_json::to_string(&templates).expect("templates are JSON");
        patch.extend(set([(ROWS, templates)]));
        patch
    }

    /// Returns the JSON patch that lists the Lease of a row, if the row is still unborn and its
    /// template the same.
    pub(super) fn bear(&self, reserved_key: &str, worker: u64, uid: &str) -> Vec<Json> {
        let listed = born(reserved_key, worker);
        let mut patch = vec![expect(ROWS, &*self.templates), expect(&listed, Json::Null)];
        patch.extend(set([(&listed, uid.to_owned())]));
        patch
    }
}

/// The annotation that lists a row.
fn born(reserved_key: &str, worker: impl Display) -> String {
    format!("{BORN}{}.{worker}", key_label(reserved_key))
}

/// Returns the Lease of a new record, without rows.
pub(super) fn new_record(tables: &Tables, namespace: &str, record: &LayoutRecord) -> Lease {
    let annotations = record_annotations(record).chain([(ROWS, "{}".to_owned())]);
    lease(tables.record(namespace), (&tables.worker, namespace), Some(LAYOUT), annotations)
}

/// Returns the annotations that replace a record and leave its rows alone.
pub(super) fn record_annotations(
    record: &LayoutRecord,
) -> impl Iterator<Item = (&'static str, String)> {
    RECORD.into_iter().zip(record_values(record).map(|value| value.to_string()))
}
