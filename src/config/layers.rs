//! Collects what each layer gives: file < `.env` < environment < flags.

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    fs,
    path::{Path, PathBuf},
};

use config::{Environment, File, FileFormat, Map, Source as _, Value, ValueKind};

use super::{
    ConfigProblem, Host, Source,
    keys::{
        CODE_FIELDS, CODES, KEYS, Key, NAMESPACES, SEGMENT_CODE_FIELDS, Scope, is_section,
        section_of, split_namespace, variable,
    },
    reader::Place,
    spelling::{FILE_VARIABLE, corrected, has_prefix},
};
use crate::core::{
    code::{CODE_PATTERN, is_valid_code},
    namespace::{DEFAULT_NAMESPACE, NAMESPACE_PATTERN, is_valid_namespace},
};

/// Everything that a configuration is made of: loading reads no other state.
#[derive(Clone, Debug, Default)]
pub struct Inputs {
    /// The configuration file of `--config`.
    pub file: Option<PathBuf>,
    /// The path of the `.env` file, which may be missing.
    pub dot_env: Option<PathBuf>,
    /// The environment.
    pub environment: HashMap<String, String>,
    /// Flags of the command line.
    pub flags: Vec<FlagValue>,
    /// The machine.
    pub host: Host,
}

/// A flag of the command line that sets a key.
#[derive(Clone, Debug)]
pub struct FlagValue {
    /// The flag, `--listen` for example.
    pub flag: &'static str,
    /// The key it sets.
    pub key: &'static str,
    /// The value.
    pub value: String,
}

impl Inputs {
    /// Returns this process's environment, the `.env` file of the working folder, and this machine.
    pub fn of_process() -> Self {
        let environment = std::env::vars_os().filter_map(|(name, value)| {
            let name = name.into_string().ok().filter(|name| has_prefix(name))?;
            Some((name, value.to_string_lossy().into_owned()))
        });
        Self {
            dot_env: Some(".env".into()),
            environment: environment.collect(),
            host: Host::detect(),
            ..Self::default()
        }
    }
}

/// A value as it was given.
#[derive(Clone, Debug)]
pub(super) struct Given {
    pub(super) value: ValueKind,
    pub(super) source: Source,
}

/// What was given for each known key, and what is wrong with the layers themselves.
#[derive(Debug, Default)]
pub(super) struct Layers {
    /// By the whole name, `namespaces.orders.lease.ttl` or `[[code]] order: prefix` for example.
    pub(super) given: BTreeMap<String, Given>,
    /// Every namespace that is named, and whether its name is valid.
    pub(super) namespaces: BTreeMap<String, bool>,
    /// The entries of `[[code]]`.
    pub(super) codes: Vec<Place>,
    pub(super) problems: Vec<ConfigProblem>,
}

impl Layers {
    pub(super) fn collect(inputs: &Inputs) -> Self {
        let mut layers = Self::default();
        let dot_env = layers.dot_env(inputs.dot_env.as_deref());
        let named = [&inputs.environment, &dot_env].into_iter().find_map(|environment| {
            environment.get(FILE_VARIABLE).filter(|path| !path.is_empty()).map(PathBuf::from)
        });
        if let Some(path) = inputs.file.clone().or(named) {
            match read_toml(&path) {
                Ok(table) => layers.table("", table, &|_| Source::File(path.clone())),
                Err(problem) => layers.problems.push(problem),
            }
        }
        layers.environment(dot_env, &Source::DotEnv);
        layers.environment(inputs.environment.clone(), &Source::Environment);
        for FlagValue { flag, key, value } in &inputs.flags {
            layers.set(key, value.clone().into(), Source::Flag(flag));
        }
        layers
    }

    fn dot_env(&mut self, path: Option<&Path>) -> HashMap<String, String> {
        let Some(path) = path.filter(|path| path.exists()) else { return HashMap::new() };
        let read = fs::read_to_string(path).map_err(|error| error.to_string()).and_then(|text| {
            let pairs: Result<_, _> = dotenvy::from_read_iter(text.as_bytes()).collect();
            pairs.map_err(|error| {
                // The library's text quotes the line, which may hold a secret.
                let is_bad = |line: &str| match &error {
                    dotenvy::Error::LineParse(bad, _) => {
                        bad.contains(line.trim()) && !line.is_empty()
                    }
                    _ => false,
                };
                let number = text.lines().position(is_bad);
                let place = number.map_or(String::new(), |index| format!("line {}: ", index + 1));
                format!("{place}not of the form NAME=value")
            })
        });
        read.unwrap_or_else(|reason| {
            self.problems.push(ConfigProblem::File { path: path.to_owned(), reason });
            HashMap::new()
        })
    }

    fn environment(
        &mut self,
        mut pairs: HashMap<String, String>,
        source: &dyn Fn(String) -> Source,
    ) {
        // The library folds case: of two spellings of one key, either might win.
        pairs.retain(|name, value| {
            let right = corrected(name).filter(|_| !value.is_empty());
            right.is_none_or(|right| {
                let source = source(name.clone());
                self.problems.push(ConfigProblem::Misspelled { source, right });
                false
            })
        });
        let environment = Environment::with_prefix("RAINDROP")
            .prefix_separator("__")
            .separator("__")
            .ignore_empty(true)
            .source(Some(pairs));
        let table = environment.collect().expect("a map of strings is always collected");
        self.table("", table, &|name| source(variable(name)));
    }

