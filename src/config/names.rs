//! The names of keys: `lease.ttl`, and `namespaces.orders.lease.ttl` of a namespace.

use super::keys::{KEYS, Key};

/// The table of namespaces.
pub(super) const NAMESPACES: &str = "namespaces";
/// The list of codes.
pub(super) const CODES: &str = "code";

/// The namespace of a dotted name, and the rest: `orders` and `lease.ttl` of
/// `namespaces.orders.lease.ttl`.
pub(super) fn split(name: &str) -> (Option<&str>, &str) {
    match name.strip_prefix(NAMESPACES).and_then(|rest| rest.strip_prefix('.')) {
        Some(inner) => {
            let (namespace, rest) = inner.split_once('.').unwrap_or((inner, ""));
            (Some(namespace), rest)
        }
        None => (None, name),
    }
}

/// The keys of the section that an unknown key stands in, or the sections.
pub(super) fn known_beside(
    name: &str,
    namespace: Option<&str>,
    belongs: impl Fn(&Key) -> bool,
) -> Vec<String> {
    let keys = || KEYS.iter().filter(|key| belongs(key));
    let section = name.split('.').next().unwrap_or_default();
    let mut known: Vec<&str> =
        keys().filter(|key| in_section(key.name, section)).map(|key| key.name).collect();
    if known.is_empty() {
        known = keys().map(Key::section).collect();
        known.dedup();
        known.extend(namespace.is_none().then_some([NAMESPACES, CODES]).into_iter().flatten());
    }
    known.into_iter().map(str::to_owned).collect()
}

fn in_section(key: &str, section: &str) -> bool {
    key.strip_prefix(section).is_some_and(|rest| rest.starts_with('.'))
}

/// Whether a table of this name holds keys, and is no value itself.
pub(super) fn is_section(name: &str) -> bool {
    let (namespace, rest) = split(name);
    let is_whole = rest.is_empty() && namespace.is_some();
    name == NAMESPACES || is_whole || KEYS.iter().any(|key| in_section(key.name, rest))
}
