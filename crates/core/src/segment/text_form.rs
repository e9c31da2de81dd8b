//! The texts of a code's numbers, such as `INV-000017` of `INV-{n:06}`.
//!
//! A form is a list of parts, of which one is the number and every other has a fixed width. So
//! reading a text inverts writing it: the reader takes the other parts off both ends, and the digits
//! of the number are left. A digit in another part, also directly beside the number, changes nothing
//! about that. A number with more digits than the form pads to is written in full.
//!
//! The form of a series has one more part, `{*}`, which stands for what a member has behind the last
//! `:` of its name: [`TextForm::of_member`] makes the form of the member, in which that is fixed. It
//! is letters and digits, and stands between separators, so the texts of two members differ: that of
//! the shorter name has a separator where the other one has a letter or a digit.
//!
//! A form does not say which numbers there are, and does not keep the texts of two codes apart:
//! [`TextForm::may_equal`] tells whether they may be equal.

use std::{
    collections::HashSet,
    fmt::{self, Debug},
    str::FromStr,
};

use super::SegmentSpec;

/// How the numbers of a code are written.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct TextForm {
    /// The form as it was read, and its length. It has parts alone, of which one is the number.
    text: [u8; Self::LONGEST],
    length: u8,
}

/// A part of a form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part<'a> {
    /// The same text in every number.
    Fixed(&'a str),
    /// The number, with at least this many digits.
    Number { digits: u8 },
    /// In a series: what a member has behind the last `:` of its name.
    Rest,
}

/// The text of a number, but for the number itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AroundNumber {
    /// The text before the number.
    pub before: String,
    /// The text after the number.
    pub after: String,
    /// How many digits the number has at least.
    pub digits: usize,
}

/// Why a text is no form of numbers.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{} is no form of numbers: it must be {}", shown(.0), TextForm::ALLOWED)]
pub struct InvalidTextForm(String);

/// Returns a text in quotes, without what exceeds the longest form.
fn shown(text: &str) -> String {
    match text.char_indices().nth(TextForm::LONGEST) {
        Some((end, _)) => format!("{:?}…", &text[..end]),
        None => format!("{text:?}"),
    }
}

/// Why a text is not one of a form.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidNumberText {
    /// The text does not begin or end as the form does, or has no digits in between.
    #[error("{text:?} is not of the form {form}")]
    OtherForm {
        /// The text.
        text: String,
        /// The form.
        form: TextForm,
    },
    /// The number has leading zeros that the form does not write, or is above the largest number of
    /// any code.
    #[error("{text:?}: no number of the form {form} is written {digits}")]
    OtherDigits {
        /// The text.
        text: String,
        /// The form.
        form: TextForm,
        /// The digits of the text.
        digits: String,
    },
}

impl TextForm {
    /// The longest text of a form, in bytes.
    pub const LONGEST: usize = 64;
    /// The most digits to which a form pads: those of the largest number.
    pub const MOST_DIGITS: u8 = 19;
    /// The forms that are allowed, as a phrase that follows "must be".
    pub const ALLOWED: &str = "at most 64 characters: A-Z a-z 0-9 . _ : / - and one {n} (or {n:02} \
                               to {n:019} for leading zeros), such as INV-{n:06}; in a series also one {*} \
                               between separators, such as INV-{*}-{n:06}";

    /// Returns the text that begins every text of the form.
    pub fn begin(&self) -> &str {
        match self.parts().next() {
            Some(Part::Fixed(text)) => text,
            _ => "",
        }
    }

    /// Returns the form without leading zeros.
    #[must_use]
    pub fn unpadded(&self) -> Self {
        let parts = self.parts().map(|part| match part {
            Part::Number { .. } => Part::Number { digits: 1 },
            other => other,
        });
        let text: String = parts.map(|part| part.to_string()).collect();
        text.parse().expect("a form with less padding is one")
    }

    /// Returns whether the form is of a series, and not of a code.
    pub fn has_rest(&self) -> bool {
        self.parts().any(|part| part == Part::Rest)
    }

    /// Returns the form of a member of a series, whose name has this behind its last `:`; `None` if
    /// that makes it too long.
    pub fn of_member(&self, rest: &str) -> Option<Self> {
        let parts =
            self.parts().map(|part| if part == Part::Rest { Part::Fixed(rest) } else { part });
        parts.map(|part| part.to_string()).collect::<String>().parse().ok()
    }