    fn table(&mut self, prefix: &str, table: Map<String, Value>, source: &dyn Fn(&str) -> Source) {
        for (name, Value { kind, .. }) in table {
            let name = if prefix.is_empty() { name } else { format!("{prefix}.{name}") };
            match kind {
                ValueKind::Table(table) if is_section(&name) => {
                    if self.is_usable(split_namespace(&name).0, &source(&name)) {
                        self.table(&name, table, source);
                    }
                }
                ValueKind::Array(entries) if name == CODES => self.codes(entries, &source(CODES)),
                kind => self.set(&name, kind, source(&name)),
            }
        }
    }

    fn set(&mut self, name: &str, value: ValueKind, source: Source) {
        let (namespace, key) = split_namespace(name);
        if !self.is_usable(namespace, &source) {
            return;
        }
        let belongs = |key: &&Key| namespace.is_none() || key.scope() != Scope::Service;
        if Key::by_name(key).is_some_and(|key| belongs(&key)) {
            self.given.insert(name.to_owned(), Given { value, source });
        } else if name == NAMESPACES || name == CODES || (namespace.is_some() && key.is_empty()) {
            let allowed = match name {
                CODES => "[[code]] entries in the configuration file",
                _ => "a table of keys, such as [namespaces.orders]",
            };
            self.reject(name.to_owned(), display(&value), source, allowed.into());
        } else {
            // The keys of its section; or else every section.
            let keys = || KEYS.iter().filter(belongs);
            let beside = keys().filter(|known| known.section() == section_of(key));
            let mut known: Vec<&str> =
                beside.map(|key| key.name).filter(|name| name.contains('.')).collect();
            if known.is_empty() {
                known = keys().map(Key::section).collect();
                known.dedup();
                known.extend([NAMESPACES, CODES].iter().filter(|_| namespace.is_none()));
            }
            let known = known.into_iter().map(str::to_owned).collect();
            self.problems.push(ConfigProblem::UnknownKey { key: name.to_owned(), source, known });
        }
    }

    /// Notes a namespace, and returns whether its keys can be used; the top level's always can.
    fn is_usable(&mut self, namespace: Option<&str>, source: &Source) -> bool {
        let Some(name) = namespace else { return true };
        if let Some(is_valid) = self.namespaces.get(name) {
            return *is_valid;
        }
        let is_valid = name != DEFAULT_NAMESPACE && is_valid_namespace(name);
        if !is_valid {
            let allowed = if name == DEFAULT_NAMESPACE {
                "left out: the keys at the top level are those of default".into()
            } else {
                format!("renamed to match {NAMESPACE_PATTERN}")
            };
            self.reject(format!("{NAMESPACES}.{name}"), "{…}".into(), source.clone(), allowed);
        }
        self.namespaces.insert(name.to_owned(), is_valid);
        is_valid
    }

    fn codes(&mut self, entries: Vec<Value>, source: &Source) {
        let mut names = HashSet::new();
        for (index, Value { kind, .. }) in entries.into_iter().enumerate() {
            let ValueKind::Table(table) = kind else {
                let key = format!("{CODES}[{index}]");
                self.reject(key, display(&kind), source.clone(), "a table of keys".into());
                continue;
            };
            let name = table.get("name").map(|name| text_of(&name.kind).trim().to_owned());
            let name = name.unwrap_or_default();
            let allowed = if !is_valid_code(&name) {
                format!("a code that matches {CODE_PATTERN}")
            } else if !names.insert(name.clone()) {
                "used by one entry only".into()
            } else {
                String::new()
            };
            let label = if allowed.is_empty() { name.clone() } else { format!("#{}", index + 1) };
            let entry = format!("[[{CODES}]] {label}: ");
            if !allowed.is_empty() {
                self.reject(format!("{entry}name"), name, source.clone(), allowed);
            }
            for (field, Value { kind: value, .. }) in table {
                let (key, source) = (format!("{entry}{field}"), source.clone());
                let known = CODE_FIELDS.iter().chain(&SEGMENT_CODE_FIELDS);
                if known.clone().any(|known| *known == field) {
                    self.given.insert(key, Given { value, source });
                } else {
                    let known = known.map(|known| (*known).to_owned()).collect();
                    self.problems.push(ConfigProblem::UnknownKey { key, source, known });
                }
            }
            self.codes.push(Place::Code(entry, source.clone()));
        }
    }

    pub(super) fn reject(&mut self, key: String, value: String, source: Source, allowed: String) {
        let value = if value.is_empty() { "nothing".into() } else { value };
        self.problems.push(ConfigProblem::Value { key, value, source, allowed });
    }
}

/// Reads a TOML file. Errors name the line and never quote the file's content.
pub(crate) fn read_toml(path: &Path) -> Result<Map<String, Value>, ConfigProblem> {
    let problem = |reason| ConfigProblem::File { path: path.to_owned(), reason };
    let text = fs::read_to_string(path).map_err(|error| problem(error.to_string()))?;
    File::from_str(&text, FileFormat::Toml).collect().map_err(|error| {
        // Lines with a bar quote the file, which may hold a secret.
        let text = error.to_string();
        let said: Vec<&str> =
            text.lines().filter(|line| !line.contains('|')).map(str::trim).collect();
        problem(said.join("; "))
    })
}

/// The text of a value; of lists and tables only that they are one.
pub(crate) fn text_of(kind: &ValueKind) -> String {
    match kind {
        // Keeps the point of 3.0, which is no whole number.
        ValueKind::Float(number) => format!("{number:?}"),
        ValueKind::Table(_) => "{…}".into(),
        ValueKind::Array(_) => "[…]".into(),
        kind => kind.to_string(),
    }
}

/// The text of a value, with the items of a list.
pub(super) fn display(kind: &ValueKind) -> String {
    match kind {
        ValueKind::Array(items) => {
            let items: Vec<String> = items.iter().map(|item| text_of(&item.kind)).collect();
            format!("[{}]", items.join(", "))
        }
        kind => text_of(kind),
    }
}
