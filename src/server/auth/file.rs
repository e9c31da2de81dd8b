//! The file of tokens.

use std::{collections::HashSet, path::Path, sync::Arc};

use config::{Map, Value, ValueKind};

use super::tokens::{Rights, Token, TokenHash, Tokens, is_code_or_beginning};
use crate::{
    config::{ConfigError, ConfigProblem, read_toml, text_of},
    core::code::{CODE_PATTERN, is_valid_code},
};

/// The list of tokens.
const TOKEN: &str = "token";
/// What an entry may say.
const FIELDS: [&str; 4] = ["name", "hash", "namespaces", "codes"];

/// Reads the file, for a service of these namespaces.
pub(super) fn read(path: &Path, namespaces: &[String]) -> Result<Tokens, ConfigError> {
    let table = read_toml(path).map_err(|problem| ConfigError(vec![problem]))?;
    let source = path.display().to_string();
    let mut file = TokensFile { source, namespaces, names: HashSet::new(), problems: Vec::new() };
    let tokens = file.tokens(table);
    if !file.problems.is_empty() {
        return Err(ConfigError(file.problems));
    }
    if tokens.0.is_empty() {
        let reason = "it has no [[token]]: must have at least one".into();
        return Err(ConfigError(vec![ConfigProblem::File { path: path.to_owned(), reason }]));
    }
    Ok(tokens)
}

/// The file while it is read.
struct TokensFile<'a> {
    source: String,
    namespaces: &'a [String],
    names: HashSet<String>,
    problems: Vec<ConfigProblem>,
}

impl TokensFile<'_> {
    fn tokens(&mut self, table: Map<String, Value>) -> Tokens {
        let mut tokens: Vec<Token> = Vec::new();
        for (name, value) in table {
            match value.kind {
                ValueKind::Array(entries) if name == TOKEN => {
                    for (index, entry) in entries.into_iter().enumerate() {
                        let Some(token) = self.token(index, entry) else { continue };
                        if let Some(same) = tokens.iter().find(|known| known.hash.is(&token.hash)) {
                            let place = place(index, Some(&token.rights.name));
                            let allowed =
                                format!("another one than that of {:?}", same.rights.name);
                            self.reject(&place, "hash", HIDDEN, allowed);
                        }
                        tokens.push(token);
                    }
                }
                _ if name == TOKEN => {
                    self.reject_key(TOKEN.into(), "{…}", "entries that begin with [[token]]");
                }
                _ => self.unknown(name, &[TOKEN]),
            }
        }
        Tokens(tokens)
    }

    fn token(&mut self, index: usize, entry: Value) -> Option<Token> {
        let ValueKind::Table(mut entry) = entry.kind else {
            self.reject_key(place(index, None), "…", "a table of keys");
            return None;
        };
        let name = text(entry.get("name")).filter(|name| is_valid_code(name));
        let place = place(index, name.as_deref());
        for field in entry.keys().filter(|field| !FIELDS.contains(&field.as_str())) {
            self.unknown(format!("{place}: {field}"), &FIELDS);
        }
        match &name {
            None => {
                let given = entry.get("name").map(|name| text_of(&name.kind)).unwrap_or_default();
                self.reject(&place, "name", &given, format!("a text that matches {CODE_PATTERN}"));
            }
            Some(name) if !self.names.insert(name.clone()) => {
                self.reject(&place, "name", name, "given by one entry only");
            }
            Some(_) => {}
        }
        let hash = text(entry.get("hash")).and_then(|text| TokenHash::read(&text));
        if hash.is_none() {
            // Somebody may have put the token itself here.
            let given = if entry.contains_key("hash") { HIDDEN } else { "nothing" };
            let allowed = "sha256: and the 64 hexadecimal digits of the token's hash";
            self.reject(&place, "hash", given, allowed);
        }
        let known = self.namespaces;
        let namespaces = self.list(&place, "namespaces", entry.remove("namespaces"), |name| {
            known.iter().any(|known| known == name).then_some(()).ok_or_else(|| known.join(" or "))
        });
        let codes = self.list(&place, "codes", entry.remove("codes"), |code| {
            let allowed = "a code such as order, or a beginning of codes such as invoice:*";
            is_code_or_beginning(code).then_some(()).ok_or_else(|| allowed.into())
        });
        let rights = Rights { name: name?, namespaces, codes };
        Some(Token { hash: hash?, rights: Arc::new(rights) })
    }

    /// A list of texts, if one is given; `check` says what is allowed instead of a text.
    fn list(
        &mut self,
        place: &str,
        field: &str,
        value: Option<Value>,
        check: impl Fn(&str) -> Result<(), String>,
    ) -> Option<Vec<String>> {
        let value = value?;
        let texts: Option<Vec<String>> = match &value.kind {
            ValueKind::Array(items) => items.iter().map(|item| text(Some(item))).collect(),
            _ => None,
        };
        match &texts {
            Some(texts) => {
                for item in texts {
                    if let Err(allowed) = check(item) {
                        self.reject(place, field, item, allowed);
                    }
                }
            }
            None => {
                let allowed = "a list of texts; left out for all";
                self.reject(place, field, &text_of(&value.kind), allowed);
            }
        }
        texts
    }

    fn reject(&mut self, place: &str, field: &str, value: &str, allowed: impl Into<String>) {
        self.reject_key(format!("{place}: {field}"), value, allowed);
    }

    fn reject_key(&mut self, key: String, value: &str, allowed: impl Into<String>) {
        let value = if value.is_empty() { "nothing" } else { value }.to_owned();
        let (source, allowed) = (self.source.clone(), allowed.into());
        self.problems.push(ConfigProblem::Value { key, value, source, allowed });
    }

    fn unknown(&mut self, key: String, known: &[&'static str]) {
        let known = known.to_vec();
        self.problems.push(ConfigProblem::UnknownKey { key, source: self.source.clone(), known });
    }
}

/// What stands for a value that may be a secret.
const HIDDEN: &str = "***";

/// How an entry is named to people: by its token's name where it has one.
fn place(index: usize, name: Option<&str>) -> String {
    match name {
        Some(name) => format!("[[token]] {name}"),
        None => format!("[[token]] {}", index + 1),
    }
}

fn text(value: Option<&Value>) -> Option<String> {
    match &value?.kind {
        ValueKind::String(text) => Some(text.clone()),
        _ => None,
    }
}
