//! The Lease of the layout record, which also lists the rows that have a Lease.
//!
//! A row's Lease is created when a node first writes the row. Until then, the row consists of its
//! template. The record has an annotation for each row that has a Lease, with the identity (UID)
//! that the API server gave the Lease; one more annotation holds the templates of all other rows. A
//! Lease that the record does not list is no row, whatever its name. So a Lease that was deleted or
//! restored from a backup is a missing row, never a fresh one. The record itself must be the
//! newest: one that was restored from a backup does not list later rows. The callers check that.
//!
//! A patch that adds rows requires the version that the node read, so that no two nodes add the
//! same row. A patch that lists a single row requires only that the row's annotation is absent and
//! the templates are the same, so that nodes which create different rows do not conflict.
//!
//! An object is limited to 256 KiB of annotations, so a namespace can use about 4000 worker ids
//! ([`Record::is_full`]). This module only builds patches; sending them is up to `rows`. Tests:
//! below, and in `tests`.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Display,
    ops::RangeInclusive,
};

use k8s_openapi::api::coordination::v1::Lease;
use raindrop_core::lease::{HighWaterMarks, Row, Token};
use serde::{Deserialize, Serialize};
use serde_json::Value as Json;

use super::object::{
    EPOCH, HISTORY, IDENTITY, LAYOUT, TOKEN, Tables, annotation, columns, expect, expect_version,
    key_label, lease, name_of, remove, set, uid,
};
use crate::{
    LayoutRecord, NewRows, Result, StoreError,
    record::unwritten,
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
    /// The UID of the record's Lease.
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
        self.rows.get(reserved_key).unwrap_or(&NONE)
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
    /// lists Leases that exist, by worker id with their UID. The API server refuses the patch if
    /// the record was written since it was read.
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

    /// Returns the JSON patch that lists the Lease of a row. The API server refuses the patch if
    /// the row is listed already, or the templates have changed.
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

/// The rows of one namespace and reserved key.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct RowLeases {
    /// The UID of the Lease of each row that has one, by worker id.
    pub(super) uids: BTreeMap<u64, String>,
    /// The templates of the other rows. If two cover a worker, the later one applies.
    pub(super) templates: Vec<Template>,
}

/// The value for a reserved key without rows.
pub(super) static NONE: RowLeases = RowLeases { uids: BTreeMap::new(), templates: Vec::new() };

/// The content with which the rows of a range of worker ids are created.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Template {
    first: u64,
    last: u64,
    #[serde(with = "text")]
    seed: Token,
    #[serde(with = "text")]
    marks: HighWaterMarks,
}

/// Tokens and marks as text.
mod text {
    use std::{fmt::Display, str::FromStr};

    use serde::{Deserialize as _, Deserializer, Serializer, de::Error as _};

    pub(super) fn serialize<T: Display, S: Serializer>(
        value: &T,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        serializer.collect_str(value)
    }

    pub(super) fn deserialize<'de, T, D>(deserializer: D) -> Result<T, D::Error>
    where
        T: FromStr<Err: Display>,
        D: Deserializer<'de>,
    {
        String::deserialize(deserializer)?.parse().map_err(D::Error::custom)
    }
}

impl RowLeases {
    /// Returns the UID of the Lease of a row, if it has one.
    pub(super) fn uid(&self, worker: u64) -> Option<&str> {
        self.uids.get(&worker).map(String::as_str)
    }

    /// Returns a row that has no Lease yet, as its template describes it.
    pub(super) fn not_created(&self, worker: u64) -> Option<Row> {
        if self.uids.contains_key(&worker) {
            return None;
        }
        let covers = |template: &&Template| (template.first..=template.last).contains(&worker);
        let Template { seed, marks, .. } = self.templates.iter().rfind(covers)?;
        Some(unwritten(worker, seed.plus(worker), marks.clone()))
    }

    /// Returns the rows of a range that have no Lease yet, by worker id.
    pub(super) fn all_not_created(
        &self,
        workers: RangeInclusive<u64>,
    ) -> impl Iterator<Item = Row> {
        self.covered(&workers).into_iter().filter_map(|worker| self.not_created(worker))
    }

