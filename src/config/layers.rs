//! Collects the values of each layer: file < `.env` < environment < flags.
//!
//! A later layer overrides an earlier one key by key, and each value keeps its source for messages.
//! Here a name is checked, with a suggestion for one that is misspelt; a value is not: `reader`
//! checks that, after all layers were collected. `.env` is read only if no configuration file is
//! named. [`Inputs`] is all that loading reads, besides the files that it names, so tests control
//! every input. Tests: `tests.rs` and `tests/corpus.rs`.

use std::{
    collections::{HashMap, HashSet},
    io,
    path::{Path, PathBuf},
};

use config::{File, FileFormat, Map, Source as _, Value, ValueKind};

use super::{
    dot_env,
    keys::{
        CODE_FIELDS, CODES, KEY_PREFIX, KEYS, Key, LAYOUT_FIELDS, LAYOUTS, NAMESPACES,
        SEGMENT_CODE_FIELDS, TOKENS_FILE, is_of_service, is_section, may_be_empty, section_of,
        split_layout, split_namespace, variable,
    },
    problem::ConfigProblem,
    reader::{Given, Place, Reader},
    small_file,
    spelling::{FILE_VARIABLE, PREFIX, corrected, is_short, resembles_tokens_file, without_prefix},
    value::{display, text_of},
    worker::Host,
};
use crate::core::code::{CODE_PATTERN, is_valid_code, series_of_name};

/// The inputs of a configuration. Loading reads nothing else, so tests control all of it.
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
            let name = name.into_string().ok()?;
            without_prefix(&name, PREFIX)?;
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

impl Reader {
    /// Collects the values of all layers. A later layer overrides an earlier one key by key.
    pub(super) fn of(inputs: &Inputs) -> Self {
        let mut reader = Self::default();
        let names_file = inputs.environment.get(FILE_VARIABLE).is_some_and(|path| !path.is_empty());
        let is_alone = inputs.file.is_none() && !names_file;
        let dot_env = inputs.dot_env.as_deref().filter(|path| is_alone && path.exists());
        let of_file = reader.usable(dot_env.map_or_else(|| Ok(HashMap::new()), dot_env::read));
        reader.dot_env = dot_env.filter(|_| !of_file.is_empty()).map(Path::to_owned);
        let named = [&inputs.environment, &of_file].into_iter().find_map(|environment| {
            environment.get(FILE_VARIABLE).filter(|path| !path.is_empty()).map(PathBuf::from)
        });
        if let Some(path) = inputs.file.clone().or(named) {
            let table = reader.usable(read_toml(&path, small_file::read_text));
            reader.table("", table, &path.display().to_string());
        }
        reader.environment(&of_file, |variable| format!("{variable} in .env"));
        let source = |variable: &str| format!("environment variable {variable}");
        reader.environment(&inputs.environment, source);
        for FlagValue { flag, key, value } in &inputs.flags {
            reader.set(key, value.clone().into(), (*flag).to_owned());
        }
        reader
    }

    fn usable<T: Default>(&mut self, read: Result<T, ConfigProblem>) -> T {
        read.unwrap_or_else(|problem| {
            self.problems.push(problem);
            T::default()
        })
    }

    fn environment(&mut self, pairs: &HashMap<String, String>, source: fn(&str) -> String) {
        for (name, value) in pairs {
            let is_of_tokens = resembles_tokens_file(name);
            let right = corrected(name);
            let is_set = is_of_tokens || may_be_empty(right.as_deref().unwrap_or(name));
            if value.is_empty() && !is_set {
                continue;
            }
            let source = source(name);
            if value.contains('\u{fffd}') {
                self.problems.push(ConfigProblem::NotUtf8 { source });
                continue;
            }
            let key = |variable| {
                Some(without_prefix(variable, KEY_PREFIX)?.to_lowercase().replace("__", "."))
            };
            if let Some(right) = right {
                let other = pairs.get(&right).filter(|other| is_set || !other.is_empty());
                match key(&right).filter(|_| is_short(name, &right)) {
                    None => self.problems.push(ConfigProblem::Misspelled { source, right }),
                    Some(_) if other.is_some_and(|other| other != value) => {
                        self.problems.push(ConfigProblem::GivenTwice { source, other: right });
                    }
                    Some(key) if other.is_none() => {
                        self.set(&key, value.clone().into(), source);
                    }
                    Some(_) => {}
                }
            } else if let Some(key) = key(name) {
                self.set(&key, value.clone().into(), source);
            } else if is_of_tokens {
                let right = variable(TOKENS_FILE);
                self.problems.push(ConfigProblem::Misspelled { source, right });
            }
        }
    }

    fn table(&mut self, prefix: &str, table: Map<String, Value>, source: &str) {
        for (name, Value { kind, .. }) in table {
            let name = if prefix.is_empty() { name } else { format!("{prefix}.{name}") };
            match kind {
                ValueKind::Table(table) if is_section(&name) => {
                    self.note_name(&name, source);
                    self.table(&name, table, source);
                }
                ValueKind::Array(entries) if name == CODES => {
                    let fields = [CODE_FIELDS.as_slice(), &SEGMENT_CODE_FIELDS].concat();
                    self.codes = self.entries(CODES, entries, &fields, source);
                }
                kind @ ValueKind::Array(_) if name == "codes" => {
                    let allowed = "a table of keys; entries of codes are [[code]]".to_owned();
                    self.push(name, display(&kind), source.to_owned(), allowed);
                }
                kind => self.set(&name, kind, source.to_owned()),
            }
        }
    }

