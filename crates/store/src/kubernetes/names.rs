//! Names and labels of the Leases.
//!
//! They serve `kubectl` and lists by label. The full names are in annotations, because the name of
//! an object is limited, and a longer one becomes a hash.

use std::fmt::Write as _;

use sha2::{Digest as _, Sha256};

use crate::{Result, Scope, StoreError, StoreSettings};

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
/// hyphens that are not at an end are kept. Every other byte becomes x and two hexadecimal digits.
/// An empty text becomes x.
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
        }
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
