//! Reads typed values from what was given, and notes every problem.

use std::{fmt::Display, ops::RangeInclusive, str::FromStr, time::Duration};

use super::{
    ConfigProblem, Source, duration,
    keys::{Key, Scope},
    layers::{CodeEntry, Given, GivenValue, Layers},
    secret::hide_password,
};
use crate::core::{namespace::DEFAULT_NAMESPACE, violation::Violation};

/// Reads typed values. A bad value is noted and replaced by the default, so that reading goes on.
///
/// Keys are named as in the key table. While a namespace is read they are that namespace's: given
/// by itself, or else at the top where the top is every namespace's default.
#[derive(Debug)]
pub(super) struct Reader {
    layers: Layers,
    namespace: Option<String>,
}

impl Reader {
    pub(super) fn new(layers: Layers) -> Self {
        Self { layers, namespace: None }
    }

    /// The names of the namespaces beside `default`.
    pub(super) fn namespaces(&self) -> Vec<String> {
        let usable = self.layers.namespaces.iter().filter(|(_, usable)| **usable);
        usable.map(|(name, _)| name.clone()).collect()
    }

    /// The entries of `[[code]]`.
    pub(super) fn codes(&mut self) -> Vec<CodeEntry> {
        std::mem::take(&mut self.layers.codes)
    }

    /// Reads this namespace from now on; none means the service, and `default`.
    pub(super) fn enter(&mut self, namespace: Option<&str>) {
        self.namespace = namespace.filter(|name| *name != DEFAULT_NAMESPACE).map(str::to_owned);
    }

    pub(super) fn into_problems(self) -> Vec<ConfigProblem> {
        self.layers.problems
    }

    /// Whether another namespace than `default` is read.
    pub(super) fn is_in_namespace(&self) -> bool {
        self.namespace.is_some()
    }

    /// The whole name of a key, with the namespace that is read.
    pub(super) fn full_name(&self, key: &str) -> String {
        match &self.namespace {
            Some(namespace) if Scope::of(key) != Scope::Service => {
                format!("namespaces.{namespace}.{key}")
            }
            _ => key.to_owned(),
        }
    }

    fn find(&self, key: &str) -> Option<&Given> {
        let given = self.layers.given.get(&self.full_name(key));
        given.or_else(|| self.layers.given.get(key).filter(|_| self.may_inherit(key)))
    }

    fn may_inherit(&self, key: &str) -> bool {
        self.namespace.is_some() && Scope::of(key) == Scope::Inherited
    }

    pub(super) fn is_given(&self, key: &str) -> bool {
        self.find(key).is_some()
    }

    /// Whether the namespace that is read gives this key by itself.
    pub(super) fn is_own(&self, key: &str) -> bool {
        self.layers.given.contains_key(&self.full_name(key))
    }

    /// The source of a key and its value as it may be shown.
    pub(super) fn shown(&self, key: &str) -> (String, Source) {
        match self.find(key) {
            Some(given) => (show(key, &given.value), given.source.clone()),
            None => (default_of(key).unwrap_or_default().to_owned(), Source::Default),
        }
    }

    /// Whether a problem was noted for this key, or for a key of this section (`layout.`), in the
    /// namespace that is read or where it inherits from.
    pub(super) fn is_bad(&self, key_or_section: &str) -> bool {
        let asked = |key: &str| {
            key == key_or_section
                || (key_or_section.ends_with('.') && format!("{key}.").starts_with(key_or_section))
        };
        let own = self.full_name(key_or_section);
        let prefix = own.strip_suffix(key_or_section).unwrap_or_default();
        self.layers.problems.iter().any(|problem| {
            let ConfigProblem::Value { key: bad, .. } = problem else { return false };
            match bad.strip_prefix(prefix) {
                Some(key) => asked(key),
                None => asked(bad) && self.may_inherit(bad) && !self.is_own(bad),
            }
        })
    }

    /// Notes that the value of this key cannot be used.
    pub(super) fn reject(&mut self, key: &str, allowed: impl Into<String>) {
        let (value, source) = self.shown(key);
        let value = if value.is_empty() { "nothing".into() } else { value };
        self.note(key, value, source, allowed.into());
    }

