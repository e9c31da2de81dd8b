//! How Leases hold rows, records and codes. All data is in annotations; `spec` only shows holders
//! and ages to `kubectl get leases`.

use k8s_openapi::{
    api::coordination::v1::{Lease, LeaseSpec},
    apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta},
    jiff::Timestamp,
};
use raindrop_core::lease::{Row, RowWrite, Token};
use serde_json::{Value as Json, json};

use super::names::namespace_label;
use crate::{
    Result, Scope, UnreleasedRow,
    record::{ttl_ms, written},
    value::{Value, shortened, values, worker_rows},
};

/// The beginning of JSON pointers to annotations.
pub(super) const ANNOTATIONS: &str = "/metadata/annotations/";
/// The namespace. The label of the same name has it, escaped and perhaps cut short.
pub(super) const NAMESPACE: &str = "raindrop/namespace";
/// The token of the last write.
pub(super) const TOKEN: &str = "raindrop/token";
pub(super) const EPOCH: &str = "raindrop/epoch";
pub(super) const IDENTITY: &str = "raindrop/identity";
pub(super) const HISTORY: &str = "raindrop/history";
pub(super) const RESERVED_KEY: &str = "raindrop/reserved-key";
/// The label with the table.
pub(super) const TABLE: &str = "raindrop/table";
/// The label by which a record and the rows of each reserved key are selected.
pub(super) const RESERVED: &str = "raindrop/reserved";

const WORKER: &str = "raindrop/worker";
const EXPIRES: &str = "raindrop/expires-ms";
const HEARTBEAT: &str = "raindrop/heartbeat-ms";
/// The annotations of a row, in the order in which the reader takes them.
const ROW: [&str; 8] = [
    WORKER,
    TOKEN,
    EPOCH,
    "raindrop/holder",
    "raindrop/lane",
    "raindrop/marks",
    EXPIRES,
    HEARTBEAT,
];

/// Returns an annotation of a Lease.
pub(super) fn annotation<'a>(lease: &'a Lease, name: &str) -> Option<&'a str> {
    lease.metadata.annotations.as_ref()?.get(name).map(String::as_str)
}

/// Returns annotations as columns; a missing one is null.
pub(super) fn columns<const N: usize>(lease: &Lease, names: [&str; N]) -> Vec<Value> {
    names.map(|name| annotation(lease, name).into()).to_vec()
}

