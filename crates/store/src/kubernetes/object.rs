//! How Leases hold rows, records and codes. All data is in annotations; `spec` only shows holders
//! and ages to `kubectl get leases`.
//!
//! Names and labels serve `kubectl` and lists by label. The full names are in annotations, because
//! the name of an object is limited, and a longer one becomes a hash. Tests: below, and in `tests`.

use std::{collections::BTreeMap, fmt::Write as _};

use k8s_openapi::{
    api::coordination::v1::{Lease, LeaseSpec},
    apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta},
    jiff::Timestamp,
};
use raindrop_core::lease::{Row, RowWrite, Token};
use serde_json::{Value as Json, json};
use sha2::{Digest as _, Sha256};

use crate::{
    Result, Scope, StoreError, StoreSettings, UnreleasedRow,
    record::{ttl_ms, written},
    value::{Value, shortened, values, worker_rows},
};

/// The beginning of JSON pointers to annotations.
pub(super) const ANNOTATIONS: &str = "/metadata/annotations/";
/// The JSON pointer to all labels.
pub(super) const LABELS: &str = "/metadata/labels";
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

/// Returns the labels of a Lease of a table and a namespace. `reserved` is the value of the label
/// [`RESERVED`].
pub(super) fn labels(
    (table, namespace): (&str, &str),
    reserved: Option<&str>,
) -> BTreeMap<String, String> {
    let labels = [(TABLE, table.to_owned()), (NAMESPACE, namespace_label(namespace))];
    let reserved = reserved.map(|reserved| (RESERVED, reserved.to_owned()));
    labels.into_iter().chain(reserved).map(|(name, value)| (name.to_owned(), value)).collect()
}

/// Builds a Lease of a table and a namespace. `reserved` is the value of the label [`RESERVED`].
pub(super) fn lease(
    name: String,
    table: (&str, &str),
    reserved: Option<&str>,
    annotations: impl IntoIterator<Item = (&'static str, String)>,
) -> Lease {
    let annotations = annotations.into_iter().chain([(NAMESPACE, table.1.to_owned())]);
    let metadata = ObjectMeta {
        name: Some(name),
        labels: Some(labels(table, reserved)),
        annotations: Some(annotations.map(|(name, value)| (name.to_owned(), value)).collect()),
        ..ObjectMeta::default()
    };
    Lease { metadata, spec: None }
}

/// Returns the parts of a JSON patch that give a Lease these labels; none if it has them. Labels of
/// others stay.
pub(super) fn relabel(lease: &Lease, labels: &BTreeMap<String, String>) -> Vec<Json> {
    let present = lease.metadata.labels.as_ref();
    let is_changed =
        |(name, value): &(&String, &String)| present.and_then(|it| it.get(*name)) != Some(*value);
    let add = |(name, value): (&String, &String)| {
        let path = format!("{LABELS}/{}", name.replace('/', "~1"));
        json!({ "op": "add", "path": path, "value": value })
    };
    let mut parts: Vec<_> = labels.iter().filter(is_changed).map(add).collect();
    if present.is_none() && !parts.is_empty() {
        let empty = [
            json!({ "op": "test", "path": LABELS, "value": null }),
            json!({ "op": "add", "path": LABELS, "value": {} }),
        ];
        parts.splice(..0, empty);
    }
    parts
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

/// Reads the row of a worker from its Lease, which errors name. The row is free if it has expired
/// at `now_ms`, a time of the server's clock.
pub(super) fn row(scope: &Scope, worker: u64, lease: &Lease, now_ms: i64) -> Result<Row> {
    let mut values = columns(lease, ROW);
    // The caller knows the worker id from the record, which no person changes by mistake with the
    // Lease. The next write of the row repairs the annotation.
    values[0] = worker.into();
    // The reader takes the first expiry for whether the row is free, so it is added again in its
    // own place. `free` is computed below.
    values.push(values[6].clone());
    let row = worker_rows(name_of(lease), scope, vec![values]).next();
    let row = row.expect("one row is read")?;
    Ok(Row { free: row.expires_ms <= now_ms, ..row })
}

/// Returns the worker id in the name of a Lease, which nothing changes; from its annotation if the
/// name is a hash.
pub(super) fn worker(lease: &Lease) -> Option<u64> {
    let in_name = name_of(lease).rsplit('.').next().and_then(|worker| worker.parse().ok());
    in_name.or_else(|| annotation(lease, WORKER)?.parse().ok())
}

fn label<'a>(lease: &'a Lease, name: &str) -> Option<&'a str> {
    lease.metadata.labels.as_ref()?.get(name).map(String::as_str)
}

