//! Puts passwords into store addresses, and masks tokens that stand in the wrong place.

use std::borrow::Cow;

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

const ESCAPED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// Puts a password into an address. Returns `None` if the address already has one, or has no user.
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

/// The prefix of every token of `raindrop token`, by which scanners find leaked tokens.
pub(crate) const TOKEN_PREFIX: &str = "raindrop_";

/// The smallest number of hexadecimal digits after the prefix of a token.
const TOKEN_DIGITS: usize = 16;

/// Replaces tokens of `raindrop token` in a text by `raindrop_***`. An operator may have put one in
/// the place of a name, a code or a key by mistake.
pub(crate) fn mask_tokens(text: &str) -> Cow<'_, str> {
    let is_no_digit = |c: char| !c.is_ascii_hexdigit();
    let is_prefix = |bytes: &[u8]| bytes.eq_ignore_ascii_case(TOKEN_PREFIX.as_bytes());
    let mut masked = String::new();
    let mut rest = text;
    while let Some(at) = rest.as_bytes().windows(TOKEN_PREFIX.len()).position(is_prefix) {
        let (before, after) = rest.split_at(at + TOKEN_PREFIX.len());
        masked.push_str(before);
        let digits = after.find(is_no_digit).unwrap_or(after.len());
        rest = if digits < TOKEN_DIGITS {
            after
        } else {
            masked.push_str("***");
            &after[digits..]
        };
    }
    if masked.is_empty() { Cow::Borrowed(text) } else { Cow::Owned(masked + rest) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_masked_wherever_they_stand() {
        let token = format!("raindrop_{}", "0123456789abcdef".repeat(4));
        for (text, masked) in [
            ("soc_raindrop_worker", "soc_raindrop_worker".to_owned()),
            ("raindrop_deadbeef", "raindrop_deadbeef".to_owned()),
            (&token, "raindrop_***".to_owned()),
            (&token.to_uppercase(), "RAINDROP_***".to_owned()),
            (&token[..40], "raindrop_***".to_owned()),
            (&format!("é{token}\"{token}é"), "éraindrop_***\"raindrop_***é".to_owned()),
            (&format!("raindrop_{token}"), "raindrop_raindrop_***".to_owned()),
        ] {
            assert_eq!(mask_tokens(text), masked);
        }
    }

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