/// Builds a Lease of a table and a namespace. `reserved` is the value of the label [`RESERVED`].
pub(super) fn lease(
    name: String,
    (table, namespace): (&str, &str),
    reserved: Option<&str>,
    annotations: impl IntoIterator<Item = (&'static str, String)>,
) -> Lease {
    let labels = [(TABLE, table.to_owned()), (NAMESPACE, namespace_label(namespace))];
    let reserved = reserved.map(|reserved| (RESERVED, reserved.to_owned()));
    let annotations = annotations.into_iter().chain([(NAMESPACE, namespace.to_owned())]);
    let owned = |(name, value): (&str, String)| (name.to_owned(), value);
    let metadata = ObjectMeta {
        name: Some(name),
        labels: Some(labels.into_iter().chain(reserved).map(owned).collect()),
        annotations: Some(annotations.map(owned).collect()),
        ..ObjectMeta::default()
    };
    Lease { metadata, spec: None }
}

/// Returns whether a Lease has every annotation of another one; it may have more.
pub(super) fn has_annotations_of(lease: &Lease, other: &Lease) -> bool {
    let mut annotations = other.metadata.annotations.iter().flatten();
    annotations.all(|(name, value)| annotation(lease, name) == Some(value))
}

/// Returns the name of a Lease.
pub(super) fn name_of(lease: &Lease) -> &str {
    lease.metadata.name.as_deref().unwrap_or_default()
}

/// Returns whether a Lease has this token.
pub(super) fn is_under(lease: &Lease, token: Token) -> bool {
    annotation(lease, TOKEN) == Some(&token.to_string())
}

/// Returns the UID that the API server gave a Lease.
pub(super) fn uid(lease: &Lease) -> &str {
    lease.metadata.uid.as_deref().unwrap_or_default()
}

/// Returns the part of a JSON patch that requires this value of an annotation; null requires that
/// there is none.
pub(super) fn expect(annotation: &str, value: impl Into<Json>) -> Json {
    json!({ "op": "test", "path": pointer(annotation), "value": value.into() })
}

/// Returns the part of a JSON patch that requires this token.
pub(super) fn expect_token(expected: Token) -> Json {
    expect(TOKEN, expected.to_string())
}

/// Returns the part of a JSON patch that requires this UID.
pub(super) fn expect_uid(uid: &str) -> Json {
    json!({ "op": "test", "path": "/metadata/uid", "value": uid })
}

/// Returns the part of a JSON patch that requires that the Lease was not written since it had this
/// version.
pub(super) fn expect_version(version: Option<&str>) -> Json {
    json!({ "op": "test", "path": "/metadata/resourceVersion", "value": version })
}

/// Returns the parts of a JSON patch that set annotations.
pub(super) fn set<N: AsRef<str>, V: Into<String>>(
    annotations: impl IntoIterator<Item = (N, V)>,
) -> Vec<Json> {
    let add = |(name, value): (N, V)| json!({ "op": "add", "path": pointer(name.as_ref()), "value": value.into() });
    annotations.into_iter().map(add).collect()
}

/// Returns the part of a JSON patch that removes an annotation; it must exist.
pub(super) fn remove(annotation: &str) -> Json {
    json!({ "op": "remove", "path": pointer(annotation) })
}

fn pointer(annotation: &str) -> String {
    format!("{ANNOTATIONS}{}", annotation.replace('/', "~1"))
}

/// Returns the annotations of a worker's row.
pub(super) fn row_annotations(row: &Row) -> impl Iterator<Item = (&'static str, String)> {
    let values = values![
        row.worker,
        row.token,
        row.epoch,
        &row.holder,
        row.lane as u64,
        &row.marks,
        row.expires_ms,
        row.heartbeat_ms,
    ];
    ROW.into_iter().zip(values.map(|value| value.to_string()))
}

/// Returns the JSON patch of a swap, at this time of the server's clock.
pub(super) fn row_patch(
    uid: &str,
    (worker, expected): (u64, Token),
    write: &RowWrite,
    now_ms: i64,
) -> Vec<Json> {
    let holder = shortened(&write.holder).to_owned();
    let row = Row { holder, ..written(worker, write, now_ms) };
    let seconds = |ms: i64| i32::try_from(ms.unsigned_abs().div_ceil(1_000).max(1));
    let spec = LeaseSpec {
        holder_identity: ttl_ms(write).map(|_| row.holder.clone()),
        lease_duration_seconds: ttl_ms(write).map(|ms| seconds(ms).unwrap_or(i32::MAX)),
        renew_time: Timestamp::from_millisecond(now_ms).ok().map(MicroTime),
        ..LeaseSpec::default()
    };
    let mut patch = vec![
        expect_uid(uid),
        expect_token(expected),
        json!({ "op": "add", "path": "/spec", "value": spec }),
    ];
    patch.extend(set(row_annotations(&row)));
    patch
}

/// Reads a worker's row. It is free if it has expired at this time of the server's clock.
pub(super) fn row(table: &str, scope: &Scope, lease: &Lease, now_ms: i64) -> Result<Row> {
    let mut values = columns(lease, ROW);
    // The reader takes the first expiry for whether the row is free, so it is added again in its
    // own place. `free` is computed below.
    values.push(values[6].clone());
    let row = worker_rows(table, scope, vec![values]).next();
    let row = row.expect("one row is read")?;
    Ok(Row { free: row.expires_ms <= now_ms, ..row })
}

/// Returns the worker id of a Lease, if it can be parsed.
pub(super) fn worker(lease: &Lease) -> Option<u64> {
    annotation(lease, WORKER)?.parse().ok()
}

/// Describes the Lease of a row; `None` if the row was released or never written. Values that cannot
/// be read do not release it: without it, a restored store could look as if every row had been
/// released.
pub(super) fn unreleased(reserved_key: &str, worker: u64, lease: &Lease) -> Option<UnreleasedRow> {
    let read_ms = |name| annotation(lease, name)?.parse().ok();
    let is_released = read_ms(EXPIRES).is_some_and(|expires_ms: i64| expires_ms <= 0);
    (!is_released).then(|| UnreleasedRow {
        reserved_key: reserved_key.to_owned(),
        worker: Ok(worker),
        heartbeat_ms: read_ms(HEARTBEAT).unwrap_or(0),
    })
}

/// Returns whether a row's Lease was written after its creation.
pub(super) fn was_written(lease: &Lease) -> bool {
    annotation(lease, HEARTBEAT) != Some("0")
}