    /// Returns what a text has around its number.
    pub fn around(&self) -> AroundNumber {
        let mut around = AroundNumber { before: String::new(), after: String::new(), digits: 0 };
        for part in self.parts() {
            match part {
                // Only a member of a series writes numbers.
                Part::Rest => {}
                Part::Fixed(text) if around.digits == 0 => around.before += text,
                Part::Fixed(text) => around.after += text,
                Part::Number { digits } => around.digits = digits.into(),
            }
        }
        around
    }

    /// Returns the text of a number.
    pub fn write(&self, number: u64) -> String {
        let AroundNumber { before, after, digits } = self.around();
        format!("{before}{number:0digits$}{after}")
    }

    /// Returns the number of a text. The form may have padded to fewer digits when the text was
    /// written, so fewer zeros are read, too.
    ///
    /// # Errors
    ///
    /// See [`InvalidNumberText`].
    pub fn read(&self, text: &str) -> Result<u64, InvalidNumberText> {
        let AroundNumber { before, after, digits: padded_to } = self.around();
        let digits = text.strip_prefix(&*before).and_then(|it| it.strip_suffix(&*after));
        let is_number = |it: &&str| !it.is_empty() && it.bytes().all(|it| it.is_ascii_digit());
        let Some(digits) = digits.filter(is_number) else {
            return Err(InvalidNumberText::OtherForm { text: text.to_owned(), form: *self });
        };
        let is_written = !digits.starts_with('0') || digits.len() <= padded_to;
        let number = digits.parse().ok().filter(|_| is_written);
        let number = number.filter(|number| *number <= SegmentSpec::LARGEST_NUMBER);
        number.ok_or_else(|| InvalidNumberText::OtherDigits {
            text: text.to_owned(),
            form: *self,
            digits: digits.to_owned(),
        })
    }

    /// Returns whether this form may replace another while numbers are in use: only the count of
    /// digits to which it pads may be larger.
    pub fn may_replace(&self, other: &Self) -> bool {
        self.unpadded() == other.unpadded() && self.around().digits >= other.around().digits
    }

    /// Returns whether some number of this form and some number of another may have equal texts,
    /// whatever they pad to.
    pub fn may_equal(&self, other: &Self) -> bool {
        // Both forms as patterns. Two patterns match a common text if both ends are reached
        // together.
        let [one, two] = [self, other].map(Self::pattern);
        let (mut seen, mut next) = (HashSet::new(), vec![(0, 0)]);
        while let Some((i, j)) = next.pop() {
            if !seen.insert((i, j)) {
                continue;
            }
            let (Some(a), Some(b)) = (one.get(i), two.get(j)) else {
                if i == one.len() && j == two.len() {
                    return true;
                }
                continue;
            };
            if a.shares_a_character(b) {
                let ends = |index, step: &Step| match step {
                    Step::Digits | Step::LettersAndDigits => vec![index, index + 1],
                    Step::Byte(_) => vec![index + 1],
                };
                for i in ends(i, a) {
                    next.extend(ends(j, b).into_iter().map(|j| (i, j)));
                }
            }
        }
        false
    }

    fn pattern(&self) -> Vec<Step> {
        self.parts()
            .flat_map(|part| match part {
                Part::Fixed(text) => text.bytes().map(Step::Byte).collect(),
                Part::Number { .. } => vec![Step::Digits],
                Part::Rest => vec![Step::LettersAndDigits],
            })
            .collect()
    }

    fn parts(&self) -> impl Iterator<Item = Part<'_>> {
        let text = str::from_utf8(&self.text[..usize::from(self.length)]);
        split(text.expect("a form is ASCII")).map(|part| part.expect("every part was checked"))
    }
}

/// What one or more characters of a text may be.
#[derive(Clone, Copy, Debug)]
enum Step {
    /// This character.
    Byte(u8),
    /// One or more digits.
    Digits,
    /// One or more letters and digits.
    LettersAndDigits,
}

impl Step {
    /// Returns whether a character may be of both steps.
    const fn shares_a_character(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Byte(one), Self::Byte(two)) => *one == *two,
            (Self::Byte(byte), Self::Digits) | (Self::Digits, Self::Byte(byte)) => {
                byte.is_ascii_digit()
            }
            (Self::Byte(byte), Self::LettersAndDigits)
            | (Self::LettersAndDigits, Self::Byte(byte)) => byte.is_ascii_alphanumeric(),
            (Self::Digits | Self::LettersAndDigits, Self::Digits | Self::LettersAndDigits) => true,
        }
    }
}

