//! Reads the file of tokens, and reports every problem in it at once.

use std::{collections::HashSet, path::Path};

use config::{Value, ValueKind};

use super::{
    caller::{Permission, Rights, is_code_or_beginning},
    certificate::CertificateName,
    tokens::{Proof, TokenHash, Tokens},
};
use crate::{
    config::{ConfigError, ConfigProblem, Reader, read_toml, small_file},
    core::{
        code::{CODE_PATTERN, is_valid_code},
        instant::parse_unix_ms,
    },
};

/// The key of the list of entries.
const TOKEN: &str = "token";

/// The fields of an entry.
const FIELDS: [&str; 7] =
    ["name", "hash", "certificate", "permissions", "namespaces", "codes", "expires"];

/// The largest number of problems in an error: a file of another format may have one in each line.
const REPORTED: usize = 100;

/// The form of `expires`, for error messages.
pub(crate) const EXPIRY_FORM: &str =
    "an instant such as 2027-01-31T00:00:00Z, or a date such as 2027-01-31, which begins in UTC";

/// Reads the time at which a token expires, as Unix milliseconds.
pub(crate) fn read_expiry(text: &str) -> Option<i64> {
    let is_date = text.len() == "2027-01-31".len();
    if is_date { parse_unix_ms(&format!("{text}T00:00:00Z")) } else { parse_unix_ms(text) }
}

/// Reads the file, for a service with these namespaces. A name that is in `previous`, too, keeps
/// the time of its last use.
pub(super) fn read(
    path: &Path,
    namespaces: &[String],
    previous: Option<&Tokens>,
) -> Result<Tokens, ConfigError> {
    // A process that can write the file can grant itself access, so its owner and mode are checked.
    let table = read_toml(path, small_file::read_trusted_text);
    let mut table = table.map_err(|problem| ConfigError(vec![problem]))?;
    let source = path.display().to_string();
    let mut problems = Vec::new();
    let entries = match table.remove(TOKEN).map(|list| list.kind) {
        Some(ValueKind::Array(entries)) => entries,
        Some(_) => {
            let allowed = "entries that begin with [[token]]".into();
            let (key, value, source) = (TOKEN.into(), "…".into(), source.clone());
            problems.push(ConfigProblem::Value { key, value, source, allowed });
            Vec::new()
        }
        None => Vec::new(),
    };
    for key in table.into_keys() {
        let (source, known) = (source.clone(), vec![TOKEN]);
        problems.push(ConfigProblem::UnknownKey { key, source, known });
    }
    let mut entries_read = Entries { namespaces, source, previous, ..Entries::default() };
    for (index, entry) in entries.into_iter().enumerate() {
        problems.extend(entries_read.add(index, entry));
    }
    if !problems.is_empty() {
        let more = problems.len().saturating_sub(REPORTED);
        problems.truncate(REPORTED);
        if more > 0 {
            let (path, reason) = (path.to_owned(), format!("{more} more problems"));
            problems.push(ConfigProblem::File { path, reason });
        }
        return Err(ConfigError(problems));
    }
    if entries_read.tokens.count() == 0 {
        let reason = "it has no [[token]]: must have at least one".into();
        return Err(ConfigError(vec![ConfigProblem::File { path: path.to_owned(), reason }]));
    }
    Ok(entries_read.tokens)
}

/// The entries read so far.
#[derive(Default)]
struct Entries<'a> {
    namespaces: &'a [String],
    source: String,
    previous: Option<&'a Tokens>,
    tokens: Tokens,
    names: HashSet<String>,
    /// The names of entries that never expire. Only one entry of a name may be without `expires`;
    /// the others are tokens that it replaces.
    lasting: HashSet<String>,
}

impl Entries<'_> {
    /// Adds an entry, or returns all of its problems. Each entry has a reader for itself, so that
    /// the time to read a file stays proportional to its length, even if every entry is wrong.
    fn add(&mut self, index: usize, entry: Value) -> Vec<ConfigProblem> {
        let mut reader = Reader::default();
        let source = &self.source;
        let ValueKind::Table(table) = entry.kind else {
            // Do not quote the value: it may be a misplaced secret.
            let (key, allowed) = (format!("{TOKEN}[{index}]"), "a table of keys".into());
            reader.push(key, "…".into(), source.clone(), allowed);
            return reader.problems;
        };
        let given = table.get("name").map(|name| name.kind.to_string().trim().to_owned());
        let named = given.filter(|name| is_valid_code(name));
        let is_first = named.as_ref().is_some_and(|name| self.names.insert(name.clone()));
        let label = named.as_ref().filter(|_| is_first);
        let label = label.map_or_else(|| format!("#{}", index + 1), Clone::clone);
        let place = reader.entry(format!("[[{TOKEN}]] {label}: "), table, &FIELDS, source);
        reader.enter(place);

        match &named {
            None => reader.reject("name", format!("a name that matches {CODE_PATTERN}")),
            Some(name) if !reader.is_given("expires") && !self.lasting.insert(name.clone()) => {
                let allowed = "used by one entry only, or by others that have expires";
                reader.reject("name", allowed);
            }
            Some(_) => {}
        }
        let proof = proof(&mut reader);
        let permissions = permissions(&mut reader);
        let known = |name: &str| self.namespaces.iter().any(|known| known == name);
        let namespaces = list(&mut reader, "namespaces", &self.namespaces.join(" or "), known);
        let code_form = "a code such as order, or a beginning of codes such as invoice:*";
        let codes = list(&mut reader, "codes", code_form, is_code_or_beginning);
        let expires_ms = reader.given("expires", EXPIRY_FORM, read_expiry);
        if let (Some(name), Some(proof)) = (named, proof) {
            let key = match proof {
                Proof::Token(_) => "hash",
                Proof::Certificate(_) => "certificate",
            };
            let rights = Rights { name, permissions, namespaces, codes };
            if let Err(same) = self.tokens.add(proof, rights, expires_ms, self.previous) {
                reader.reject(key, format!("another one than that of {same:?}"));
            }
        }
        reader.problems
    }
}

/// Reads the hash of a token, or the name of a certificate.
fn proof(reader: &mut Reader) -> Option<Proof> {
    let hash_form = "sha256: and the 64 hexadecimal digits of the token's hash";
    let is_by_certificate = reader.is_given("certificate");
    if is_by_certificate && reader.is_given("hash") {
        reader.reject("certificate", "left out where hash is given");
        return None;
    }
    if is_by_certificate {
        let name = reader.given("certificate", CertificateName::FORM, CertificateName::read);
        return name.map(Proof::Certificate);
    }
    if !reader.is_given("hash") {
        reader.reject("hash", format!("{hash_form}; or certificate must be given"));
    }
    reader.given("hash", hash_form, TokenHash::read).map(Proof::Token)
}

/// Reads the permissions of an entry; an entry without `permissions` has the default ones.
fn permissions(reader: &mut Reader) -> Vec<Permission> {
    let allowed = Permission::ALL.map(Permission::name).join(" or ");
    let given = list(reader, "permissions", &allowed, |name| Permission::by_name(name).is_some());
    match given {
        Some(names) => names.iter().filter_map(|name| Permission::by_name(name)).collect(),
        None => Permission::ALL.into_iter().filter(|it| it.is_granted_by_default()).collect(),
    }
}

/// Reads a list that limits a token; `None` if the entry does not have it.
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
