//! Collects what was given, layer by layer: file < `.env` < environment < flags.

use std::{
    collections::{BTreeMap, HashMap},
    fmt, fs,
    path::{Path, PathBuf},
};

use config::{Environment, File, FileFormat, Map, Source as _, Value, ValueKind};

use super::{
    ConfigProblem, Host, Source,
    keys::{Key, Scope, variable},
    names::{CODES, NAMESPACES, is_section, known_beside, split},
    spelling::{FILE_VARIABLE, corrected, has_prefix},
};
use crate::core::namespace::{DEFAULT_NAMESPACE, NAMESPACE_PATTERN, is_valid_namespace};

/// Everything that a configuration is made of, so that loading touches nothing else.
#[derive(Clone, Debug, Default)]
pub struct Inputs {
    /// The configuration file of `--config`.
    pub file: Option<PathBuf>,
    /// Where the `.env` file is if there is one.
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
    /// This process's environment, the `.env` file of the working folder, and this machine.
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
    pub(super) value: GivenValue,
    pub(super) source: Source,
}

#[derive(Clone, Debug)]
pub(super) enum GivenValue {
    One(String),
    Many(Vec<String>),
}

impl fmt::Display for GivenValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::One(text) => f.write_str(text),
            Self::Many(items) => write!(f, "[{}]", items.join(", ")),
        }
    }
}

/// An entry of `[[code]]`.
#[derive(Clone, Debug)]
pub(super) struct CodeEntry {
    pub(super) values: BTreeMap<String, String>,
    pub(super) source: Source,
}

/// What was given for each known key, and what is wrong with the layers themselves.
#[derive(Debug, Default)]
pub(super) struct Layers {
    /// By the whole name, `namespaces.orders.lease.ttl` for example.
    pub(super) given: BTreeMap<String, Given>,
    /// Every namespace that is named, and whether it can be one.
    pub(super) namespaces: BTreeMap<String, bool>,
    pub(super) codes: Vec<CodeEntry>,
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
            layers.file(&path);
        }
        layers.environment(dot_env, &Source::DotEnv);
        layers.environment(inputs.environment.clone(), &Source::Environment);
        for FlagValue { flag, key, value } in &inputs.flags {
            layers.set(key, GivenValue::One(value.clone()), Source::Flag(flag));
        }
        layers
    }

    fn dot_env(&mut self, path: Option<&Path>) -> HashMap<String, String> {
        let Some(path) = path.filter(|path| path.exists()) else { return HashMap::new() };
        let text = match fs::read_to_string(path) {
            Ok(text) => text,
            Err(error) => {
                self.file_problem(path, error.to_string());
                return HashMap::new();
            }
        };
        let pairs: Result<_, _> = dotenvy::from_read_iter(text.as_bytes()).collect();
        pairs.unwrap_or_else(|error| {
            // The library's text quotes the line, which may hold a secret.
            let number = match &error {
                dotenvy::Error::LineParse(bad, _) => {
                    text.lines().position(|line| bad.contains(line.trim()) && !line.is_empty())
                }
                _ => None,
            };
            let place = number.map_or(String::new(), |index| format!("line {}: ", index + 1));
            self.file_problem(path, format!("{place}not of the form NAME=value"));
            HashMap::new()
        })
    }

    fn file(&mut self, path: &Path) {
        match read_toml(path) {
            Ok(table) => self.table("", table, &|_| Source::File(path.to_owned())),
            Err(problem) => self.problems.push(problem),
        }
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
        for (name, value) in table {
            let name = if prefix.is_empty() { name } else { format!("{prefix}.{name}") };
            match value.kind {
                ValueKind::Table(table) if is_section(&name) => {
                    if let (Some(namespace), _) = split(&name)
                        && !self.namespace(namespace, source(&name))
                    {
                        continue;
                    }
                    self.table(&name, table, source);
                }
                ValueKind::Array(values) if name == CODES => self.codes(values, &source(CODES)),
                ValueKind::Array(values) => {
                    let texts = values.iter().map(|value| text_of(&value.kind)).collect();
                    self.set(&name, GivenValue::Many(texts), source(&name));
                }
                kind => self.set(&name, GivenValue::One(text_of(&kind)), source(&name)),
            }
        }
    }

    fn set(&mut self, name: &str, value: GivenValue, source: Source) {
        let (namespace, rest) = split(name);
        if let Some(namespace) = namespace
            && !self.namespace(namespace, source.clone())
        {
            return;
        }
        let belongs = |key: &Key| namespace.is_none() || key.scope() != Scope::Service;
        if Key::by_name(rest).is_some_and(&belongs) {
            self.given.insert(name.to_owned(), Given { value, source });
        } else if name == NAMESPACES || name == CODES || (namespace.is_some() && rest.is_empty()) {
            let allowed = match name {
                CODES => "entries of the configuration file that begin with [[code]]",
                _ => "a table of keys, such as [namespaces.orders]",
            };
            self.value_problem(name, value.to_string(), source, allowed.into());
        } else {
            let known = known_beside(rest, namespace, belongs);
            self.problems.push(ConfigProblem::UnknownKey { key: name.to_owned(), source, known });
        }
    }

    /// Notes that this namespace is there, and whether it may be.
    fn namespace(&mut self, name: &str, source: Source) -> bool {
        if let Some(known) = self.namespaces.get(name) {
            return *known;
        }
        let allowed = if name == DEFAULT_NAMESPACE {
            "left out, since the keys at the top are its own".into()
        } else {
            format!("named by a text that matches {NAMESPACE_PATTERN}")
        };
        let is_valid = name != DEFAULT_NAMESPACE && is_valid_namespace(name);
        if !is_valid {
            self.value_problem(&format!("{NAMESPACES}.{name}"), "{…}".into(), source, allowed);
        }
        self.namespaces.insert(name.to_owned(), is_valid);
        is_valid
    }

    fn codes(&mut self, entries: Vec<Value>, source: &Source) {
        for (index, entry) in entries.into_iter().enumerate() {
            let ValueKind::Table(table) = entry.kind else {
                let (key, value) = (format!("{CODES}[{index}]"), text_of(&entry.kind));
                self.value_problem(&key, value, source.clone(), "a table of keys".into());
                continue;
            };
            let values = table.into_iter().map(|(name, value)| (name, text_of(&value.kind)));
            self.codes.push(CodeEntry { values: values.collect(), source: source.clone() });
        }
    }

    fn value_problem(&mut self, key: &str, value: String, source: Source, allowed: String) {
        let key = key.to_owned();
        self.problems.push(ConfigProblem::Value { key, value, source, allowed });
    }

    fn file_problem(&mut self, path: &Path, reason: String) {
        self.problems.push(ConfigProblem::File { path: path.to_owned(), reason });
    }
}

/// Reads a file of keys; nothing of what it says is told when it cannot be read.
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

/// The text of a value; lists and tables in short.
pub(crate) fn text_of(kind: &ValueKind) -> String {
    match kind {
        // Keeps the point of 3.0, which is no whole number.
        ValueKind::Float(number) => format!("{number:?}"),
        ValueKind::Table(_) => "{…}".into(),
        ValueKind::Array(_) => "[…]".into(),
        kind => kind.to_string(),
    }
}
