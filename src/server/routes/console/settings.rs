//! The settings of a console page, which its service writes into it.

use serde::Serialize;

use crate::{
    core::{
        layout::{FieldKind, Layout},
        namespace::DEFAULT_NAMESPACE,
        preset::{Preset, foreign::ForeignLayout},
    },
    keeper::NamespaceIssuer,
    process::BUILD,
    server::state::AppState,
};

/// The parts of the page, and the path that each needs.
const PARTS: [(&str, &str); 5] = [
    ("try", "/id/{code}"),
    ("inspect", "/parse/{id}"),
    ("plan", "/plan"),
    ("cluster", "/cluster"),
    ("codes", "/codes"),
];

/// The fields of an ID from the most significant, each by its first letter in answers of `/parse`,
/// and their widths in bits: `t41w9l1s12`. Empty for plain numbers.
type Fields = String;

/// The settings of a page. Everyone who reaches the listener may load it, also without a token, so
/// they tell nothing of the store and of other nodes.
#[derive(Debug, Serialize)]
pub(super) struct Settings<'a> {
    version: &'static str,
    /// The parts that this listener serves.
    parts: Vec<&'static str>,
    /// Whether this listener serves `/metrics`.
    metrics: bool,
    needs_token: bool,
    max_batch: u32,
    /// If tokens are required, only `default`, which always exists: the others are not disclosed.
    namespaces: Vec<(&'a str, Fields)>,
    presets: Vec<(&'static str, Fields)>,
    /// Layouts of other systems; if tokens are required, without the configured ones.
    foreign: Vec<(String, Fields)>,
}

impl<'a> Settings<'a> {
    /// Collects the settings of a listener that serves these paths.
    pub(super) fn new(state: &'a AppState, needs_token: bool, paths: &[String]) -> Self {
        let has = |path: &str| paths.iter().any(|served| served == path);
        let counts = |issuer: &NamespaceIssuer| issuer.layout().is_none();
        let has_codes = state.issuers.values().any(counts);
        // Operators use these parts on their own listener.
        let is_elsewhere = |part: &str| {
            let is_public = has("/id/{code}");
            is_public && state.http.admin_listen.is_some() && ["cluster", "codes"].contains(&part)
        };
        let is_served = |(part, path): &(&str, &str)| {
            has(path) && (*part != "codes" || has_codes) && !is_elsewhere(part)
        };
        let namespace = |issuer: &'a NamespaceIssuer| {
            (issuer.namespace(), issuer.layout().map(fields).unwrap_or_default())
        };
        let may_know =
            |issuer: &&NamespaceIssuer| !needs_token || issuer.namespace() == DEFAULT_NAMESPACE;
        let preset = |preset: Preset| (preset.name(), fields(&preset.layout()));
        let foreign = |layout: &ForeignLayout| {
            (layout.name.clone(), written(layout.description.fields.iter().copied()))
        };
        let built_in: Vec<_> = ForeignLayout::built_in().collect();
        let configured = if needs_token { &[][..] } else { &state.layouts };
        Self {
            version: BUILD.version,
            parts: PARTS.into_iter().filter(is_served).map(|(part, _)| part).collect(),
            metrics: has("/metrics"),
            needs_token,
            max_batch: state.http.max_batch,
            namespaces: state.issuers.values().filter(may_know).map(namespace).collect(),
            presets: Preset::ALL.into_iter().map(preset).collect(),
            foreign: built_in.iter().chain(configured).map(foreign).collect(),
        }
    }

    /// Returns the settings as JSON, escaped for an attribute in single quotes.
    pub(super) fn in_attribute(&self) -> String {
        let json = serde_json::to_string(self).expect("texts and numbers are always JSON");
        json.replace('&', "&amp;").replace('\'', "&#39;").replace('<', "&lt;")
    }
}

fn fields(layout: &Layout) -> Fields {
    written(layout.fields())
}

fn written(fields: impl IntoIterator<Item = (FieldKind, u32)>) -> Fields {
    let fields = fields.into_iter().filter(|(_, bits)| *bits > 0);
    fields.map(|(kind, bits)| format!("{}{bits}", letter(kind))).collect()
}

const fn letter(kind: FieldKind) -> char {
    match kind {
        FieldKind::Time => 't',
        FieldKind::DataCenter => 'd',
        FieldKind::Worker => 'w',
        FieldKind::Lane => 'l',
        FieldKind::Sequence => 's',
        FieldKind::Reserved => 'r',
    }
}
