//! Codes: the client's names for what IDs are for.

/// The pattern of codes, for error messages.
pub const CODE_PATTERN: &str = "[A-Za-z0-9][A-Za-z0-9._:-]{0,63}";

/// Returns whether a text is a valid code: 1 to 64 characters that match [`CODE_PATTERN`].
pub fn is_valid_code(text: &str) -> bool {
    let bytes = text.as_bytes();
    let Some((first, rest)) = bytes.split_first() else { return false };
    bytes.len() <= 64
        && first.is_ascii_alphanumeric()
        && rest.iter().all(|byte| byte.is_ascii_alphanumeric() || b"._:-".contains(byte))
}

/// Returns the smallest text above `name` that can be a code: `name` and the smallest character of
/// codes.
pub fn successor(name: &str) -> String {
    format!("{name}-")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_follow_the_pattern() {
        let longest = "a".repeat(64);
        for code in ["a", "0", "order", "Order.v2:eu-west_1", &longest] {
            assert!(is_valid_code(code), "{code:?}");
        }
        let too_long = "a".repeat(65);
        for code in ["", ".a", "-a", "bad code", "a/b", "ö", "_a", "a\0", &too_long] {
            assert!(!is_valid_code(code), "{code:?}");
        }
    }

    #[test]
    fn no_code_is_between_a_name_and_its_successor() {
        let successor = successor("a");
        for code in (0..=127_u8).map(|byte| format!("a{}", char::from(byte))) {
            assert!(!is_valid_code(&code) || code >= successor, "{code:?}");
        }
        assert!(is_valid_code(&successor));
    }
}
