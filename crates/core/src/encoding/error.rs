//! The errors of writing and reading IDs.

use super::Encoding;
use crate::layout::{FieldOutOfRange, TimeUnit};

/// Why IDs cannot be written in an encoding. The client named an encoding that does not fit the
/// layout; a retry fails again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum EncoderError {
    /// The texts were to be padded, and would not sort as their IDs.
    #[error(
        "{encoding} cannot be padded: its texts do not sort as their IDs; those of decimal, hex, \
         base32, base36 and base62-sorted do"
    )]
    NotPadded {
        /// The encoding.
        encoding: Encoding,
    },
    /// Plain numbers have no layout.
    #[error("{encoding} needs a layout, and plain numbers have none")]
    NoLayout {
        /// The encoding.
        encoding: Encoding,
    },
    /// The layout's time wraps.
    #[error("{encoding} needs an instant, and the time of this layout wraps")]
    Wraps {
        /// The encoding.
        encoding: Encoding,
    },
    /// The layout's ticks are longer than 1 ms: the IDs of a tick would have one instant.
    #[error(
        "{encoding} needs a layout whose unit is the millisecond; that of this layout is {unit}"
    )]
    Unit {
        /// The encoding.
        encoding: Encoding,
        /// The layout's unit.
        unit: TimeUnit,
    },
    /// The layout begins before 1970, and a UUID has no instant before that.
    #[error("{encoding} needs a layout whose epoch is 1970 or later")]
    Before1970 {
        /// The encoding.
        encoding: Encoding,
    },
}

impl EncoderError {
    /// Returns the encoding that was named.
    pub const fn encoding(&self) -> Encoding {
        match self {
            Self::NotPadded { encoding }
            | Self::NoLayout { encoding }
            | Self::Wraps { encoding }
            | Self::Unit { encoding, .. }
            | Self::Before1970 { encoding } => *encoding,
        }
    }
}

/// A prefix that a TypeID cannot have. The configuration of the code has it, or the client sent it;
/// a retry fails again.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{prefix:?} is not the prefix of a TypeID, which has at most 63 of a-z and _, a letter first \
     and last, and then _, such as ord_"
)]
pub struct InvalidPrefix {
    /// The prefix.
    pub(super) prefix: String,
}

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
        "position {position}: a friendly ID has {expected} here, as in \
         20261120T151102.123Z-0-5-0-17-0"
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
    /// A text that holds fields came without a layout that Raindrop can issue.
    #[error("reading friendly IDs, UUIDs and TypeIDs needs a layout that Raindrop can issue")]
    NoLayout,
    /// IDs of the layout cannot be written in this encoding.
    #[error(transparent)]
    NotEncodable(#[from] EncoderError),
    /// The text is no UUID.
    #[error(
        "a UUID has 32 hexadecimal digits, as in 017f22e2-79b0-7cc3-98c4-dc0c0c07398f: {reason}"
    )]
    Uuid {
        /// The first thing that is wrong.
        reason: String,
    },
    /// A UUID of another variant than that of RFC 9562; also the nil and the max UUID.
    #[error("this UUID is not of the variant of RFC 9562, so Raindrop did not write it")]
    UuidVariant,
    /// A UUID that Raindrop cannot have written with this layout.
    #[error(
        "this UUID of version {version} is not of this layout: Raindrop writes version 7, with an \
         instant of the layout"
    )]
    ForeignUuid {
        /// The version of the UUID.
        version: u8,
        /// Its instant in Unix milliseconds; `None` for versions without an instant.
        unix_ms: Option<i64>,
    },
    /// The digits of a TypeID are above 2^128 − 1.
    #[error("a TypeID has 128 bits, so its first digit after the prefix is 0 to 7")]
    TypeidTooLarge,
}
