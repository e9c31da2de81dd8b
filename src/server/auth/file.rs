//! The file of tokens.

use std::{path::Path, sync::Arc};

use config::ValueKind;

use super::tokens::{Rights, Token, TokenHash, Tokens, is_code_or_beginning};
use crate::config::{ConfigError, ConfigProblem, Reader, read_toml};

/// The list of tokens.
const TOKEN: &str = "token";

/// Reads the file, for a service of these namespaces.
pub(super) fn read(path: &Path, namespaces: &[String]) -> Result<Tokens, ConfigError> {
    let mut table = read_toml(path).map_err(|problem| ConfigError(vec![problem]))?;
    let source = path.display().to_string();
    let mut reader = Reader::default();
    let fields = ["name", "hash", "namespaces", "codes"];
    let places = match table.remove(TOKEN).map(|list| list.kind) {
        Some(ValueKind::Array(entries)) => reader.entries(TOKEN, entries, &fields, &source),
        Some(_) => {
            let allowed = "entries that begin with [[token]]";
            reader.push(TOKEN.into(), "…".into(), source.clone(), allowed.into());
            Vec::new()
        }
        None => Vec::new(),
    };
    for key in table.into_keys() {
        let (source, known) = (source.clone(), vec![TOKEN]);
        reader.problems.push(ConfigProblem::UnknownKey { key, source, known });
    }
    let mut tokens: Vec<Token> = Vec::new();
    for place in places {
        reader.enter(place);
        let name = reader.text("name");
        let hash_form = "sha256: and the 64 hexadecimal digits of the token's hash";
        let hash = reader.given("hash", hash_form, TokenHash::read);
        if !reader.is_given("hash") {
            reader.reject("hash", hash_form);
        }
        let known = |name: &str| namespaces.iter().any(|known| known == name);
        let may_use = list(&mut reader, "namespaces", &namespaces.join(" or "), known);
        let code_form = "a code such as order, or a beginning of codes such as invoice:*";
        let codes = list(&mut reader, "codes", code_form, is_code_or_beginning);
        let (Some(name), Some(hash)) = (name, hash) else { continue };
        if let Some(same) = tokens.iter().find(|known| known.hash.is(&hash)) {
            reader.reject("hash", format!("another one than that of {:?}", same.rights.name));
        }
        let rights = Rights { name, namespaces: may_use, codes };
        tokens.push(Token { hash, rights: Arc::new(rights) });
    }
    if !reader.problems.is_empty() {
        return Err(ConfigError(reader.problems));
    }
    if tokens.is_empty() {
        let reason = "it has no [[token]]: must have at least one".into();
        return Err(ConfigError(vec![ConfigProblem::File { path: path.to_owned(), reason }]));
    }
    Ok(Tokens(tokens))
}

/// Reads a list that limits a token, if it is given.
fn list(
    reader: &mut Reader,
    key: &str,
    allowed: &str,
    is_allowed: impl Fn(&str) -> bool,
) -> Option<Vec<String>> {
    let items = reader.list(key)?;
    if !items.iter().all(|item| is_allowed(item)) {
        reader.reject(key, format!("left out, or a list whose every item is {allowed}"));
    }
    Some(items)
}
