//! The ID itself and its decimal text.

use std::{fmt, str::FromStr};

use crate::core::{encoding::DECIMAL, layout::FieldOutOfRange};

/// A 63-bit ID: never negative as a signed 64-bit integer.
///
/// IDs of one namespace and code are unique; their numeric order follows time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Id(u64);

/// A text that is not an ID.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidId {
    /// A character that is no digit of the encoding, with its position from 0.
    #[error("position {position}: {found:?} is not a {encoding} digit")]
    BadDigit {
        /// Where it stands, counted in characters from 0.
        position: usize,
        /// The character.
        found: char,
        /// The encoding's name.
        encoding: &'static str,
    },
    /// No character at all.
    #[error("an ID has at least one digit")]
    Empty,
    /// A number above 2^63 − 1.
    #[error("an ID is at most 9223372036854775807, 2^63 - 1")]
    TooLarge,
    /// Too few or too many digits for an encoding whose texts are all equally long.
    #[error("a {encoding} ID has {allowed} digits, not {found}")]
    Length {
        /// How many there are.
        found: usize,
        /// How many there must be.
        allowed: usize,
        /// The encoding's name.
        encoding: &'static str,
    },
    /// A friendly text breaks off or goes on differently.
    #[error(
        "position {position}: a friendly ID has {expected} here, as in 20261120T151102.123Z-0-5-0-17-0"
    )]
    Friendly {
        /// Where, counted in characters from 0.
        position: usize,
        /// What should stand there.
        expected: &'static str,
    },
    /// A friendly text whose fields the layout cannot hold.
    #[error("the layout has no such friendly ID: {0}")]
    FriendlyField(#[from] FieldOutOfRange),
    /// A friendly text whose instant the layout cannot hold.
    #[error("a friendly ID of this layout has an instant from {first} to {last}")]
    FriendlyInstant {
        /// The start of the first tick, as a friendly text has it.
        first: String,
        /// The start of the last tick.
        last: String,
    },
    /// A friendly text whose instant is inside a tick.
    #[error("a tick of this layout starts at {starts}, not at the instant of this friendly ID")]
    InsideTick {
        /// The start of the tick, as a friendly text has it.
        starts: String,
    },
    /// A friendly text that reads as an ID but is not how that ID is written.
    #[error("this friendly ID is written {written}")]
    OtherwiseWritten {
        /// How it is written.
        written: String,
    },
    /// A friendly text, and a layout whose time wraps.
    #[error("a friendly ID needs an instant, and the time of this layout wraps")]
    Wraps,
    /// A friendly text, and no layout that could be issued by.
    #[error("a friendly ID can only be read with a layout that Raindrop issues by")]
    NoLayout,
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
        DECIMAL.decode(text)
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
        for (text, position, found) in
            [("12a", 2, 'a'), ("-1", 0, '-'), ("+1", 0, '+'), ("é", 0, 'é'), ("1é", 1, 'é')]
        {
            let bad_digit = InvalidId::BadDigit { position, found, encoding: "decimal" };
            assert_eq!(text.parse::<Id>(), Err(bad_digit));
        }
    }
}
