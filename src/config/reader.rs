//! Reads typed values from the collected texts, and records every problem.
//!
//! A bad value does not end the reading: it is recorded with its key, its value without secrets,
//! its source and what is allowed, and the default takes its place. So an operator sees all
//! problems at once. Sections read their keys in a [`Place`]: the top level, a namespace that
//! inherits from it, or an entry of a list. The names of keys were checked before (`layers`), and
//! relations between keys are up to the section that has them. Tests: `tests.rs` and the folder
//! `tests`.

use std::{
    collections::BTreeMap,
    fmt::Display,
    path::{Path, PathBuf},
    str::FromStr,
    time::Duration,
};

use config::ValueKind;

use super::{
    duration,
    equal_texts::EqualTexts,
    form::Form,
    keys::{Key, NAMESPACES, is_inherited, is_of_service},
    problem::ConfigProblem,
    size,
    small_file::readable_by_all,
    value::{display, text_of},
};
use crate::{
    core::{
        namespace::{DEFAULT_NAMESPACE, NAMESPACE_PATTERN, is_valid_namespace},
        violation::{Violation, Violations},
    },
    store::StoreUrl,
};

/// The source of a value that no layer gives.
pub(crate) const DEFAULT: &str = "default";

/// A key of a checked configuration, to be shown to people.
#[derive(Clone, Debug)]
pub struct EffectiveSetting {
    /// The key, `namespaces.orders.lease.ttl` for example.
    pub key: String,
    /// Its value without secrets; empty when it is unset.
    pub value: String,
    /// The source of the value, for people: `default`, `preset js-safe`, the path of the file, or
    /// the name of a variable or a flag.
    pub source: String,
}

/// Reads typed values. It records a bad value as a problem and continues with the default.
///
/// Keys have the names of the key table, relative to the place that is being read.
#[derive(Debug, Default)]
pub(crate) struct Reader {
    /// The values that are set, by the whole name of the key, such as `namespaces.orders.lease.ttl`
    /// or `[[code]] order: prefix`.
    pub(super) given: BTreeMap<String, Given>,
    /// Every namespace that is named, and where it is named first.
    pub(super) namespaces: BTreeMap<String, String>,
    /// Every layout to read IDs by, and where it is named first.
    pub(super) layouts: BTreeMap<String, String>,
    /// The entries of `[[code]]`.
    pub(super) codes: Vec<Place>,
    pub(crate) problems: Vec<ConfigProblem>,
    /// Remarks for the user that are no problems.
    pub(super) notes: Vec<String>,
    /// Codes whose IDs may have equal texts.
    pub(super) equal_texts: Vec<EqualTexts>,
    /// The `.env` file, if it set anything.
    pub(super) dot_env: Option<PathBuf>,
    place: Place,
    /// Values by their whole names where a default depends on other keys.
    resolved: BTreeMap<String, String>,
    /// The keys that `raindrop config` prints.
    pub(super) effective: Vec<EffectiveSetting>,
}

/// A value that a layer gives.
#[derive(Clone, Debug)]
pub(super) struct Given {
    pub(super) value: ValueKind,
    pub(super) source: String,
}

/// The part of the configuration in which keys are looked up.
#[derive(Clone, Debug, Default)]
pub(crate) enum Place {
    /// The top level: the service, and the namespace `default`.
    #[default]
    Top,
    /// A namespace: its own keys, and the keys that it inherits from the top level.
    Namespace(String),
    /// An entry of a list, such as `[[code]]`: the prefix of its keys, and its source.
    Entry(String, String),
}

impl Place {
    /// Returns the place of a namespace's keys.
    pub(super) fn of_namespace(name: &str) -> Self {
        if name == DEFAULT_NAMESPACE { Self::Top } else { Self::Namespace(name.to_owned()) }
    }
}

impl Reader {
    /// Returns the names of the namespaces, `default` first, and records invalid ones as problems.
    pub(super) fn namespace_names(&mut self) -> Vec<String> {
        let mut names = vec![DEFAULT_NAMESPACE.to_owned()];
        for (name, source) in std::mem::take(&mut self.namespaces) {
            let allowed = if name == DEFAULT_NAMESPACE {
                "left out: the keys at the top level are those of default".to_owned()
            } else if is_valid_namespace(&name) {
                names.push(name);
                continue;
            } else {
                format!("renamed to match {NAMESPACE_PATTERN}")
            };
            self.push(format!("{NAMESPACES}.{name}"), "{…}".to_owned(), source, allowed);
        }
        names
    }

    /// Looks up keys in this place from now on.
    pub(crate) fn enter(&mut self, place: Place) {
        self.place = place;
    }

    /// Returns whether the place is a namespace other than `default`.
    pub(super) fn is_in_namespace(&self) -> bool {
        matches!(self.place, Place::Namespace(_))
    }

