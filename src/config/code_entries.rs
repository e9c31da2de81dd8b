//! Reads the `[[code]]` entries.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
};

use super::{
    codes::{CodeConfig, Codes},
    equal_texts::equal_texts,
    keys::SEGMENT_CODE_FIELDS,
    namespace::{Mode, NamespaceRead},
    reader::{DEFAULT, Place, Reader},
};
use crate::core::{
    code::series_of_name,
    encoding::{Encoder, Encoding},
    segment::{SegmentSpec, SpecChange, TextForm},
};

const PREFIX_FORM: &str =
    "1 to 32 of A-Z a-z 0-9 . _ : -, a letter first and one of . _ : - last, such as ORD-";
const TYPEID_PREFIX_FORM: &str =
    "1 to 31 of a-z and _, a letter first and last, such as ord, since encoding is typeid";

/// Reads every entry, and adds the codes of segment namespaces to them.
pub(super) fn read(reader: &mut Reader, namespaces: &mut [NamespaceRead]) -> Codes {
    let known: Vec<String> = namespaces.iter().map(|read| read.config.name.clone()).collect();
    let mut owners: HashMap<Arc<str>, CodeConfig> = HashMap::new();
    let mut codes = Vec::new();
    for place in std::mem::take(&mut reader.codes) {
        reader.enter(place);
        let name = reader.text("name");
        let position = |text: &str| known.iter().position(|name| name == text);
        let namespace = reader.given("namespace", known.join(" or "), position);
        let namespace = if reader.is_given("namespace") { namespace } else { Some(0) };
        let names = Encoding::ALL.map(Encoding::name).join(", ");
        let encoding = reader.given("encoding", names, Encoding::by_name).unwrap_or_default();
        let prefix = read_prefix(reader, encoding);
        let (Some(name), Some(namespace)) = (name, namespace) else { continue };
        let NamespaceRead { config, allow, spec, step_sources } = &mut namespaces[namespace];
        if allow.as_ref().is_some_and(|allow| !allow.contains(&name)) {
            reader.reject("name", format!("one of codes.allow of namespace {:?}", config.name));
        }
        let code = CodeConfig { name, namespace: config.name.clone(), prefix, encoding };
        if let Some(prefix) = &code.prefix {
            let first = owners.entry(prefix.clone()).or_insert_with(|| code.clone());
            // A prefix identifies the namespace of an ID.
            if first.namespace != code.namespace {
                let CodeConfig { name, namespace, .. } = first;
                let taken = format!("another one: code {name:?} of namespace {namespace:?} has it");
                reader.reject("prefix", taken);
            }
        }
        reader.resolve("namespace", &code.namespace);
        reader.show("namespace", DEFAULT);
        reader.resolve("encoding", encoding);
        reader.show("encoding", DEFAULT);
        if let Some(prefix) = &code.prefix {
            reader.resolve("prefix", prefix);
        }
        reader.show("prefix", DEFAULT);
        let layout = match &config.mode {
            Mode::Snowflake { keeper, .. } => Some(&keeper.layout),
            Mode::Segment { .. } => None,
        };
        if let Err(error) = Encoder::new(encoding, false, layout) {
            let namespace = &code.namespace;
            reader.reject("encoding", format!("another one in namespace {namespace:?}: {error}"));
        }
        match &mut config.mode {
            Mode::Segment { keeper } => {
                let series = series_of_name(&code.name);
                let spec = read_spec(reader, *spec, step_sources, series.is_some());
                match series {
                    Some(series) => keeper.series.insert(series.to_owned(), spec),
                    None => keeper.codes.insert(code.name.clone(), spec),
                };
            }
            Mode::Snowflake { .. } => {
                let namespace = &code.namespace;
                if series_of_name(&code.name).is_some() {
                    let allowed = format!(
                        "a code, not a series: namespace {namespace:?} is not in segment mode"
                    );
                    reader.reject("name", allowed);
                }
                let allowed = format!("left out: namespace {namespace:?} is not in segment mode");
                reader.reject_given(&SEGMENT_CODE_FIELDS, &allowed);
            }
        }
        codes.push(code);
    }
    complete_segments(reader, namespaces, &codes);
    reader.equal_texts = equal_texts(namespaces, &codes);
    Codes::new(codes)
}

