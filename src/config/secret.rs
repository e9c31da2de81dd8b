//! Passwords that are put into store addresses.

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

const ESCAPED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// Puts a password into an address; `None` when it has one already, or no user.
pub(super) fn with_password(url: &str, password: &str) -> Option<String> {
    let (scheme, rest) = url.split_once("://")?;
    let (user, address) = rest.split_once('@')?;
    if user.is_empty() || user.contains(':') || address.contains('@') {
        return None;
    }
    Some(format!("{scheme}://{user}:{}@{address}", percent_encode(password)))
}

/// Escapes a part of an address: every byte except letters, digits and `-._~`.
pub(crate) fn percent_encode(text: &str) -> String {
    utf8_percent_encode(text, ESCAPED).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_inserted_password_is_escaped() {
        assert_eq!(
            with_password("mysql://root@db/ids", "p@ss:w/rd").as_deref(),
            Some("mysql://root:p%40ss%3Aw%2Frd@db/ids")
        );
        for url in ["mysql://root:x@db/ids", "mysql://db/ids", "sqlite://raindrop.db", "memory:"] {
            assert_eq!(with_password(url, "x"), None, "{url}");
        }
    }
}