    /// Returns the full name of a key, with the place that is being read.
    fn full_name(&self, key: &str) -> String {
        match &self.place {
            Place::Namespace(name) if !is_of_service(key) => {
                format!("{NAMESPACES}.{name}.{key}")
            }
            Place::Entry(keys, _) => format!("{keys}{key}"),
            _ => key.to_owned(),
        }
    }

    fn find(&self, key: &str) -> Option<&Given> {
        let given = self.given.get(&self.full_name(key));
        given.or_else(|| self.given.get(key).filter(|_| self.may_inherit(key)))
    }

    fn may_inherit(&self, key: &str) -> bool {
        self.is_in_namespace() && is_inherited(key)
    }

    pub(crate) fn is_given(&self, key: &str) -> bool {
        self.find(key).is_some()
    }

    /// Returns whether a layer gives this key in the place itself, so that it is not inherited.
    pub(super) fn is_own(&self, key: &str) -> bool {
        self.given.contains_key(&self.full_name(key))
    }

    /// Returns the value of a key as it may be shown, and its source.
    pub(super) fn shown(&self, key: &str) -> (String, String) {
        match self.find(key) {
            Some(Given { value, source }) if key == "store.url" => {
                (StoreUrl::new(text_of(value)).to_string(), source.clone())
            }
            // The hash of a token: an operator may have put the token itself there.
            Some(Given { source, .. }) if matches!(key, "hash" | "certificate") => {
                ("***".to_owned(), source.clone())
            }
            Some(Given { value, source }) => (display(value), source.clone()),
            None => (default_of(key).unwrap_or_default().to_owned(), DEFAULT.to_owned()),
        }
    }

    /// Records the value in effect of a key whose default depends on other keys.
    pub(super) fn resolve(&mut self, key: &str, value: impl ToString) {
        self.resolved.insert(self.full_name(key), value.to_string());
    }

    /// Adds a key to those that `raindrop config` prints; `default` is the source of its default.
    pub(super) fn show(&mut self, key: &str, default: &str) {
        let (value, source) = self.shown(key);
        let source = if source == DEFAULT { default.to_owned() } else { source };
        let key = self.full_name(key);
        let value = self.resolved.remove(&key).unwrap_or(value);
        self.effective.push(EffectiveSetting { key, value, source });
    }

    /// Returns whether this key, or a key of this section, has a problem in the place that is being
    /// read or at the top level, from which it inherits.
    pub(super) fn is_bad(&self, key: &str) -> bool {
        let own = self.full_name(key);
        let is_meant = |bad: &str, name: &str| {
            bad.strip_prefix(name).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
        };
        self.problems.iter().any(|problem| {
            let ConfigProblem::Value { key: bad, .. } = problem else { return false };
            let is_inherited = || self.may_inherit(bad) && !self.is_own(bad);
            is_meant(bad, &own) || (is_meant(bad, key) && is_inherited())
        })
    }

    /// Records that the value of this key cannot be used.
    pub(crate) fn reject(&mut self, key: &str, allowed: impl Into<String>) {
        let (value, source) = self.shown(key);
        self.note(key, value, source, allowed.into());
    }

    /// Records a problem for each of these keys that has a value.
    pub(super) fn reject_given(&mut self, keys: &[&str], allowed: &str) {
        for key in keys {
            if self.is_given(key) {
                self.reject(key, allowed);
            }
        }
    }

    /// Records a problem if a relation between two keys does not hold, unless one of them is bad
    /// anyway.
    pub(super) fn relate(&mut self, key: &str, other: &str, holds: bool, allowed: &str) {
        if !holds && !self.is_bad(key) && !self.is_bad(other) {
            let (value, source) = self.shown(other);
            self.reject(key, format!("{allowed} {other} ({value}, {source})"));
        }
    }

    /// Records violations that the core found, except for keys that are bad already.
    pub(super) fn violations(&mut self, violations: Violations) {
        for Violation { key, value, allowed } in violations.0 {
            if !self.is_bad(&key) {
                // The value as it was written; a preset has other defaults than the key table.
                let (shown, source) = self.shown(&key);
                let is_of_preset = source == DEFAULT && key.starts_with("layout.");
                let value = if shown.is_empty() || is_of_preset { value } else { shown };
                self.note(&key, value, source, allowed);
            }
        }
    }

    fn note(&mut self, key: &str, value: String, source: String, allowed: String) {
        // The problem of an inherited value is recorded at the top level.
        if self.may_inherit(key) && !self.is_own(key) && self.is_bad(key) {
            return;
        }
        let source = if let Place::Entry(_, entry) = &self.place { entry.clone() } else { source };
        self.push(self.full_name(key), value, source, allowed);
    }

    /// Records a problem of the key with this full name.
    pub(crate) fn push(&mut self, key: String, value: String, source: String, allowed: String) {
        let value = if value.is_empty() { "nothing".into() } else { value };
        self.problems.push(ConfigProblem::Value { key, value, source, allowed });
    }

