//! Codes: the client's names for what IDs are for.
//!
//! `invoice:*` is the name of a series: the codes `invoice:paris`, `invoice:2025` and so on, its
//! members, which have their settings in common. A `*` is in no code, so a series is never taken for
//! a code. What follows the last `:` of a member has no separator, so a code is a member of one
//! series at most.

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

/// What follows the common beginning of a series in its name.
const ANY: &str = ":*";

/// Returns the common beginning of a series without the last `:`, such as `invoice` of `invoice:*`;
/// `None` if the text is no name of a series.
pub fn series_of_name(name: &str) -> Option<&str> {
    // One character at least is left to the members.
    name.strip_suffix(ANY).filter(|base| is_valid_code(base) && base.len() <= 62)
}

/// Returns the name of a series, such as `invoice:*` of `invoice`.
pub fn name_of_series(series: &str) -> String {
    format!("{series}{ANY}")
}

/// A code as a member of a series.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Member<'a> {
    /// The common beginning of the series, such as `invoice` of `invoice:paris`.
    pub series: &'a str,
    /// The rest of the code: letters and digits.
    pub rest: &'a str,
}

impl<'a> Member<'a> {
    /// Splits a code at its last `:`; `None` if it cannot be a member of a series.
    pub fn of(code: &'a str) -> Option<Self> {
        let (series, rest) = code.rsplit_once(':')?;
        let is_rest = !rest.is_empty() && rest.bytes().all(|byte| byte.is_ascii_alphanumeric());
        (is_rest && is_valid_code(code)).then_some(Self { series, rest })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_series_is_no_code_and_has_members() {
        let longest = format!("{}:*", "a".repeat(62));
        for (name, series) in [
            ("invoice:*", Some("invoice")),
            ("a:b.c:*", Some("a:b.c")),
            (&*longest, Some(&longest[..62])),
            ("invoice*", None),
            ("invoice:**", None),
            ("invoice:*:*", None),
            (":*", None),
            ("*", None),
            ("-a:*", None),
            (&*format!("a{longest}"), None),
        ] {
            assert_eq!(series_of_name(name), series, "{name}");
            assert!(!is_valid_code(name), "{name}");
            assert!(series.is_none_or(|series| name_of_series(series) == name), "{name}");
        }
    }

    #[test]
    fn a_code_is_a_member_of_one_series_at_most() {
        let member = |series, rest| Some(Member { series, rest });
        let longest = format!("{}:1", "a".repeat(62));
        for (code, expected) in [
            ("invoice:paris", member("invoice", "paris")),
            ("invoice:2025", member("invoice", "2025")),
            ("a:b:C3", member("a:b", "C3")),
            (&*longest, member(&longest[..62], "1")),
            ("invoice", None),
            ("invoice:", None),
            ("invoice:*", None),
            ("invoice:saint-denis", None),
            ("invoice:a.b", None),
            (":paris", None),
            (&*format!("a{longest}"), None),
        ] {
            assert_eq!(Member::of(code), expected, "{code}");
        }
    }

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