/// Describes the Lease of a row; `None` if the row was released or never written. Values that
/// cannot be read do not release it: without it, a restored store could look as if every row had
/// been released.
pub(super) fn unreleased(reserved_key: &str, worker: u64, lease: &Lease) -> Option<UnreleasedRow> {
    let read_ms = |name| annotation(lease, name)?.parse().ok();
    let is_released = read_ms(EXPIRES).is_some_and(|expires_ms: i64| expires_ms == 0);
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

/// The longest name of an object, in bytes.
const NAME_MAX: usize = 253;
/// The longest value of a label, in bytes.
const LABEL_MAX: usize = 63;

/// The value of the label `raindrop/reserved` of a layout record.
pub(super) const LAYOUT: &str = "layout";

/// The names of the tables, in the characters that Kubernetes allows.
#[derive(Clone, Debug)]
pub(super) struct Tables {
    /// The table of worker rows and layout records.
    pub(super) worker: String,
    /// The table of segment codes.
    pub(super) segment: String,
    /// The table of the settings of managed codes.
    pub(super) settings: String,
}

impl Tables {
    pub(super) fn new(settings: &StoreSettings) -> Result<Self> {
        let segment = table("store.segment_table", &settings.segment_table)?;
        Ok(Self {
            worker: table("store.worker_table", &settings.worker_table)?,
            settings: format!("{segment}-settings"),
            segment,
        })
    }

    /// Returns the name of a namespace's layout record.
    pub(super) fn record(&self, namespace: &str) -> String {
        name(&format!("{}-layout", self.worker), &[namespace])
    }

    /// Returns the namespace whose layout record a Lease is; `None` if it is no record, or a copy
    /// of one under another name. The name decides, which nothing changes, and the labels, by which
    /// lists select. No annotation does.
    pub(super) fn namespace_of_record(&self, lease: &Lease) -> Option<String> {
        let name = name_of(lease);
        let escaped = name.strip_prefix(&self.worker)?.strip_prefix("-layout.")?;
        let namespace = unescape(escaped)?;
        let is_its = name == self.record(&namespace)
            && label(lease, RESERVED) == Some(LAYOUT)
            && label(lease, NAMESPACE) == Some(namespace_label(&namespace).as_str());
        is_its.then_some(namespace)
    }

    /// Returns the name of a worker's row.
    pub(super) fn row(&self, scope: &Scope, worker: u64) -> String {
        let key = key_label(&scope.reserved_key);
        name(&self.worker, &[&scope.namespace, &key, &worker.to_string()])
    }

    /// Returns the name of a segment code.
    pub(super) fn code(&self, namespace: &str, code: &str) -> String {
        name(&self.segment, &[namespace, code])
    }

    /// Returns the name of a managed code's settings.
    pub(super) fn settings(&self, namespace: &str, code: &str) -> String {
        name(&self.settings, &[namespace, code])
    }
}

fn table(key: &str, name: &str) -> Result<String> {
    let is_allowed = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_';
    if !name.bytes().all(is_allowed) || name.starts_with('_') || name.ends_with('_') {
        return Err(StoreError::Unusable(format!(
            "{key} is {name:?}: Kubernetes' names have small letters only, so with kubernetes: it \
             must be small letters, digits and _, with no _ at either end"
        )));
    }
    Ok(name.replace('_', "-"))
}

/// Returns a reserved key such as `1/0` in the form for labels and names.
pub(super) fn key_label(reserved_key: &str) -> String {
    reserved_key.replace('/', "-")
}

/// Returns the label of a namespace.
pub(super) fn namespace_label(namespace: &str) -> String {
    match escape(namespace) {
        label if label.len() <= LABEL_MAX => label,
        label => hash(&label)[..LABEL_MAX - 1].to_owned(),
    }
}

/// Returns the name of the object of a table with these parts.
pub(super) fn name(table: &str, parts: &[&str]) -> String {
    let parts: Vec<_> = parts.iter().map(|part| escape(part)).collect();
    let name = format!("{table}.{}", parts.join("."));
    if name.len() <= NAME_MAX { name } else { format!("{table}.{}", hash(&name)) }
}

/// Escapes a text, so that different texts stay different. Small letters except x, digits, and
/// hyphens that are not at an end stay as they are. Every other byte becomes x and two hexadecimal
/// digits. An empty text becomes x.
fn escape(text: &str) -> String {
    if text.is_empty() {
        return "x".to_owned();
    }
    let mut escaped = String::with_capacity(text.len());
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            b'a'..=b'w' | b'y' | b'z' | b'0'..=b'9' => escaped.push(byte.into()),
            b'-' if at > 0 && at + 1 < text.len() => escaped.push('-'),
            _ => write!(escaped, "x{byte:02x}").expect("a text grows"),
        }
    }
    escaped
}

