//! The `[[code]]` entries.

use std::collections::{HashMap, HashSet};

use super::{
    ConfigProblem, EffectiveSetting, Mode, NamespaceConfig, Source, layers::CodeEntry,
    reader::Reader,
};
use crate::{
    core::code::{CODE_PATTERN, is_valid_code},
    server::{
        DEFAULT_NAMESPACE,
        codes::{CodeConfig, Codes},
    },
};

/// What an entry may say.
const FIELDS: [&str; 3] = ["name", "namespace", "prefix"];
const PREFIX_FORM: &str =
    "1 to 32 of A-Z a-z 0-9 . _ : -, a letter first and one of . _ : - last, such as ORD-";

/// Reads every entry, and adds what they came to.
pub(super) fn read(
    reader: &mut Reader,
    namespaces: &[NamespaceConfig],
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
        codes.push(code);
    }
    Codes::new(codes)
}

/// One entry while it is read.
struct Entry<'a> {
    reader: &'a mut Reader,
    index: usize,
    entry: CodeEntry,
}

impl Entry<'_> {
    fn read(&mut self, namespaces: &[NamespaceConfig]) -> Option<CodeConfig> {
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
        match namespaces.iter().find(|config| config.name == namespace) {
            Some(config) => {
                let Mode::Snowflake { keeper, .. } = &config.mode;
                let allow = keeper.issue.codes_allow.as_ref();
                if is_valid_code(&name) && allow.is_some_and(|allow| !allow.contains(&name)) {
                    let allowed = format!("among codes.allow of namespace {namespace:?}");
                    self.reject("name", &name, allowed);
                }
            }
            None => {
                let known: Vec<&str> =
                    namespaces.iter().map(|config| config.name.as_str()).collect();
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
        let source = |field| match self.entry.values.contains_key(field) {
            true => self.entry.source.clone(),
            false => Source::Default,
        };
        let setting =
            |field, value| EffectiveSetting { key: self.key(field), value, source: source(field) };
        [
            setting("namespace", code.namespace.clone()),
            setting("prefix", code.prefix.as_deref().unwrap_or_default().to_owned()),
        ]
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
