//! Namespaces: sets of codes with one layout, or one way to count.

/// The namespace of requests that name none.
pub const DEFAULT_NAMESPACE: &str = "default";

/// What a namespace may be named, for error messages.
pub const NAMESPACE_PATTERN: &str = "[a-z][a-z0-9_]{0,31}";

/// Whether a namespace may have this name: 1 to 32 characters of [`NAMESPACE_PATTERN`].
pub fn is_valid_namespace(name: &str) -> bool {
    let rest = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_';
    (1..=32).contains(&name.len())
        && name.starts_with(|first: char| first.is_ascii_lowercase())
        && name.bytes().all(rest)
}
