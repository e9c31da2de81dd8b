//! The `[[code]]` entries.

use std::collections::{HashMap, HashSet};

use super::{
    CodeConfig, Codes, ConfigProblem, EffectiveSetting, Mode, Source,
    layers::CodeEntry,
    namespace::NamespaceRead,
    reader::{Reader, whole_number},
    segment,
};
use crate::core::{
    code::{CODE_PATTERN, is_valid_code},
    id::Id,
    namespace::DEFAULT_NAMESPACE,
    segment::SegmentSpec,
};

/// What an entry may say.
const FIELDS: [&str; 9] = [
    "name",
    "namespace",
    "prefix",
    "start",
    "min_step",
    "max_step",
    "increment",
    "remainder",
    "js_safe",
];
/// Those of them that are of segment mode.
const NUMBERS: [&str; 5] = ["start", "min_step", "max_step", "increment", "remainder"];
const JS_SAFE: &str = "js_safe";
const PREFIX_FORM: &str =
    "1 to 32 of A-Z a-z 0-9 . _ : -, a letter first and one of . _ : - last, such as ORD-";

/// Reads every entry, and adds what they came to.
pub(super) fn read(
    reader: &mut Reader,
    namespaces: &mut [NamespaceRead],
    effective: &mut Vec<EffectiveSetting>,
) -> Codes {
    let mut names = HashSet::new();
    let mut prefixes: HashMap<String, CodeConfig> = HashMap::new();
    let mut codes = Vec::new();
    for (index, entry) in reader.codes().into_iter().enumerate() {
        let mut entry = Entry { reader, index, entry };
        let Some(code) = entry.read(namespaces) else { continue };
        if !names.insert(code.name.clone()) {
            entry.reject("name", &code.name, "given by one entry only");
            continue;
        }
        if let Some(prefix) = code.prefix.as_deref() {
            let first = prefixes.entry(prefix.to_owned()).or_insert_with(|| code.clone());
            // A prefix tells whose an ID is.
            if first.namespace != code.namespace {
                let taken = format!(
                    "another one: {:?} of namespace {:?} has this prefix",
                    first.name, first.namespace
                );
                entry.reject("prefix", prefix, taken);
            }
        }
        effective.extend(entry.effective(&code));
        let namespace = namespaces.iter_mut().find(|read| read.config.name == code.namespace);
        match namespace.map(|read| (&mut read.config.mode, &read.segment)) {
            Some((Mode::Segment { keeper }, Some(defaults))) => {
                let spec = entry.spec(defaults.spec);
                effective.extend(entry.effective_spec(&code.namespace, &spec));
                keeper.codes.insert(code.name.clone(), spec);
            }
            Some(_) => entry.refuse_spec(&code.namespace),
            None => {}
        }
        codes.push(code);
    }
    let entries = codes.iter().map(|code| (code.name.as_str(), code)).collect();
    segment::complete(reader, namespaces, &entries);
    Codes::new(codes)
}

/// One entry while it is read.
struct Entry<'a> {
    reader: &'a mut Reader,
    index: usize,
    entry: CodeEntry,
}