/// Reads the prefix of a code whose IDs are written in this encoding. The `_` after the prefix of a
/// TypeID is added if it is missing.
fn read_prefix(reader: &mut Reader, encoding: Encoding) -> Option<Arc<str>> {
    if encoding != Encoding::Typeid {
        let read = |text: &str| is_valid_prefix(text).then(|| text.into());
        return reader.given("prefix", PREFIX_FORM, read);
    }
    reader.given("prefix", TYPEID_PREFIX_FORM, |text| {
        let prefix = if text.ends_with('_') { text.to_owned() } else { format!("{text}_") };
        let is_valid = is_valid_prefix(&prefix) && encoding.check_prefix(&prefix).is_ok();
        is_valid.then(|| prefix.into())
    })
}

/// Reads the settings of a code, or of a series, of a segment namespace.
fn read_spec(
    reader: &mut Reader,
    defaults: SegmentSpec,
    [min_source, max_source]: &[String; 2],
    is_series: bool,
) -> SegmentSpec {
    let text = reader.given("text", TextForm::ALLOWED, |text| text.parse().ok());
    let change = SpecChange {
        start: reader.given_number("start"),
        min_step: reader.given_number("min_step"),
        max_step: reader.given_number("max_step"),
        increment: reader.given_number("increment"),
        remainder: reader.given_number("remainder"),
        max: None,
        js_safe: reader.given("js_safe", "true or false", |text| text.parse().ok()),
        // The form of a series is that of no code.
        text: text.filter(|_| !is_series),
        failover_gap: reader.given_number("failover_gap"),
        strict: reader.given("strict", "true or false", |text| text.parse().ok()),
    };
    let mut spec = defaults;
    let checked = change.apply(&mut spec);
    spec.text = text;
    for (field, value, source) in [
        ("start", spec.start, DEFAULT),
        ("min_step", spec.min_step, min_source),
        ("max_step", spec.max_step, max_source),
        ("increment", spec.increment, DEFAULT),
        ("remainder", spec.remainder, DEFAULT),
    ] {
        reader.resolve(field, value);
        reader.show(field, source);
    }
    reader.resolve("js_safe", change.js_safe == Some(true));
    reader.show("js_safe", DEFAULT);
    reader.resolve("strict", spec.strict);
    reader.show("strict", DEFAULT);
    if let Some(text) = spec.text {
        reader.resolve("text", text);
        reader.reject_given(&["prefix", "encoding"], "left out beside text");
    }
    reader.show("text", DEFAULT);
    if let Some(gap) = spec.failover_gap {
        reader.resolve("failover_gap", gap);
    }
    reader.show("failover_gap", DEFAULT);
    if let Err(violations) = checked {
        reader.violations(violations);
    }
    spec
}

/// Adds the codes that `codes.allow` lists, and checks that there are not too many.
fn complete_segments(
    reader: &mut Reader,
    namespaces: &mut [NamespaceRead],
    entries: &[CodeConfig],
) {
    let with_entry: HashSet<&str> = entries.iter().map(|code| code.name.as_str()).collect();
    for NamespaceRead { config, allow, spec, .. } in namespaces {
        reader.enter(Place::of_namespace(&config.name));
        // A code with an entry belongs to the namespace that the entry names.
        let listed = allow.iter().flatten().filter(|code| !with_entry.contains(code.as_str()));
        if let Some(series) = listed.clone().find(|name| series_of_name(name).is_some()) {
            let allowed = format!("without {series:?}: a series needs a [[code]] entry");
            reader.reject("codes.allow", allowed);
            continue;
        }
        let Mode::Segment { keeper } = &mut config.mode else { continue };
        // A listed member of a series is created on demand, with the settings of the series.
        let others: Vec<_> = listed.filter(|code| keeper.member_spec(code).is_none()).collect();
        keeper.codes.extend(others.into_iter().map(|code| (code.clone(), *spec)));
        let count = keeper.codes.len();
        if count > keeper.codes_max && !reader.is_bad("codes.max") {
            reader.reject("codes.max", format!("at least {count}, the number of listed codes"));
        }
    }
    reader.enter(Place::Top);
}

/// Returns whether a text may be a prefix. It begins with a letter, so that it is no decimal
/// number, and ends with a separator, so that it cannot run into the digits of an ID.
fn is_valid_prefix(text: &str) -> bool {
    let is_separator = |byte: u8| b"._:-".contains(&byte);
    text.len() <= 32
        && text.starts_with(|first: char| first.is_ascii_alphabetic())
        && text.bytes().last().is_some_and(is_separator)
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || is_separator(byte))
}