/// Splits the text of a form into its parts; `None` stands for what is no part, and ends them.
fn split(mut rest: &str) -> impl Iterator<Item = Option<Part<'_>>> {
    let is_fixed = |byte: u8| byte.is_ascii_alphanumeric() || b"._:/-".contains(&byte);
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let part;
        if let Some(inside) = rest.strip_prefix('{') {
            let (name, after) = inside.split_once('}').unwrap_or((inside, ""));
            let is_closed = name.len() < inside.len();
            (part, rest) = (Part::in_braces(name).filter(|_| is_closed), after);
        } else {
            let end = rest.find('{').unwrap_or(rest.len());
            let text;
            (text, rest) = rest.split_at(end);
            part = text.bytes().all(is_fixed).then_some(Part::Fixed(text));
        }
        Some(part)
    })
}

/// Returns whether there is no more than one [`Part::Rest`], and each of its neighbours is a
/// separator.
fn is_rest_apart(parts: &[Part<'_>]) -> bool {
    let mut rests = parts.iter().enumerate().filter(|(_, part)| **part == Part::Rest);
    let Some((at, _)) = rests.next() else { return true };
    let is_separator = |byte: Option<u8>| byte.is_some_and(|byte| !byte.is_ascii_alphanumeric());
    let is_apart = |neighbour: Option<&Part<'_>>, character: fn(&str) -> Option<u8>| match neighbour
    {
        None => true,
        Some(Part::Fixed(text)) => is_separator(character(text)),
        Some(_) => false,
    };
    rests.next().is_none()
        && is_apart(at.checked_sub(1).and_then(|before| parts.get(before)), |it| it.bytes().last())
        && is_apart(parts.get(at + 1), |it| it.bytes().next())
}

impl Part<'_> {
    /// Returns the part that a form names in braces.
    fn in_braces(name: &str) -> Option<Self> {
        if name == "*" {
            return Some(Self::Rest);
        }
        let padding = name.strip_prefix('n')?;
        if padding.is_empty() {
            return Some(Self::Number { digits: 1 });
        }
        let digits = padding.strip_prefix(":0")?;
        // One way to write each form.
        let is_plain = digits.starts_with(|first: char| ('1'..='9').contains(&first));
        let digits = digits.parse().ok().filter(|_| is_plain)?;
        (2..=TextForm::MOST_DIGITS).contains(&digits).then_some(Self::Number { digits })
    }
}

/// Writes the part as it was read.
impl fmt::Display for Part<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fixed(text) => f.write_str(text),
            Self::Number { digits: 1 } => f.write_str("{n}"),
            Self::Number { digits } => write!(f, "{{n:0{digits}}}"),
            Self::Rest => f.write_str("{*}"),
        }
    }
}

impl FromStr for TextForm {
    type Err = InvalidTextForm;

    fn from_str(text: &str) -> Result<Self, InvalidTextForm> {
        let invalid = || InvalidTextForm(text.to_owned());
        if text.len() > Self::LONGEST {
            return Err(invalid());
        }
        let parts: Vec<Part<'_>> = split(text).collect::<Option<_>>().ok_or_else(invalid)?;
        let is_number = |part: &&Part<'_>| matches!(part, Part::Number { .. });
        if parts.iter().filter(is_number).count() != 1 || !is_rest_apart(&parts) {
            return Err(invalid());
        }
        let mut form = Self { text: [0; Self::LONGEST], length: 0 };
        form.text[..text.len()].copy_from_slice(text.as_bytes());
        form.length = text.len().try_into().map_err(|_| invalid())?;
        Ok(form)
    }
}

/// Writes the form as it was read, such as `INV-{n:06}`.
impl fmt::Display for TextForm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.parts().try_for_each(|part| write!(f, "{part}"))
    }
}

