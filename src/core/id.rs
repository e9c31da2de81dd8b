//! The ID itself and its decimal text.

use std::{fmt, str::FromStr};

/// A 63-bit ID: never negative as a signed 64-bit integer.
///
/// IDs of one namespace and code are unique; their numeric order follows time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Id(u64);

/// A text that is not an ID.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidId {
    /// A character that is no decimal digit, with its position from 0.
    #[error("position {position}: {found:?} is not a decimal digit")]
    BadDigit {
        /// Where it stands, counted in characters from 0.
        position: usize,
        /// The character.
        found: char,
    },
    /// No character at all.
    #[error("an ID has at least one decimal digit")]
    Empty,
    /// A number above 2^63 − 1.
    #[error("an ID is at most 9223372036854775807")]
    TooLarge,
}

impl Id {
    /// The largest ID, 2^63 − 1.
    pub const MAX: Self = Self(i64::MAX as u64);
    /// The largest integer that a JSON number keeps in every language, 2^53 − 1.
    pub const MAX_JS_SAFE: Self = Self((1 << 53) - 1);

    /// The ID with this number, or `None` above 2^63 − 1.
    pub const fn new(number: u64) -> Option<Self> {
        if number <= Self::MAX.0 { Some(Self(number)) } else { None }
    }

    /// Only for numbers that a layout composed, which fit by its widths.
    pub(crate) const fn from_composed(number: u64) -> Self {
        debug_assert!(number <= Self::MAX.0);
        Self(number)
    }

    /// The number.
    pub const fn get(self) -> u64 {
        self.0
    }

    /// Whether a JSON number carries this ID exactly in every language (below 2^53).
    pub const fn is_js_safe(self) -> bool {
        self.0 <= Self::MAX_JS_SAFE.0
    }
}

impl fmt::Display for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl FromStr for Id {
    type Err = InvalidId;

    fn from_str(text: &str) -> Result<Self, InvalidId> {
        if text.is_empty() {
            return Err(InvalidId::Empty);
        }
        let mut number: u64 = 0;
        for (position, found) in text.chars().enumerate() {
            let digit = found.to_digit(10).ok_or(InvalidId::BadDigit { position, found })?;
            number = number
                .checked_mul(10)
                .and_then(|tens| tens.checked_add(u64::from(digit)))
                .filter(|number| *number <= Self::MAX.0)
                .ok_or(InvalidId::TooLarge)?;
        }
        Ok(Self(number))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decimal_text_is_read_strictly() {
        assert_eq!("0".parse(), Ok(Id(0)));
        assert_eq!("9223372036854775807".parse(), Ok(Id::MAX));
        assert_eq!("9223372036854775808".parse::<Id>(), Err(InvalidId::TooLarge));
        assert_eq!("99999999999999999999999".parse::<Id>(), Err(InvalidId::TooLarge));
        assert_eq!("".parse::<Id>(), Err(InvalidId::Empty));
        assert_eq!("12a".parse::<Id>(), Err(InvalidId::BadDigit { position: 2, found: 'a' }));
        assert_eq!("-1".parse::<Id>(), Err(InvalidId::BadDigit { position: 0, found: '-' }));
        assert_eq!("+1".parse::<Id>(), Err(InvalidId::BadDigit { position: 0, found: '+' }));
        assert_eq!("é".parse::<Id>(), Err(InvalidId::BadDigit { position: 0, found: 'é' }));
    }
}
