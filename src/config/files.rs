//! Reads files of settings, and the texts of their values.

use std::{collections::HashMap, fs, path::Path};

use config::{File, FileFormat, Map, Source as _, Value, ValueKind};

use super::problem::ConfigProblem;

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

/// Reads a `.env` file. Errors name the line and never quote it.
pub(super) fn read_dot_env(path: &Path) -> Result<HashMap<String, String>, ConfigProblem> {
    let problem = |reason| ConfigProblem::File { path: path.to_owned(), reason };
    let text = fs::read_to_string(path).map_err(|error| problem(error.to_string()))?;
    let pairs: Result<_, _> = dotenvy::from_read_iter(text.as_bytes()).collect();
    pairs.map_err(|error| {
        // The library's text quotes the line, which may hold a secret.
        let is_bad = |line: &str| match &error {
            dotenvy::Error::LineParse(bad, _) => !line.is_empty() && bad.contains(line.trim()),
            _ => false,
        };
        let number = text.lines().position(is_bad);
        let place = number.map_or(String::new(), |index| format!("line {}: ", index + 1));
        problem(format!("{place}not of the form NAME=value"))
    })
}

/// Returns the text of a value; `[…]` and `{…}` for lists and tables.
pub(crate) fn text_of(kind: &ValueKind) -> String {
    match kind {
        // Keeps the point of 3.0, which is no whole number.
        ValueKind::Float(number) => format!("{number:?}"),
        ValueKind::Table(_) => "{…}".into(),
        ValueKind::Array(_) => "[…]".into(),
        kind => kind.to_string(),
    }
}

/// Returns the text of a value, with the items of a list.
pub(super) fn display(kind: &ValueKind) -> String {
    match kind {
        ValueKind::Array(items) => {
            let items: Vec<String> = items.iter().map(|item| text_of(&item.kind)).collect();
            format!("[{}]", items.join(", "))
        }
        kind => text_of(kind),
    }
}