    fn set(&mut self, name: &str, value: ValueKind, source: String) {
        self.note_name(name, &source);
        let (namespace, key) = split_namespace(name);
        let belongs = |key: &&Key| namespace.is_none() || !is_of_service(key.name);
        let layout_key = split_layout(name).map(|(_, key)| key).filter(|key| !key.is_empty());
        if layout_key.is_some_and(|key| !LAYOUT_FIELDS.contains(&key)) {
            let (key, known) = (name.to_owned(), LAYOUT_FIELDS.to_vec());
            self.problems.push(ConfigProblem::UnknownKey { key, source, known });
        } else if layout_key.is_some() || Key::by_name(key).is_some_and(|key| belongs(&key)) {
            self.given.insert(name.to_owned(), Given { value, source });
        } else if [NAMESPACES, LAYOUTS, CODES].contains(&name)
            || split_layout(name).is_some()
            || (namespace.is_some() && key.is_empty())
        {
            let allowed = match name {
                CODES => "[[code]] entries in the configuration file",
                _ if namespace.is_none() && name != NAMESPACES => {
                    "a table of keys, such as [layouts.old]"
                }
                _ => "a table of keys, such as [namespaces.orders]",
            };
            self.push(name.to_owned(), display(&value), source, allowed.into());
        } else {
            // Suggest the keys of the section or, if there is no such section, every section.
            let keys = || KEYS.iter().filter(belongs).map(|key| key.name);
            let is_beside = |name: &&str| name.contains('.') && section_of(name) == section_of(key);
            let mut known: Vec<&str> = keys().filter(is_beside).collect();
            if known.is_empty() {
                known = keys().map(section_of).collect();
                known.dedup();
                known.extend([NAMESPACES, LAYOUTS, CODES].iter().filter(|_| namespace.is_none()));
            }
            self.problems.push(ConfigProblem::UnknownKey { key: name.to_owned(), source, known });
        }
    }

    /// Records the namespace or the layout that a name begins with, if it begins with one.
    fn note_name(&mut self, name: &str, source: &str) {
        if let (Some(namespace), _) = split_namespace(name) {
            self.namespaces.entry(namespace.to_owned()).or_insert_with(|| source.to_owned());
        }
        if let Some((layout, _)) = split_layout(name) {
            self.layouts.entry(layout.to_owned()).or_insert_with(|| source.to_owned());
        }
    }

    /// Collects the entries of a list of tables, which have distinct names and these fields.
    fn entries(
        &mut self,
        list: &str,
        entries: Vec<Value>,
        fields: &[&'static str],
        source: &str,
    ) -> Vec<Place> {
        let mut places = Vec::new();
        let mut names = HashSet::new();
        for (index, Value { kind, .. }) in entries.into_iter().enumerate() {
            let ValueKind::Table(table) = kind else {
                let key = format!("{list}[{index}]");
                // Do not quote the value: it may be a misplaced secret.
                self.push(key, "…".into(), source.to_owned(), "a table of keys".into());
                continue;
            };
            let name = table.get("name").map(|name| text_of(&name.kind).trim().to_owned());
            let name = name.unwrap_or_default();
            let allowed = if !is_valid_code(&name) && series_of_name(&name).is_none() {
                Some(format!("a name that matches {CODE_PATTERN}, or a series such as invoice:*"))
            } else if !names.insert(name.clone()) {
                Some("used by one entry only".to_owned())
            } else {
                None
            };
            let label = if allowed.is_none() { name.clone() } else { format!("#{}", index + 1) };
            let entry = format!("[[{list}]] {label}: ");
            if let Some(allowed) = allowed {
                self.push(format!("{entry}name"), name, source.to_owned(), allowed);
            }
            places.push(self.entry(entry, table, fields, source));
        }
        places
    }

    /// Collects an entry of a list that may have these fields. `entry` is the prefix of its keys.
    pub(crate) fn entry(
        &mut self,
        entry: String,
        table: Map<String, Value>,
        fields: &[&'static str],
        source: &str,
    ) -> Place {
        for (field, Value { kind: value, .. }) in table {
            let (key, source) = (format!("{entry}{field}"), source.to_owned());
            if fields.contains(&field.as_str()) {
                self.given.insert(key, Given { value, source });
            } else {
                let known = fields.to_vec();
                self.problems.push(ConfigProblem::UnknownKey { key, source, known });
            }
        }
        Place::Entry(entry, source.to_owned())
    }
}

/// Reads a TOML file, as `read` reads a text. Errors name the line and never quote the file's
/// content.
pub(crate) fn read_toml(
    path: &Path,
    read: fn(&Path) -> io::Result<String>,
) -> Result<Map<String, Value>, ConfigProblem> {
    let problem = |reason| ConfigProblem::File { path: path.to_owned(), reason };
    let text = read(path).map_err(|error| problem(error.to_string()))?;
    File::from_str(&text, FileFormat::Toml).collect().map_err(|error| {
        // Lines with a bar quote the file, which may hold a secret.
        let text = error.to_string();
        let said: Vec<&str> =
            text.lines().filter(|line| !line.contains('|')).map(str::trim).collect();
        problem(said.join("; "))
    })
}