impl Debug for TextForm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TextForm({self})")
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn form(text: &str) -> TextForm {
        text.parse().expect("a form")
    }

    #[test]
    fn numbers_grow_beyond_their_padding() {
        for (form_text, number, text) in [
            ("INV-{n:06}", 17, "INV-000017"),
            ("INV-{n:02}", 1_000, "INV-1000"),
            ("{n}", 0, "0"),
            ("{n:04}", 0, "0000"),
            ("2026{n:03}", 5, "2026005"),
            ("FV/{n:03}/2026", 7, "FV/007/2026"),
            ("a.{n:019}_:", SegmentSpec::LARGEST_NUMBER, "a.9223372036854775806_:"),
        ] {
            let form = form(form_text);
            assert_eq!(form.to_string(), form_text);
            assert_eq!(form.write(number), text);
            assert_eq!(form.read(text), Ok(number));
        }
    }

    #[test]
    fn only_one_number_between_fixed_texts_is_a_form() {
        let long = "x".repeat(62);
        let too_long = format!("{long}{{n}}");
        assert!(format!("{}{{n}}", &long[1..]).parse::<TextForm>().is_ok());
        for text in [
            "", "INV-", "{n}{n}", "{n:6}", "{n:00}", "{n:01}", "{n:020}", "{n:0+6}", "{n:006}",
            "{n: 06}", "{m}", "{n", "n}", "INV {n}", "INV={n}", "é{n}", "{n}\n", "{{n}}",
            &too_long,
        ] {
            let error = text.parse::<TextForm>().expect_err(text).to_string();
            assert!(error.contains("characters: A-Z a-z 0-9 . _ : / - and one {n}"), "{error}");
        }
        let error = |text: &str| text.parse::<TextForm>().expect_err(text).to_string();
        assert!(error("").starts_with("\"\" is no form of numbers"), "{}", error(""));
        let text = "é".repeat(1_000);
        let begin = format!("\"{}\"… is no form", "é".repeat(64));
        assert!(error(&text).starts_with(&begin), "{}", error(&text));
    }

    #[test]
    fn texts_of_other_forms_are_refused() {
        let form = form("INV-{n:03}/A");
        for (text, said) in [
            ("INV-017", "not of the form INV-{n:03}/A"),
            ("INV-/A", "not of the form"),
            ("inv-017/A", "not of the form"),
            ("INV-+17/A", "not of the form"),
            ("INV-0017/A", "written 0017"),
            ("INV-99999999999999999999/A", "written 99999999999999999999"),
            ("INV-18446744073709551615/A", "written 18446744073709551615"),
            ("INV-9223372036854775807/A", "written 9223372036854775807"),
        ] {
            let error = form.read(text).expect_err(text).to_string();
            assert!(error.contains(said), "{text}: {error}");
        }
        // The form once padded to fewer digits.
        assert_eq!([form.read("INV-17/A"), form.read("INV-017/A")], [Ok(17), Ok(17)]);
        // The fixed texts do not overlap.
        assert!("A{n}A".parse::<TextForm>().expect("a form").read("A").is_err());
    }

    #[test]
    fn only_padding_may_grow() {
        let before = form("INV-{n:03}");
        for (text, may) in [
            ("INV-{n:03}", true),
            ("INV-{n:04}", true),
            ("INV-{n:02}", false),
            ("INV-{n}", false),
            ("INV{n:04}", false),
            ("INV-{n:04}/", false),
        ] {
            assert_eq!(form(text).may_replace(&before), may, "{text}");
        }
    }

    #[test]
    fn forms_with_a_common_text_are_found() {
        for (one, two, may) in [
            ("INV-{n}", "INV-{n:06}", true),
            ("INV-{n}", "INV-1{n}", true),
            ("INV-{n}", "INV-A{n}", false),
            ("INV-{n}", "CR-{n}", false),
            ("{n}", "2026{n:04}", true),
            ("{n}", "{n}/2026", false),
            ("{n}", "{n}26", true),
            ("1{n}2", "{n}", true),
            ("A1/{n}", "A{n}/7", true),
            ("A1/{n}", "A{n}/x", false),
        ] {
            assert_eq!(form(one).may_equal(&form(two)), may, "{one} and {two}");
            assert_eq!(form(two).may_equal(&form(one)), may, "{two} and {one}");
        }
    }

    #[test]
    fn rest_of_a_member_stands_between_separators() {
        for (text, member) in [
            ("INV-{*}-{n:06}", "INV-paris-{n:06}"),
            ("{*}/{n}", "paris/{n}"),
            ("{n}.{*}", "{n}.paris"),
            ("{n:02}/{*}/A", "{n:02}/paris/A"),
        ] {
            let series = form(text);
            assert!(series.has_rest() && series.to_string() == text, "{text}");
            let of_member = series.of_member("paris").expect("short");
            assert!(!of_member.has_rest() && of_member == form(member), "{text}");
        }
        for text in [
            "INV-{*}",
            "{*}{n}",
            "{n}{*}",
            "INV{*}-{n}",
            "-{*}x{n}",
            "{*}-{*}-{n}",
            "{**}-{n}",
            "{*:2}-{n}",
        ] {
            let error = text.parse::<TextForm>().expect_err(text).to_string();
            assert!(error.contains("in a series also one {*} between separators"), "{error}");
        }
        assert!(!form("INV-{n}").has_rest());
        assert_eq!(form("INV-{n}").of_member("paris"), Some(form("INV-{n}")));
        let series = form("{*}-{n}");
        assert!(series.of_member(&"x".repeat(60)).is_some());
        assert_eq!(series.of_member(&"x".repeat(61)), None);
    }

    #[test]
    fn forms_of_series_with_a_common_text_are_found() {
        for (one, two, may) in [
            ("INV-{*}-{n}", "INV-paris-{n}", true),
            ("INV-{*}-{n}", "INV-{n}", false),
            ("INV-{*}/{n}", "INV-{*}-{n}", false),
            ("{*}-{n}", "INV-{n}", true),
            ("{*}-{n}", "INV-A-{n}", false),
            ("{*}-{n}", "2026-{n}", true),
        ] {
            assert_eq!(form(one).may_equal(&form(two)), may, "{one} and {two}");
            assert_eq!(form(two).may_equal(&form(one)), may, "{two} and {one}");
        }
    }

    fn forms() -> impl Strategy<Value = TextForm> {
        let fixed = "[A-Za-z0-9._:/-]{0,28}";
        (fixed, 1..=19_u8, fixed).prop_map(|(before, digits, after)| {
            let number = if digits == 1 { "{n}".into() } else { format!("{{n:0{digits}}}") };
            form(&format!("{before}{number}{after}"))
        })
    }

    proptest! {
        #[test]
        fn reading_inverts_writing(
            form in forms(),
            number in 0..=SegmentSpec::LARGEST_NUMBER,
            shift in 0..64_u32,
        ) {
            let number = number >> shift;
            let text = form.write(number);
            prop_assert_eq!(form.read(&text), Ok(number), "{}", text);
            prop_assert_eq!(form.to_string().parse(), Ok(form));
        }

        #[test]
        fn a_text_is_of_one_member_alone(
            fixed in prop::array::uniform3("[a1./]{0,2}"),
            is_first in any::<bool>(),
            rests in prop::array::uniform2("[a1]{1,3}"),
            numbers in prop::array::uniform2(0..12_u64),
        ) {
            let [a, b, c] = fixed;
            let (first, second) = if is_first { ("{*}", "{n}") } else { ("{n}", "{*}") };
            let Ok(series) = format!("{a}{first}{b}{second}{c}").parse::<TextForm>() else {
                return Ok(());
            };
            let texts = [0, 1].map(|it| {
                let member = series.of_member(&rests[it]).expect("short");
                let text = member.write(numbers[it]);
                (member.read(&text) == Ok(numbers[it])).then_some(text)
            });
            prop_assert!(texts.iter().all(Option::is_some), "{}: {:?}", series, texts);
            let is_same = (&rests[0], numbers[0]) == (&rests[1], numbers[1]);
            prop_assert_eq!(texts[0] == texts[1], is_same, "{}: {:?}", series, texts);
        }

        #[test]
        fn a_text_is_of_one_number_alone(form in forms(), one in 0..2_000_u64, two in 0..2_000_u64) {
            prop_assert_eq!(form.write(one) == form.write(two), one == two);
        }

        #[test]
        fn equal_texts_are_foreseen(
            fixed in prop::array::uniform4("[12/]{0,2}"),
            one in 0..300_u64,
            two in 0..300_u64,
        ) {
            let [a, b, c, d] = fixed;
            let [left, right] = [form(&format!("{a}{{n}}{b}")), form(&format!("{c}{{n:02}}{d}"))];
            if left.write(one) == right.write(two) {
                prop_assert!(left.may_equal(&right), "{} and {}", left, right);
            }
        }
    }
}