    /// Counts the rows of a range that have no Lease yet.
    pub(super) fn count_not_created(&self, workers: RangeInclusive<u64>) -> u64 {
        let covered = self.covered(&workers);
        covered.iter().filter(|worker| !self.uids.contains_key(worker)).count() as u64
    }

    /// Returns the worker ids of a range that templates cover; a layout has at most 65 536.
    fn covered(&self, workers: &RangeInclusive<u64>) -> BTreeSet<u64> {
        let inside = self.templates.iter().flat_map(|template| {
            template.first.max(*workers.start())..=template.last.min(*workers.end())
        });
        inside.collect()
    }

    /// Adds templates for rows that are missing, ascending by worker id. A Lease that such a row
    /// had before no longer counts.
    pub(super) fn add(&mut self, missing: &[u64], new: &NewRows) {
        for run in missing.chunk_by(|before, worker| before + 1 == *worker) {
            let (first, last) = (run[0], run[run.len() - 1]);
            self.uids.retain(|worker, _| !(first..=last).contains(worker));
            // Drop templates that no worker uses any more.
            self.templates.retain(|old| !(first <= old.first && old.last <= last));
            let (seed, marks) = (new.seed, new.marks.clone());
            self.templates.push(Template { first, last, seed, marks });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn new(seed: u128, mark: u64) -> NewRows {
        let (seed, record) = (Token::from_bits(seed), Token::from_bits(1));
        NewRows { marks: HighWaterMarks::all_at(mark, 2), seed, record, until_ms: 0 }
    }

    fn range(first: u64, last: u64) -> Vec<u64> {
        (first..=last).collect()
    }

    #[test]
    fn row_is_its_template_until_its_lease_is_created() {
        let mut row_leases = RowLeases::default();
        row_leases.add(&range(0, 99), &new(1_000, 7));
        let row = row_leases.not_created(5).expect("a row");
        assert_eq!((row.token, row.marks), (Token::from_bits(1_005), HighWaterMarks::all_at(7, 2)));
        row_leases.uids.insert(5, "u5".to_owned());
        assert_eq!((row_leases.not_created(5), row_leases.uid(5)), (None, Some("u5")));
        assert_eq!((row_leases.not_created(100), row_leases.uid(6)), (None, None));
        assert_eq!(row_leases.count_not_created(0..=u64::MAX), 99);
        assert_eq!(row_leases.count_not_created(5..=6), 1);
    }

    #[test]
    fn row_that_vanished_gets_the_marks_it_is_added_with() {
        let mut row_leases = RowLeases::default();
        row_leases.add(&range(0, 99), &new(1_000, 7));
        for worker in [5, 6, 40] {
            row_leases.uids.insert(worker, format!("u{worker}"));
        }
        row_leases.add(&[5, 6, 100, 101], &new(5_000, 9));
        assert_eq!((row_leases.uid(5), row_leases.uid(40)), (None, Some("u40")));
        assert_eq!(row_leases.not_created(6).expect("a row").token, Token::from_bits(5_006));
        assert_eq!(row_leases.not_created(7).expect("a row").token, Token::from_bits(1_007));
        assert_eq!(row_leases.count_not_created(0..=u64::MAX), 101);
        let workers: Vec<_> = row_leases.all_not_created(4..=200).map(|row| row.worker).collect();
        assert_eq!(workers, [range(4, 39), range(41, 101)].concat());
        // A template that no worker uses is dropped.
        row_leases.add(&range(0, 200), &new(9_000, 10));
        assert_eq!(row_leases.templates.len(), 1);
    }

    #[test]
    fn templates_are_kept_as_text() {
        let mut row_leases = RowLeases::default();
        row_leases.add(&range(0, 9), &new(0xab, 7));
        let text = serde_json::to_string(&row_leases.templates).expect("a text");
        assert_eq!(
            text,
            r#"[{"first":0,"last":9,"seed":"000000000000000000000000000000ab","marks":"7,7"}]"#
        );
        let read = |text: &str| serde_json::from_str::<Vec<Template>>(text);
        assert_eq!(read(&text).expect("templates"), row_leases.templates);
        for broken in [text.replace("7,7", "7,"), text.replace("first", "frist")] {
            read(&broken).expect_err(&broken);
        }
    }
}
