//! Leases as they hold rows, records and codes: everything stands in annotations, and `spec` shows
//! holders and ages to `kubectl get leases`.

use k8s_openapi::{
    api::coordination::v1::{Lease, LeaseSpec},
    apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta},
    jiff::Timestamp,
};
use raindrop_core::lease::{Row, RowWrite, Token};
use serde_json::{Value as Json, json};

use crate::{
    Result, Scope,
    record::ttl_ms,
    value::{Value, shortened, worker_rows},
};

/// An annotation or label of ours.
macro_rules! ours {
    ($name:literal) => {
        concat!("raindrop/", $name)
    };
}
pub(super) use ours;

/// What JSON pointers to annotations begin with.
pub(super) const ANNOTATIONS: &str = "/metadata/annotations/";
/// The namespace; a label of this name has it as far as a label can.
pub(super) const NAMESPACE: &str = ours!("namespace");
/// The token of the last write.
pub(super) const TOKEN: &str = ours!("token");
pub(super) const EPOCH: &str = ours!("epoch");
pub(super) const IDENTITY: &str = ours!("identity");
pub(super) const HISTORY: &str = ours!("history");

/// Returns an annotation of a Lease.
pub(super) fn annotation<'a>(lease: &'a Lease, name: &str) -> Option<&'a str> {
    lease.metadata.annotations.as_ref()?.get(name).map(String::as_str)
}

/// Returns annotations as columns; one that is missing reads as null.
pub(super) fn columns<const N: usize>(lease: &Lease, names: [&str; N]) -> Vec<Value> {
    names.map(|name| annotation(lease, name).map_or(Value::Null, Value::from)).to_vec()
}

/// Returns a Lease with these labels and annotations.
pub(super) fn lease<const N: usize, const M: usize>(
    name: String,
    labels: [(&str, &str); N],
    annotations: [(&str, String); M],
) -> Lease {
    let metadata = ObjectMeta {
        name: Some(name),
        labels: Some(labels.map(|(name, value)| (name.to_owned(), value.to_owned())).into()),
        annotations: Some(annotations.map(|(name, value)| (name.to_owned(), value)).into()),
        ..ObjectMeta::default()
    };
    Lease { metadata, spec: None }
}

/// Whether a Lease has every annotation of another; it may have more.
pub(super) fn has_annotations_of(lease: &Lease, other: &Lease) -> bool {
    let mut annotations = other.metadata.annotations.iter().flatten();
    annotations.all(|(name, value)| annotation(lease, name) == Some(value))
}

/// Returns the name of a Lease.
pub(super) fn name_of(lease: &Lease) -> &str {
    lease.metadata.name.as_deref().unwrap_or_default()
}

/// Whether a Lease has this token.
pub(super) fn is_under(lease: &Lease, token: Token) -> bool {
    annotation(lease, TOKEN) == Some(&token.to_string())
}

/// Returns the UID that the API server gave a Lease.
pub(super) fn uid(lease: &Lease) -> &str {
    lease.metadata.uid.as_deref().unwrap_or_default()
}

/// Returns the part of a JSON patch that refuses every state but one with this annotation; null
/// stands for none.
pub(super) fn expect(annotation: &str, value: impl Into<Json>) -> Json {
    json!({ "op": "test", "path": pointer(annotation), "value": value.into() })
}

/// Returns the part of a JSON patch that refuses every state but one under this token.
pub(super) fn expect_token(expected: Token) -> Json {
    expect(TOKEN, expected.to_string())
}

/// Returns the part of a JSON patch that refuses every Lease but the one with this UID.
pub(super) fn expect_uid(uid: &str) -> Json {
    json!({ "op": "test", "path": "/metadata/uid", "value": uid })
}

/// Returns the part of a JSON patch that refuses a Lease that was written since it had this version.
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

/// Returns the part of a JSON patch that removes an annotation, which must be there.
pub(super) fn remove(annotation: &str) -> Json {
    json!({ "op": "remove", "path": pointer(annotation) })
}

fn pointer(annotation: &str) -> String {
    format!("{ANNOTATIONS}{}", annotation.replace('/', "~1"))
}

/// The annotations of a worker's row.
pub(super) fn row_annotations(scope: &Scope, row: &Row) -> [(&'static str, String); 10] {
    [
        (NAMESPACE, scope.namespace.clone()),
        (ours!("reserved-key"), scope.reserved_key.clone()),
        (ours!("worker"), row.worker.to_string()),
        (TOKEN, row.token.to_string()),
        (EPOCH, row.epoch.to_string()),
        (ours!("holder"), row.holder.clone()),
        (ours!("lane"), row.lane.to_string()),
        (ours!("marks"), row.marks.to_string()),
        (ours!("expires-ms"), row.expires_ms.to_string()),
        (ours!("heartbeat-ms"), row.heartbeat_ms.to_string()),
    ]
}

/// Returns the JSON patch of a swap, at this time of the server's clock.
pub(super) fn row_patch(uid: &str, expected: Token, write: &RowWrite, now_ms: i64) -> Vec<Json> {
    let ttl_ms = ttl_ms(write);
    // A released row is free whatever the clock does.
    let expires_ms = ttl_ms.map_or(0, |ttl_ms| now_ms.saturating_add(ttl_ms));
    let holder = shortened(&write.holder);
    let spec = LeaseSpec {
        holder_identity: ttl_ms.map(|_| holder.to_owned()),
        lease_duration_seconds: ttl_ms
            .map(|ms| i32::try_from(ms.unsigned_abs().div_ceil(1_000).max(1)).unwrap_or(i32::MAX)),
        renew_time: Timestamp::from_millisecond(now_ms).ok().map(MicroTime),
        ..LeaseSpec::default()
    };
    let mut patch = vec![
        expect_uid(uid),
        expect_token(expected),
        json!({ "op": "add", "path": "/spec", "value": spec }),
    ];
    patch.extend(set([
        (TOKEN, write.token.to_string()),
        (EPOCH, write.epoch.to_string()),
        (ours!("holder"), holder.to_owned()),
        (ours!("lane"), write.lane.to_string()),
        (ours!("marks"), write.marks.to_string()),
        (ours!("expires-ms"), expires_ms.to_string()),
        (ours!("heartbeat-ms"), now_ms.to_string()),
    ]));
    patch
}

/// Reads a worker's row. It is free if it has expired at this time of the server's clock.
pub(super) fn row(table: &str, scope: &Scope, lease: &Lease, now_ms: i64) -> Result<Row> {
    let names = [
        ours!("worker"),
        TOKEN,
        EPOCH,
        ours!("holder"),
        ours!("lane"),
        ours!("marks"),
        ours!("expires-ms"),
        ours!("heartbeat-ms"),
        ours!("expires-ms"),
    ];
    let row = worker_rows(table, scope, vec![columns(lease, names)]).next();
    let row = row.expect("one row is read")?;
    Ok(Row { free: row.expires_ms <= now_ms, ..row })
}

/// Returns the worker id that a Lease is for, if it can be read.
pub(super) fn worker(lease: &Lease) -> Option<u64> {
    annotation(lease, ours!("worker"))?.parse().ok()
}

/// Returns whether a row's Lease was written since it was created.
pub(super) fn was_written(lease: &Lease) -> bool {
    annotation(lease, ours!("heartbeat-ms")) != Some("0")
}
