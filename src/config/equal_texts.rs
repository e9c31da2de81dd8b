//! Finds the codes of the configuration whose IDs may have equal texts.
//!
//! Codes are grouped by their form, because a service with a code for each tenant often gives all
//! of them the same one. Forms are compared only if the text before the number of one begins with
//! that of the other, since all their texts would differ otherwise.

use std::{collections::BTreeMap, fmt};

use super::{
    codes::CodeConfig,
    namespace::{Mode, NamespaceRead},
};
use crate::{
    core::{code::series_of_name, segment::TextForm},
    keeper::SegmentSettings,
};

/// How many codes, and how many forms, are named.
const NAMED: usize = 3;

/// Codes whose IDs may have equal texts.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("codes {codes} may issue equal texts, as {texts}: numbers are unique for each code only")]
pub struct EqualTexts {
    /// The namespace of the first code.
    pub namespace: String,
    /// The codes, by name.
    pub codes: FirstOf<String>,
    /// How their IDs are written.
    pub texts: FirstOf<TextForm>,
}

/// The first of several, and their count.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FirstOf<T> {
    /// The first of them.
    pub first: Vec<T>,
    /// How many there are.
    pub count: usize,
}

impl<T> FirstOf<T> {
    fn new(all: impl IntoIterator<Item = T>) -> Self {
        let mut all = all.into_iter();
        let first: Vec<T> = all.by_ref().take(NAMED).collect();
        let count = first.len() + all.count();
        Self { first, count }
    }
}

/// Writes the first ones, and how many others there are, such as `a, b, c and 7 more`.
impl<T: fmt::Display> fmt::Display for FirstOf<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let named: Vec<String> = self.first.iter().map(ToString::to_string).collect();
        match (self.count - named.len(), named.split_last()) {
            (0, Some((last, others))) if !others.is_empty() => {
                write!(f, "{} and {last}", others.join(", "))
            }
            (0, _) => f.write_str(&named.concat()),
            (more, _) => write!(f, "{} and {more} more", named.join(", ")),
        }
    }
}

/// The codes of one form, whatever it pads to.
struct Group<'a> {
    form: TextForm,
    codes: Vec<&'a CodeConfig>,
    /// Whether one of the codes has a form of its own. Codes with equal prefixes alone are one
    /// namespace's, whose IDs are unique or counted by code.
    has_form: bool,
    /// Whether one of them is a series whose members all have this form.
    has_series: bool,
}

/// Returns the codes whose IDs may have equal texts, of which one at least has a form of texts: one
/// item for each form, with the codes of other forms that begin with a longer text.
pub(super) fn equal_texts(namespaces: &[NamespaceRead], codes: &[CodeConfig]) -> Vec<EqualTexts> {
    let groups = groups(namespaces, codes);
    let mut found = Vec::new();
    for (index, group) in groups.iter().enumerate() {
        let begin = group.form.begin();
        let may_equal = |other: &&Group<'_>| {
            (group.has_form || other.has_form) && group.form.may_equal(&other.form)
        };
        // The groups are sorted by this text. It begins every text, so one form's begins the other's.
        let others = groups[index + 1..]
            .iter()
            .take_while(|other| other.form.begin().starts_with(begin))
            .filter(may_equal);
        let equal: Vec<&Group<'_>> = std::iter::once(group).chain(others).collect();
        let is_one = group.codes.len() == 1 && !group.has_series;
        if equal.len() == 1 && (!group.has_form || is_one) {
            continue;
        }
        let mut codes: Vec<&CodeConfig> =
            equal.iter().flat_map(|group| group.codes.iter().copied()).collect();
        codes.sort_unstable_by(|one, other| one.name.cmp(&other.name));
        found.push(EqualTexts {
            namespace: codes[0].namespace.clone(),
            codes: FirstOf::new(codes.iter().map(|code| code.name.clone())),
            texts: FirstOf::new(equal.iter().map(|group| group.form)),
        });
    }
    found
}

/// Returns the codes by their form, sorted by the text that begins all of theirs.
fn groups<'a>(namespaces: &[NamespaceRead], codes: &'a [CodeConfig]) -> Vec<Group<'a>> {
    let segments: BTreeMap<&str, &SegmentSettings> = namespaces
        .iter()
        .filter_map(|NamespaceRead { config, .. }| match &config.mode {
            Mode::Segment { keeper } => Some((config.name.as_str(), keeper)),
            Mode::Snowflake { .. } => None,
        })
        .collect();
    let mut groups: BTreeMap<(String, String), Group<'a>> = BTreeMap::new();
    for code in codes {
        let series = series_of_name(&code.name);
        let own = segments.get(code.namespace.as_str()).and_then(|settings| match series {
            Some(series) => settings.series.get(series)?.text,
            None => settings.codes.get(&code.name)?.text,
        });
        let by_prefix = || format!("{}{{n}}", code.prefix.as_ref()?).parse().ok();
        let Some(form) = own.or_else(by_prefix) else { continue };
        let group =
            groups.entry((form.begin().to_owned(), form.unpadded().to_string())).or_insert_with(
                || Group { form, codes: Vec::new(), has_form: false, has_series: false },
            );
        group.codes.push(code);
        group.has_form |= own.is_some();
        group.has_series |= series.is_some() && !form.has_rest();
    }
    groups.into_values().collect()
}
