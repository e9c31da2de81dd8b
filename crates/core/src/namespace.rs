//! Namespaces: sets of IDs that are unique in the set.

/// The namespace of requests that name none.
pub const DEFAULT_NAMESPACE: &str = "default";

/// The pattern of namespaces' names, for error messages.
pub const NAMESPACE_PATTERN: &str = "[a-z][a-z0-9_]{0,31}";

/// Returns whether a namespace may have this name: 1 to 32 characters that match
/// [`NAMESPACE_PATTERN`].
pub fn is_valid_namespace(name: &str) -> bool {
    let rest = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_';
    (1..=32).contains(&name.len())
        && name.starts_with(|first: char| first.is_ascii_lowercase())
        && name.bytes().all(rest)
}
