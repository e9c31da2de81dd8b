//! The Lease of the layout record, which also lists the rows that have a Lease.
//!
//! That list is what makes a Lease a row; see [`row_leases`]. It has an
//! annotation for each such row, with the UID of its Lease; one more annotation holds the templates
//! of all other rows. A patch that adds rows requires the version that was read, so that no row is
//! added twice. A patch that lists a single row requires only that its annotation is absent and the
//! templates are the same, so that nodes which create different rows do not conflict.
//!
//! An object is limited to 256 KiB of annotations, so a namespace can use about 4000 worker ids
//! ([`Record::is_full`]). This module only builds patches; sending them is up to `rows`.

use std::{collections::BTreeMap, fmt::Display};

use k8s_openapi::api::coordination::v1::Lease;
use serde_json::Value as Json;

use super::{
    names::{LAYOUT, Tables, key_label},
    object::{
        EPOCH, HISTORY, IDENTITY, TOKEN, annotation, columns, expect, expect_version, lease,
        name_of, remove, set, uid,
    },
    row_leases::{self, RowLeases, Template},
};
use crate::{
    LayoutRecord, NewRows, Result, StoreError,
    value::{Reader, record_values},
};

/// The annotations of a record, in the order in which the reader takes them.
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
/// A record is full above this many bytes of annotations; an object may have 256 KiB.
const FULL: usize = 240 << 10;
/// The beginning of the annotations that list the rows with a Lease.
const LISTED: &str = "born.raindrop/";

/// The layout record of a namespace, with the rows of its reserved keys.
#[derive(Debug)]
pub(super) struct Record {
    pub(super) layout: LayoutRecord,
    /// The UID of its Lease.
    pub(super) uid: String,
    /// The rows of each reserved key that has, or had, some.
    pub(super) rows: BTreeMap<String, RowLeases>,
    /// The annotation that holds the templates.
    templates: String,
    /// The `resourceVersion`, which changes with every write of the Lease.
    version: Option<String>,
    /// The size of all annotations in bytes.
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
                let worker = name.strip_prefix(&listing(&key, ""))?.parse().ok()?;
                Some((worker, uid.clone()))
            });
            (key.clone(), RowLeases { uids: workers.collect(), templates })
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
    pub(super) fn row_leases(&self, reserved_key: &str) -> &RowLeases {
        self.rows.get(reserved_key).unwrap_or(&row_leases::NONE)
    }

    /// Returns whether there is no room to list further rows.
    pub(super) const fn is_full(&self) -> bool {
        self.size > FULL
    }

    /// Returns the error for a full record.
    pub(super) fn full(&self) -> StoreError {
        StoreError::Unusable(format!(
            "the layout record lists {} worker ids that were used, and has no room for more: with \
             kubernetes: a namespace can use about 4000",
            self.rows.values().map(|row_leases| row_leases.uids.len()).sum::<usize>()
        ))
    }

    /// Returns the JSON patch that adds templates for missing rows, ascending by worker id, and
    /// lists Leases that exist, by worker id with their UID. It is refused if the record was
    /// written since it was read.
    pub(super) fn add_rows(
        mut self,
        reserved_key: &str,
        missing: &[u64],
        unlisted: &[(u64, String)],
        new: &NewRows,
    ) -> Vec<Json> {
        let row_leases = self.rows.entry(reserved_key.to_owned()).or_default();
        let vanished = missing.iter().filter(|worker| row_leases.uid(**worker).is_some());
        let mut patch = vec![expect_version(self.version.as_deref())];
        patch.extend(vanished.map(|worker| remove(&listing(reserved_key, worker))));
        row_leases.add(missing, new);
        let listed = |(worker, uid): &(u64, String)| (listing(reserved_key, worker), uid.clone());
        patch.extend(unlisted.iter().map(listed).flat_map(|listed| set([listed])));
        let templates: BTreeMap<&String, &Vec<Template>> =
            self.rows.iter().map(|(key, row_leases)| (key, &row_leases.templates)).collect();
        let templates = serde_json::to_string(&templates).expect("templates are JSON");
        patch.extend(set([(ROWS, templates)]));
        patch
    }

    /// Returns the JSON patch that lists the Lease of a row. It is refused if the row is listed
    /// already, or the templates have changed.
    pub(super) fn record_lease(&self, reserved_key: &str, worker: u64, uid: &str) -> Vec<Json> {
        let listed = listing(reserved_key, worker);
        let mut patch = vec![expect(ROWS, &*self.templates), expect(&listed, Json::Null)];
        patch.extend(set([(&listed, uid.to_owned())]));
        patch
    }
}

/// Returns the name of the annotation that lists a row.
fn listing(reserved_key: &str, worker: impl Display) -> String {
    format!("{LISTED}{}.{worker}", key_label(reserved_key))
}

/// Returns the Lease of a new record, without rows.
pub(super) fn new_record(tables: &Tables, namespace: &str, record: &LayoutRecord) -> Lease {
    let annotations = record_annotations(record).chain([(ROWS, "{}".to_owned())]);
    lease(tables.record(namespace), (&tables.worker, namespace), Some(LAYOUT), annotations)
}

/// Returns the annotations that replace a record and keep its list of rows.
pub(super) fn record_annotations(
    record: &LayoutRecord,
) -> impl Iterator<Item = (&'static str, String)> {
    RECORD.into_iter().zip(record_values(record).map(|value| value.to_string()))
}