impl Entry<'_> {
    fn read(&mut self, namespaces: &[NamespaceRead]) -> Option<CodeConfig> {
        let unknown: Vec<String> = self
            .entry
            .values
            .keys()
            .filter(|key| !FIELDS.contains(&key.as_str()))
            .cloned()
            .collect();
        for field in unknown {
            let (key, source) = (self.key(&field), self.entry.source.clone());
            let known = FIELDS.map(str::to_owned).to_vec();
            self.reader.push(ConfigProblem::UnknownKey { key, source, known });
        }
        let name = self.get("name").unwrap_or_default();
        if !is_valid_code(&name) {
            self.reject("name", &name, format!("a code that matches {CODE_PATTERN}"));
        }
        let namespace = self.get("namespace").unwrap_or_else(|| DEFAULT_NAMESPACE.into());
        match namespaces.iter().find(|read| read.config.name == namespace) {
            Some(read) => {
                let allow = match &read.config.mode {
                    Mode::Snowflake { keeper, .. } => keeper.issue.codes_allow.as_ref(),
                    Mode::Segment { .. } => read.segment.as_ref().and_then(|of| of.allow.as_ref()),
                };
                if is_valid_code(&name) && allow.is_some_and(|allow| !allow.contains(&name)) {
                    let allowed = format!("among codes.allow of namespace {namespace:?}");
                    self.reject("name", &name, allowed);
                }
            }
            None => {
                let known: Vec<&str> =
                    namespaces.iter().map(|read| read.config.name.as_str()).collect();
                self.reject("namespace", &namespace, known.join(" or "));
            }
        }
        let prefix = self.get("prefix");
        if let Some(prefix) = prefix.as_deref().filter(|prefix| !is_valid_prefix(prefix)) {
            self.reject("prefix", prefix, PREFIX_FORM);
        }
        let prefix = prefix.map(Into::into);
        is_valid_code(&name).then_some(CodeConfig { name, namespace, prefix })
    }

    /// What the code of a segment namespace is.
    fn spec(&mut self, defaults: SegmentSpec) -> SegmentSpec {
        let js_safe = self.get(JS_SAFE);
        let spec = SegmentSpec {
            start: self.number("start", defaults.start),
            min_step: self.number("min_step", defaults.min_step),
            max_step: self.number("max_step", defaults.max_step),
            increment: self.number("increment", defaults.increment),
            remainder: self.number("remainder", defaults.remainder),
            max: if js_safe.as_deref() == Some("true") {
                Id::MAX_JS_SAFE.get()
            } else {
                defaults.max
            },
        };
        if let Some(other) = js_safe.filter(|text| !["true", "false"].contains(&text.as_str())) {
            self.reject(JS_SAFE, &other, "true or false");
        }
        for violation in spec.check().err().into_iter().flat_map(|violations| violations.0) {
            self.reject(&violation.key, &violation.value, violation.allowed);
        }
        spec
    }

    fn number(&mut self, field: &str, default: u64) -> u64 {
        let Some(text) = self.get(field) else { return default };
        whole_number(&text).unwrap_or_else(|| {
            self.reject(field, &text, "a whole number");
            default
        })
    }

    /// Notes what is of segment mode, for a code of another mode.
    fn refuse_spec(&mut self, namespace: &str) {
        for field in NUMBERS.into_iter().chain([JS_SAFE]) {
            if let Some(value) = self.get(field) {
                let because = "which is not in segment mode";
                let allowed = format!("left out for a code of namespace {namespace:?}, {because}");
                self.reject(field, &value, allowed);
            }
        }
    }

    fn get(&self, field: &str) -> Option<String> {
        self.entry.values.get(field).cloned()
    }

    /// How the field is named to people: by its code's name where it has one.
    fn key(&self, field: &str) -> String {
        match self.get("name").filter(|name| is_valid_code(name)) {
            Some(name) if field != "name" => format!("[[code]] {name}: {field}"),
            _ => format!("[[code]] {}: {field}", self.index + 1),
        }
    }

    fn reject(&mut self, field: &str, value: &str, allowed: impl Into<String>) {
        let value = if value.is_empty() { "nothing".into() } else { value.to_owned() };
        let (key, source) = (self.key(field), self.entry.source.clone());
        let allowed = allowed.into();
        self.reader.push(ConfigProblem::Value { key, value, source, allowed });
    }

    fn effective(&self, code: &CodeConfig) -> [EffectiveSetting; 2] {
        let prefix = code.prefix.as_deref().unwrap_or_default();
        [self.setting("namespace", code.namespace.clone()), self.setting("prefix", prefix)]
    }

    fn effective_spec(&mut self, namespace: &str, spec: &SegmentSpec) -> [EffectiveSetting; 6] {
        let SegmentSpec { start, min_step, max_step, increment, remainder, max } = *spec;
        let values = [start, min_step, max_step, increment, remainder];
        let is_js_safe = max == Id::MAX_JS_SAFE.get();
        let [start, mut min_step, mut max_step, increment, remainder] =
            std::array::from_fn(|index| self.setting(NUMBERS[index], values[index].to_string()));
        // Steps are as the namespace says, unless the entry does.
        self.reader.enter(Some(namespace));
        for (field, setting) in [("min_step", &mut min_step), ("max_step", &mut max_step)] {
            if setting.source == Source::Default {
                setting.source = self.reader.shown(&format!("segment.{field}")).1;
            }
        }
        self.reader.enter(None);
        let js_safe = self.setting(JS_SAFE, is_js_safe.to_string());
        [start, min_step, max_step, increment, remainder, js_safe]
    }

    fn setting(&self, field: &str, value: impl Into<String>) -> EffectiveSetting {
        let source = match self.entry.values.contains_key(field) {
            true => self.entry.source.clone(),
            false => Source::Default,
        };
        EffectiveSetting { key: self.key(field), value: value.into(), source }
    }
}

/// A letter first, so that it is no decimal number; a separator last, so that no digit of an ID
/// can be taken for its end.
fn is_valid_prefix(text: &str) -> bool {
    let is_separator = |byte: u8| b"._:-".contains(&byte);
    text.len() <= 32
        && text.starts_with(|first: char| first.is_ascii_alphabetic())
        && text.bytes().last().is_some_and(is_separator)
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || is_separator(byte))
}
