//! Reads typed values from what was given, and notes every problem.

use std::{fmt::Display, ops::RangeInclusive, str::FromStr, time::Duration};

use super::{
    ConfigProblem, Source, duration,
    keys::Key,
    layers::{Given, GivenValue, Layers},
    secret::hide_password,
};
use crate::core::violation::Violation;

/// Reads typed values. A bad value is noted and replaced by the default, so that reading goes on.
#[derive(Debug)]
pub(super) struct Reader {
    layers: Layers,
}

impl Reader {
    pub(super) fn new(layers: Layers) -> Self {
        Self { layers }
    }

    pub(super) fn into_problems(self) -> Vec<ConfigProblem> {
        self.layers.problems
    }

    pub(super) fn is_given(&self, key: &str) -> bool {
        self.layers.given.contains_key(key)
    }

    /// The source of a key and its value as it may be shown.
    pub(super) fn shown(&self, key: &str) -> (String, Source) {
        match self.layers.given.get(key) {
            Some(given) => (show(key, &given.value), given.source.clone()),
            None => (default_of(key).unwrap_or_default().to_owned(), Source::Default),
        }
    }

    /// Whether a problem was noted for this key, or for a key of this section (`layout.`).
    pub(super) fn is_bad(&self, key_or_section: &str) -> bool {
        self.layers.problems.iter().any(|problem| match problem {
            ConfigProblem::Value { key, .. } => {
                key == key_or_section
                    || (key_or_section.ends_with('.')
                        && format!("{key}.").starts_with(key_or_section))
            }
            _ => false,
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
            // As it was written, where it was.
            let (shown, source) = self.shown(&violation.key);
            let value = if shown.is_empty() { violation.value } else { shown };
            self.note(&violation.key, value, source, violation.allowed);
        }
    }

    fn note(&mut self, key: &str, value: String, source: Source, allowed: String) {
        let key = key.to_owned();
        self.layers.problems.push(ConfigProblem::Value { key, value, source, allowed });
    }

    /// A key's value if it was given and can be used.
    pub(super) fn given<T>(
        &mut self,
        key: &str,
        allowed: impl Display,
        parse: impl Fn(&str) -> Option<T>,
    ) -> Option<T> {
        let value = match self.layers.given.get(key) {
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
        match self.layers.given.get(key).map(|given| &given.value) {
            Some(GivenValue::Many(items)) => Some(items.clone()),
            Some(GivenValue::One(text)) => Some(split(text)),
            None => default_of(key).map(split),
        }
    }
}

fn default_of(key: &str) -> Option<&'static str> {
    Key::by_name(key).and_then(|key| key.default)
}

fn whole_number<T: FromStr>(text: &str) -> Option<T> {
    // `parse` alone would take "+5".
    text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok()).flatten()
}

fn show(key: &str, value: &GivenValue) -> String {
    match value {
        GivenValue::One(text) if key == "store.url" => hide_password(text),
        GivenValue::One(text) => text.clone(),
        GivenValue::Many(items) if key == "store.url" => format!("a list of {}", items.len()),
        GivenValue::Many(items) => format!("[{}]", items.join(", ")),
    }
}
