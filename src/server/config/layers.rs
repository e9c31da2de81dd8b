//! Collects what was given, layer by layer: file < `.env` < environment < flags.

use std::{
    collections::{BTreeMap, HashMap},
    fs,
    path::{Path, PathBuf},
};

use config::{Environment, File, FileFormat, Map, Source as _, Value, ValueKind};

use super::{
    ConfigProblem, Host, Source,
    keys::{KEYS, Key, variable},
};

/// Names the configuration file in the environment.
const FILE_VARIABLE: &str = "RAINDROP_CONFIG";

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
            let name = name.into_string().ok().filter(|name| name.starts_with("RAINDROP_"))?;
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

/// What was given for each known key, and what is wrong with the layers themselves.
#[derive(Debug, Default)]
pub(super) struct Layers {
    pub(super) given: BTreeMap<&'static str, Given>,
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
        layers.environment(dot_env, &|name| Source::DotEnv(variable(name)));
        layers.environment(inputs.environment.clone(), &|name| Source::Environment(variable(name)));
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
        let text = match fs::read_to_string(path) {
            Ok(text) => text,
            Err(error) => return self.file_problem(path, error.to_string()),
        };
        match File::from_str(&text, FileFormat::Toml).collect() {
            Ok(table) => self.table("", table, &|_| Source::File(path.to_owned())),
            Err(error) => {
                // Lines with a bar quote the file, which may hold a secret.
                let text = error.to_string();
                let said: Vec<&str> =
                    text.lines().filter(|line| !line.contains('|')).map(str::trim).collect();
                self.file_problem(path, said.join("; "));
            }
        }
    }

    fn environment(&mut self, pairs: HashMap<String, String>, source: &dyn Fn(&str) -> Source) {
        let environment = Environment::with_prefix("RAINDROP")
            .prefix_separator("__")
            .separator("__")
            .ignore_empty(true)
            .source(Some(pairs));
        let table = environment.collect().expect("a map of strings is always collected");
        self.table("", table, source);
    }

    fn table(&mut self, prefix: &str, table: Map<String, Value>, source: &dyn Fn(&str) -> Source) {
        for (name, value) in table {
            let name = if prefix.is_empty() { name } else { format!("{prefix}.{name}") };
            match value.kind {
                ValueKind::Table(table) if Key::by_name(&name).is_none() && is_section(&name) => {
                    self.table(&name, table, source);
                }
                ValueKind::Array(values) => {
                    let texts = values.iter().map(|value| text_of(&value.kind)).collect();
                    self.set(&name, GivenValue::Many(texts), source(&name));
                }
                kind => self.set(&name, GivenValue::One(text_of(&kind)), source(&name)),
            }
        }
    }

    fn set(&mut self, name: &str, value: GivenValue, source: Source) {
        if let Some(key) = Key::by_name(name) {
            self.given.insert(key.name, Given { value, source });
            return;
        }
        let section = name.split('.').next().filter(|section| is_section(section));
        let known: Vec<&str> = match section {
            Some(section) => {
                KEYS.iter().map(|key| key.name).filter(|key| in_section(key, section)).collect()
            }
            None => {
                let mut sections: Vec<&str> =
                    KEYS.iter().filter_map(|key| key.name.split('.').next()).collect();
                sections.dedup();
                sections
            }
        };
        self.problems.push(ConfigProblem::UnknownKey { key: name.to_owned(), source, known });
    }

    fn file_problem(&mut self, path: &Path, reason: String) {
        self.problems.push(ConfigProblem::File { path: path.to_owned(), reason });
    }
}

fn in_section(key: &str, section: &str) -> bool {
    key.strip_prefix(section).is_some_and(|rest| rest.starts_with('.'))
}

fn is_section(name: &str) -> bool {
    KEYS.iter().any(|key| in_section(key.name, name))
}

fn text_of(kind: &ValueKind) -> String {
    match kind {
        // Keeps the point of 3.0, which is no whole number.
        ValueKind::Float(number) => format!("{number:?}"),
        ValueKind::Table(_) => "{…}".into(),
        ValueKind::Array(_) => "[…]".into(),
        kind => kind.to_string(),
    }
}