/// Returns the text that was escaped; `None` if it is a hash, or no escaped text.
fn unescape(escaped: &str) -> Option<String> {
    let mut bytes = escaped.bytes();
    let mut text = Vec::with_capacity(escaped.len());
    while let Some(byte) = bytes.next() {
        text.push(match byte {
            b'x' => {
                let digits = [bytes.next()?, bytes.next()?];
                u8::from_str_radix(std::str::from_utf8(&digits).ok()?, 16).ok()?
            }
            byte => byte,
        });
    }
    String::from_utf8(text).ok()
}

/// Returns a hash that begins with "xx", as no escaped text does.
fn hash(text: &str) -> String {
    Sha256::digest(text).iter().fold("xx".to_owned(), |hash, byte| format!("{hash}{byte:02x}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_distinct_and_allowed() {
        for (text, escaped) in [
            ("default", "default"),
            ("a-b", "a-b"),
            ("-a-", "x2dax2d"),
            ("tax", "tax78"),
            ("a_b.C", "ax5fbx2ex43"),
            ("ö", "xc3xb6"),
            ("x", "x78"),
            ("", "x"),
        ] {
            assert_eq!(escape(text), escaped);
            assert_eq!(unescape(escaped), (!text.is_empty()).then(|| text.to_owned()));
        }
        assert_eq!(unescape(&hash("default")), None);
        let tables = Tables::new(&StoreSettings::new("kubernetes:")).expect("usable tables");
        assert_eq!(tables.record("default"), "soc-raindrop-worker-layout.default");
        assert_eq!(tables.code("default", "Order"), "soc-raindrop-segment.default.x4frder");
        let settings = name(&tables.settings, &["a", "order"]);
        assert_eq!(settings, "soc-raindrop-segment-settings.a.order");
        let scope = Scope {
            namespace: "default".to_owned(),
            reserved_key: "1/0".to_owned(),
            min_worker: 1,
            max_worker: 2,
        };
        assert_eq!(tables.row(&scope, 17), "soc-raindrop-worker.default.1-0.17");
    }

    #[test]
    fn long_names_are_hashed() {
        let tables = Tables::new(&StoreSettings::new("kubernetes:")).expect("usable tables");
        let (first, second) = ("Ä".repeat(48), format!("{}a", "Ä".repeat(47)));
        let [first, second] = [first, second].map(|code| tables.code("default", &code));
        assert_ne!(first, second);
        assert!(first.starts_with("soc-raindrop-segment.xx"), "{first}");
        assert!(first.len() <= NAME_MAX && second.len() <= NAME_MAX);
        assert_eq!(namespace_label(&"_".repeat(32)).len(), LABEL_MAX - 1);
    }

    #[test]
    fn tables_that_kubernetes_cannot_name_are_refused() {
        for name in ["Workers", "_workers", "workers_"] {
            let mut settings = StoreSettings::new("kubernetes:");
            settings.worker_table = name.to_owned();
            let error = Tables::new(&settings).expect_err(name).to_string();
            assert!(error.contains("store.worker_table") && error.contains(name), "{error}");
        }
    }
}
