//! What a page is told of the service that serves it.

use serde::Serialize;

use crate::{
    core::{
        layout::Layout,
        preset::{
            Preset,
            foreign::{FieldKind, ForeignLayout},
        },
    },
    server::{issuer::NamespaceIssuer, state::AppState},
};

/// The parts of the page, and the paths that each needs.
const PARTS: [(&str, &str); 5] = [
    ("try", "/id/{code}"),
    ("inspect", "/parse/{id}"),
    ("plan", "/plan"),
    ("cluster", "/cluster"),
    ("codes", "/codes"),
];

/// The fields of an ID from the most significant, by their names in answers of `/parse`, and their
/// widths in bits.
type Fields = Vec<(&'static str, u32)>;

/// What whoever may load the page may know: nothing of the store, and nothing of other nodes.
#[derive(Debug, Serialize)]
pub(super) struct Settings<'a> {
    version: &'static str,
    /// The parts that this listener serves.
    parts: Vec<&'static str>,
    /// Whether this listener serves `/metrics`.
    metrics: bool,
    needs_token: bool,
    max_batch: u32,
    namespaces: Vec<Namespace<'a>>,
    /// Layouts by name, presets first.
    layouts: Vec<Named>,
}

#[derive(Debug, Serialize)]
struct Namespace<'a> {
    name: &'a str,
    /// Empty for plain numbers.
    fields: Fields,
}

#[derive(Debug, Serialize)]
struct Named {
    name: &'static str,
    is_preset: bool,
    fields: Fields,
}

impl<'a> Settings<'a> {
    /// The settings of a listener that serves these paths.
    pub(super) fn new(state: &'a AppState, needs_token: bool, paths: &[&str]) -> Self {
        let counts = |issuer: &NamespaceIssuer| issuer.layout().is_none();
        let has_codes = state.issuers.values().any(counts);
        let is_served =
            |(part, path): &(&str, &str)| paths.contains(path) && (*part != "codes" || has_codes);
        let namespace = |issuer: &'a NamespaceIssuer| Namespace {
            name: issuer.namespace(),
            fields: issuer.layout().map(fields).unwrap_or_default(),
        };
        let preset = |preset: Preset| Named {
            name: preset.name(),
            is_preset: true,
            fields: fields(&preset.layout()),
        };
        let foreign = |layout: &ForeignLayout| Named {
            name: layout.name,
            is_preset: false,
            fields: layout.fields.iter().map(|(kind, _, bits)| (name_of(*kind), *bits)).collect(),
        };
        let presets = Preset::ALL.into_iter().map(preset);
        let layouts = presets.chain(ForeignLayout::ALL.iter().map(foreign));
        Self {
            version: env!("CARGO_PKG_VERSION"),
            parts: PARTS.into_iter().filter(is_served).map(|(part, _)| part).collect(),
            metrics: paths.contains(&"/metrics"),
            needs_token,
            max_batch: state.http.max_batch,
            namespaces: state.issuers.values().map(namespace).collect(),
            layouts: layouts.collect(),
        }
    }

    /// JSON, as it stands in an attribute in single quotes.
    pub(super) fn in_attribute(&self) -> String {
        let json = serde_json::to_string(self).expect("texts and numbers are always JSON");
        json.replace('&', "&amp;").replace('\'', "&#39;").replace('<', "&lt;")
    }
}

fn fields(layout: &Layout) -> Fields {
    let widths = layout.widths();
    let all = [
        ("timestamp", widths.timestamp),
        ("data_center", widths.data_center),
        ("worker_id", widths.worker),
        ("lane", widths.rollback),
        ("sequence", widths.sequence),
        ("reserved", widths.reserved),
    ];
    all.into_iter().filter(|(_, bits)| *bits > 0).collect()
}

const fn name_of(kind: FieldKind) -> &'static str {
    match kind {
        FieldKind::Tick => "timestamp",
        FieldKind::DataCenter => "data_center",
        FieldKind::Worker => "worker_id",
        FieldKind::Sequence => "sequence",
    }
}