    /// Checks a relation between two keys, unless one of them is bad by itself.
    pub(super) fn relate(&mut self, key: &str, other: &str, holds: bool, allowed: &str) {
        if !holds && !self.is_bad(key) && !self.is_bad(other) {
            let (value, source) = self.shown(other);
            self.reject(key, format!("{allowed} {other} ({value}, {source})"));
        }
    }

    /// Notes a violation that the core found.
    pub(super) fn violation(&mut self, violation: Violation) {
        if !self.is_bad(&violation.key) {
            // As it was written, where it was; a preset has other defaults than the key table.
            let (shown, source) = self.shown(&violation.key);
            let is_presets = source == Source::Default && violation.key.starts_with("layout.");
            let value = if shown.is_empty() || is_presets { violation.value } else { shown };
            self.note(&violation.key, value, source, violation.allowed);
        }
    }

    fn note(&mut self, key: &str, value: String, source: Source, allowed: String) {
        // What is wrong at the top was said there.
        if self.may_inherit(key) && !self.is_own(key) && self.is_bad(key) {
            return;
        }
        let key = self.full_name(key);
        self.push(ConfigProblem::Value { key, value, source, allowed });
    }

    pub(super) fn push(&mut self, problem: ConfigProblem) {
        self.layers.problems.push(problem);
    }

    /// A key's value if it was given and can be used.
    pub(super) fn given<T>(
        &mut self,
        key: &str,
        allowed: impl Display,
        parse: impl Fn(&str) -> Option<T>,
    ) -> Option<T> {
        let value = match self.find(key) {
            Some(Given { value: GivenValue::One(text), .. }) => parse(text.trim()),
            Some(Given { value: GivenValue::Many(_), .. }) => None,
            None => return None,
        };
        if value.is_none() {
            self.reject(key, allowed.to_string());
        }
        value
    }

    /// A key's value, or its default.
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

    pub(super) fn text(&mut self, key: &str) -> Option<String> {
        self.given(key, "a text", |text| Some(text.to_owned()))
    }

    pub(super) fn boolean(&mut self, key: &str) -> bool {
        self.value(key, "true or false", |text| text.parse().ok())
    }

    pub(super) fn number<T>(&mut self, key: &str, range: RangeInclusive<T>) -> T
    where
        T: FromStr + PartialOrd + Display,
    {
        let allowed = format!("{} to {}", range.start(), range.end());
        self.value(key, allowed, |text| whole_number(text).filter(|number| range.contains(number)))
    }

    /// A whole number whose range is checked elsewhere.
    pub(super) fn given_number<T: FromStr>(&mut self, key: &str) -> Option<T> {
        self.given(key, "a whole number", whole_number)
    }

    pub(super) fn duration(&mut self, key: &str, range: RangeInclusive<Duration>) -> Duration {
        let (low, high) = (duration::format(*range.start()), duration::format(*range.end()));
        let allowed = format!("{}, {low} to {high}", duration::FORM);
        self.value(key, allowed, |text| duration::parse(text).filter(|value| range.contains(value)))
    }

    /// A list, or one text of comma-separated items, as the environment gives it.
    pub(super) fn list(&self, key: &str) -> Option<Vec<String>> {
        let split = |text: &str| {
            let items = text.split(',').map(|item| item.trim().to_owned());
            items.filter(|item| !item.is_empty()).collect()
        };
        match self.find(key).map(|given| &given.value) {
            Some(GivenValue::Many(items)) => Some(items.clone()),
            Some(GivenValue::One(text)) => Some(split(text)),
            None => default_of(key).map(split),
        }
    }
}

fn default_of(key: &str) -> Option<&'static str> {
    Key::by_name(key).and_then(|key| key.default)
}

pub(super) fn whole_number<T: FromStr>(text: &str) -> Option<T> {
    // `parse` alone would take "+5".
    text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok()).flatten()
}

fn show(key: &str, value: &GivenValue) -> String {
    match value {
        GivenValue::One(text) if key == "store.url" => hide_password(text),
        GivenValue::Many(items) if key == "store.url" => format!("a list of {}", items.len()),
        value => value.to_string(),
    }
}