    /// Returns the value of a key, if a layer gives one and it can be used.
    pub(crate) fn given<T>(
        &mut self,
        key: &str,
        allowed: impl Display,
        parse: impl Fn(&str) -> Option<T>,
    ) -> Option<T> {
        let value = match &self.find(key)?.value {
            ValueKind::Array(_) => None,
            kind => parse(text_of(kind).trim()),
        };
        if self.is_bad(key) {
            return None;
        }
        if value.is_none() {
            self.reject(key, allowed.to_string());
        }
        value
    }

    /// Returns the value of a key, or its default.
    pub(super) fn value<T>(
        &mut self,
        key: &str,
        allowed: impl Display,
        parse: impl Fn(&str) -> Option<T>,
    ) -> T {
        self.given(key, allowed, &parse)
            .or_else(|| default_of(key).and_then(parse))
            .expect("every default of the key table can be read")
    }

    pub(crate) fn text(&mut self, key: &str) -> Option<String> {
        self.given(key, "a string", |text| Some(text.to_owned()))
    }

    pub(super) fn boolean(&mut self, key: &str) -> bool {
        self.value(key, "true or false", |text| text.parse().ok())
    }

    /// Returns a whole number in the key's range, or its default.
    pub(super) fn number<T: TryFrom<u64>>(&mut self, key: &str) -> T {
        let (allowed, parse) = in_range(key);
        self.value(key, allowed, parse)
    }

    /// Returns a whole number in the key's range, if a layer gives one.
    pub(super) fn given_in_range<T: TryFrom<u64>>(&mut self, key: &str) -> Option<T> {
        let (allowed, parse) = in_range(key);
        self.given(key, allowed, parse)
    }

    /// Returns a whole number, if a layer gives one. The caller checks its range.
    pub(super) fn given_number<T: FromStr>(&mut self, key: &str) -> Option<T> {
        self.given(key, "a whole number", whole_number)
    }

    /// Notes that every user of this machine may read the file of a secret.
    pub(super) fn note_readable(&mut self, key: &'static str, path: &Path) {
        self.notes.extend(readable_by_all(key, path));
    }

    /// Replaces a whole number if a layer gives one, and records which one is in effect.
    pub(super) fn update_number<T: Copy + FromStr + ToString>(&mut self, key: &str, value: &mut T) {
        *value = self.given_number(key).unwrap_or(*value);
        self.resolve(key, *value);
    }

    /// Returns a duration in the key's range, or its default.
    pub(super) fn duration(&mut self, key: &str) -> Duration {
        let Form::Duration { shortest, longest } = form_of(key) else {
            unreachable!("{key} is a duration in the key table")
        };
        let (low, high) = (duration::format(shortest), duration::format(longest));
        let allowed = format!("{}, {low} to {high}", duration::FORM);
        let range = shortest..=longest;
        self.value(key, allowed, |text| duration::parse(text).filter(|value| range.contains(value)))
    }

    /// Returns a size in bytes in the key's range, if a layer gives one.
    pub(super) fn given_size(&mut self, key: &str) -> Option<u64> {
        let Form::Size { least, most } = form_of(key) else {
            unreachable!("{key} is a size in the key table")
        };
        let (low, high) = (size::format(least), size::format(most));
        let range = least..=most;
        let allowed = format!("{}, {low} to {high}", size::FORM);
        self.given(key, allowed, |text| size::parse(text).filter(|value| range.contains(value)))
    }

    /// Returns a list: an array, or one string of comma-separated items.
    pub(crate) fn list(&self, key: &str) -> Option<Vec<String>> {
        let text = match self.find(key) {
            Some(Given { value: ValueKind::Array(items), .. }) => {
                return Some(items.iter().map(|item| text_of(&item.kind)).collect());
            }
            Some(given) => text_of(&given.value),
            None => default_of(key)?.to_owned(),
        };
        let items = text.split(',').map(|item| item.trim().to_owned());
        Some(items.filter(|item| !item.is_empty()).collect())
    }
}

fn default_of(key: &str) -> Option<&'static str> {
    Key::by_name(key).and_then(|key| key.default)
}

fn form_of(key: &str) -> Form {
    Key::by_name(key).expect("a key of the table").form
}

/// Returns the range of a number in the key table, for error messages, and what reads one in it.
fn in_range<T: TryFrom<u64>>(key: &str) -> (String, impl Fn(&str) -> Option<T>) {
    let Form::Number { least, most } = form_of(key) else {
        unreachable!("{key} is a number in the key table")
    };
    let parse = move |text: &str| {
        let number = whole_number(text).filter(|number| (least..=most).contains(number))?;
        T::try_from(number).ok()
    };
    (format!("{least} to {most}"), parse)
}

fn whole_number<T: FromStr>(text: &str) -> Option<T> {
    // `parse` alone would accept "+5".
    text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok()).flatten()
}
