//! The errors of reading an ID.

use crate::layout::FieldOutOfRange;

/// Returns a hint for a text in decimal, which is the default: the client may have forgotten to
/// name the encoding.
fn way_out(encoding: &str) -> &'static str {
    match encoding {
        "decimal" => "; for an ID in another encoding, name that, such as hex",
        _ => "",
    }
}

/// Why a text is not an ID. The client sent a wrong text or named the wrong encoding; a retry fails
/// again.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidId {
    /// A character is not a digit of the encoding.
    #[error("position {position}: {found:?} is not a {encoding} digit{}", way_out(encoding))]
    BadDigit {
        /// The position of the character, from 0.
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
    /// A friendly text has the wrong form.
    #[error(
        "position {position}: a friendly ID has {expected} here, as in 20261120T151102.123Z-0-5-0-17-0"
    )]
    Friendly {
        /// The position of the first character that differs, from 0.
        position: usize,
        /// The part that belongs there.
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
        /// The start of the tick that contains the instant, in the form of friendly texts.
        starts: String,
    },
    /// A friendly text has an ID, but not in the only form that Raindrop writes, such as with a
    /// leading 0.
    #[error("this friendly ID must be written {written}")]
    OtherwiseWritten {
        /// The valid form.
        written: String,
    },
    /// The layout of a friendly text has a time that wraps.
    #[error("a friendly ID needs an instant, and the time of this layout wraps")]
    Wraps,
    /// A friendly text came without a layout that Raindrop can issue.
    #[error("reading a friendly ID needs a layout that Raindrop can issue")]
    NoLayout,
}
