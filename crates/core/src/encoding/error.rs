//! Why a text is no ID.

use crate::layout::FieldOutOfRange;

/// What helps where no encoding was named.
fn way_out(encoding: &str) -> &'static str {
    match encoding {
        "decimal" => "; for an ID in another encoding, name that, such as hex",
        _ => "",
    }
}

/// Why a text is not an ID.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidId {
    /// A character is not a digit of the encoding.
    #[error("position {position}: {found:?} is not a {encoding} digit{}", way_out(encoding))]
    BadDigit {
        /// Its position in characters, from 0.
        position: usize,
        /// The character.
        found: char,
        /// The encoding's name.
        encoding: &'static str,
    },
    /// The text is empty.
    #[error("an ID has at least one digit")]
    Empty,
    /// The number is above 2^63 − 1.
    #[error("an ID is at most 9223372036854775807, 2^63 - 1")]
    TooLarge,
    /// The text has too few or too many digits for an encoding of fixed length.
    #[error("a {encoding} ID has {allowed} digits, not {found}")]
    Length {
        /// How many digits the text has.
        found: usize,
        /// How many digits the encoding has.
        allowed: usize,
        /// The encoding's name.
        encoding: &'static str,
    },
    /// A friendly text does not have the form of one.
    #[error(
        "position {position}: a friendly ID has {expected} here, as in 20261120T151102.123Z-0-5-0-17-0"
    )]
    Friendly {
        /// Its position in characters, from 0.
        position: usize,
        /// What is expected there.
        expected: &'static str,
    },
    /// A field of a friendly text does not fit the layout.
    #[error("the layout has no such friendly ID: {0}")]
    FriendlyField(#[from] FieldOutOfRange),
    /// The instant of a friendly text does not fit the layout.
    #[error("the instant of a friendly ID must be {first} to {last} in this layout")]
    FriendlyInstant {
        /// The start of the first tick, in the form of friendly texts.
        first: String,
        /// The start of the last tick.
        last: String,
    },
    /// The instant of a friendly text is not the start of a tick.
    #[error("a tick of this layout starts at {starts}, not at the instant of this friendly ID")]
    InsideTick {
        /// The start of its tick, in the form of friendly texts.
        starts: String,
    },
    /// A friendly text reads as an ID, but that ID is written differently.
    #[error("this friendly ID must be written {written}")]
    OtherwiseWritten {
        /// Its only valid form.
        written: String,
    },
    /// The layout of a friendly text has a time that wraps.
    #[error("a friendly ID needs an instant, and the time of this layout wraps")]
    Wraps,
    /// A friendly text came without a layout that Raindrop can issue.
    #[error("reading a friendly ID needs a layout that Raindrop can issue")]
    NoLayout,
}
