//! IDs as text.
//!
//! | encoding | characters of 2^63 − 1 | alphabet, smallest first | padded |
//! |---|---|---|---|
//! | `decimal` | 19 | `0-9` | 19 |
//! | `hex` | 16, always | `0-9a-f`, read in either case | 16 |
//! | `base32` | 13 | Crockford's `0-9A-HJKMNP-TV-Z`, read in either case, `i` and `l` as 1, `o` as 0 | 13 |
//! | `base36` | 13 | `0-9a-z`, read in either case | 13 |
//! | `base62` | 11 | `0-9a-zA-Z` | no: ASCII sorts capitals first |
//! | `base62-sorted` | 11 | `0-9A-Za-z`, in ASCII order | 11 |
//! | `base64url` | 11, always | RFC 4648 §5 of 8 big-endian bytes; `=` is read, not written | no: ASCII sorts it otherwise |
//! | `friendly` | see [`Encoding::Friendly`] | | no |
//! | `uuid7` | 36, always | `0-9a-f` and `-`, read in either case | 36 |
//! | `typeid` | 26, always | Crockford's in lower case, `0-9a-hjkmnp-tv-z` | 26 |
//!
//! The last three hold the fields of a layout, and need one. The last two hold random bits, too:
//! each text of an ID differs, and all of them are read as that ID.
//!
//! Padded texts sort as their IDs do.

mod decimal;
mod error;
mod friendly;
mod radix;
mod uuid;

use std::{fmt, io::Write, str::FromStr};

use self::radix::{BASE32, BASE36, BASE62, BASE62_SORTED, DECIMAL, HEX};
pub use self::{
    decimal::{write_decimal, write_decimal_range},
    error::{EncoderError, InvalidId, InvalidPrefix},
};
use crate::{id::Id, issue::IdRange, layout::Layout};

/// How an ID is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Encoding {
    /// Decimal digits: the default.
    #[default]
    Decimal,
    /// 16 hexadecimal digits.
    Hex,
    /// Douglas Crockford's base 32, whose digits are not easily misread.
    Base32,
    /// Digits and lower-case letters.
    Base36,
    /// Digits and letters, `0-9a-zA-Z`, as in westid.
    Base62,
    /// Digits and letters in ASCII order, `0-9A-Za-z`, as in CosId and the TSID libraries.
    Base62Sorted,
    /// RFC 4648's URL-safe base 64 of the 8 bytes of the ID.
    Base64Url,
    /// `20261120T151102.123Z-<data centre>-<worker>-<lane>-<sequence>-<reserved>`: the instant in
    /// UTC and every other field, for people. Writing and reading it needs a layout.
    Friendly,
    /// A UUID of version 7 (RFC 9562): the instant, every other field, and random bits.
    Uuid7,
    /// The 26 digits of a TypeID 0.3, which are those of a UUID of version 7. The prefix and `_`
    /// before them are the prefix of the code.
    Typeid,
}

impl Encoding {
    /// Every encoding.
    pub const ALL: [Self; 10] = [
        Self::Decimal,
        Self::Hex,
        Self::Base32,
        Self::Base36,
        Self::Base62,
        Self::Base62Sorted,
        Self::Base64Url,
        Self::Friendly,
        Self::Uuid7,
        Self::Typeid,
    ];

    /// The name in requests, and the length of padded texts.
    const fn definition(self) -> (&'static str, Option<usize>) {
        match self {
            Self::Decimal => ("decimal", Some(19)),
            Self::Hex => ("hex", Some(16)),
            Self::Base32 => ("base32", Some(13)),
            Self::Base36 => ("base36", Some(13)),
            Self::Base62 => ("base62", None),
            Self::Base62Sorted => ("base62-sorted", Some(11)),
            Self::Base64Url => ("base64url", None),
            Self::Friendly => ("friendly", None),
            Self::Uuid7 => ("uuid7", Some(36)),
            Self::Typeid => ("typeid", Some(26)),
        }
    }

    /// The name in requests.
    pub const fn name(self) -> &'static str {
        self.definition().0
    }

    /// Returns the encoding of this name.
    pub fn by_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|encoding| encoding.name() == name)
    }

    /// The length of padded texts in characters; `None` if texts do not sort as their IDs.
    pub const fn padded_width(self) -> Option<usize> {
        self.definition().1
    }

    /// Returns whether its texts are UUIDs, which have random bits.
    pub const fn is_uuid(self) -> bool {
        matches!(self, Self::Uuid7 | Self::Typeid)
    }

    /// Checks whether the texts may follow this prefix, which is empty or ends with a separator.
    /// A TypeID 0.3 allows at most 63 of `a-z` and `_`, a letter first and last, and then `_`.
    ///
    /// # Errors
    ///
    /// When they may not.
    pub fn check_prefix(self, prefix: &str) -> Result<(), InvalidPrefix> {
        if self != Self::Typeid || prefix.is_empty() || uuid::is_typeid_prefix(prefix) {
            return Ok(());
        }
        Err(InvalidPrefix { prefix: prefix.to_owned() })
    }

    /// Returns how many bits of each text are random, if its texts are UUIDs.
    ///
    /// # Errors
    ///
    /// When IDs of this layout cannot be written in this encoding.
    pub fn random_bits(self, layout: &Layout) -> Result<Option<u32>, EncoderError> {
        if self.is_uuid() { uuid::random_bits(self, layout).map(Some) } else { Ok(None) }
    }

    /// Reads an ID, padded or not. Only [`Self::Friendly`], [`Self::Uuid7`] and [`Self::Typeid`]
    /// need a layout.
    ///
    /// # Errors
    ///
    /// The first character that is not a digit, a number above 2^63 − 1, or a text that does not
    /// fit the layout.
    pub fn decode(self, text: &str, layout: Option<&Layout>) -> Result<Id, InvalidId> {
        match self {
            Self::Decimal => DECIMAL.decode(text),
            Self::Hex => HEX.decode(text),
            Self::Base32 => BASE32.decode(text),
            Self::Base36 => BASE36.decode(text),
            Self::Base62 => BASE62.decode(text),
            Self::Base62Sorted => BASE62_SORTED.decode(text),
            Self::Base64Url => radix::decode_base64url(text),
            Self::Friendly => {
                let layout = layout.ok_or(InvalidId::NoLayout)?;
                friendly::decode(text, layout)
            }
            Self::Uuid7 | Self::Typeid => {
                let layout = layout.ok_or(InvalidId::NoLayout)?;
                uuid::decode(self, text, layout)
            }
        }
    }
}

impl fmt::Display for Encoding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Writes IDs of one layout, or plain numbers, in one encoding without allocating.
///
/// # Examples
///
/// ```
/// use raindrop_core::{encoding::{Encoder, Encoding}, id::Id, preset::Preset};
///
/// let layout = Preset::Westid.layout();
/// let id = Id::new(1_415_384_785_396_004).expect("63 bits");
/// let base62 = Encoder::new(Encoding::Base62, false, &layout)?;
/// assert_eq!(base62.text(id).to_string(), "6tUDRbHbS");
/// assert_eq!(Encoding::Base62.decode("6tUDRbHbS", None)?, id);
/// let friendly = Encoder::new(Encoding::Friendly, false, &layout)?;
/// assert_eq!(friendly.text(id).to_string(), "20170328T064857.735Z-0-426-0-292-0");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Encoder<'a> {
    encoding: Encoding,
    is_padded: bool,
    layout: Option<&'a Layout>,
}

impl<'a> Encoder<'a> {
    /// Makes an encoder. Padded texts are equally long and sort as their IDs. Plain numbers have no
    /// layout.
    ///
    /// # Errors
    ///
    /// When the encoding cannot be padded but should be, or when it needs a layout or an instant
    /// that the IDs do not have, or a layout with ticks of another length.
    pub fn new(
        encoding: Encoding,
        is_padded: bool,
        layout: impl Into<Option<&'a Layout>>,
    ) -> Result<Self, EncoderError> {
        let layout = layout.into();
        if is_padded && encoding.padded_width().is_none() {
            return Err(EncoderError::NotPadded { encoding });
        }
        let required = || layout.ok_or(EncoderError::NoLayout { encoding });
        match encoding {
            Encoding::Friendly if required()?.wraps() => Err(EncoderError::Wraps { encoding }),
            Encoding::Uuid7 | Encoding::Typeid => {
                uuid::random_bits(encoding, required()?)?;
                Ok(Self { encoding, is_padded, layout })
            }
            _ => Ok(Self { encoding, is_padded, layout }),
        }
    }

    /// Returns the text of an ID, for formatting.
    pub fn text(&self, id: Id) -> impl fmt::Display + use<'a> {
        let encoder = *self;
        fmt::from_fn(move |f| encoder.write(f, id))
    }

    /// Returns the smallest text that an ID can have, for formatting: that of a UUID has no random
    /// bits.
    pub fn smallest_text(&self, id: Id) -> impl fmt::Display + use<'a> {
        let encoder = *self;
        fmt::from_fn(move |f| match encoder.layout {
            Some(layout) if encoder.encoding.is_uuid() => {
                uuid::write_smallest(f, encoder.encoding, id, layout)
            }
            _ => encoder.write(f, id),
        })
    }

    /// Appends the texts of a range of IDs, each between the same two texts. IDs of a layout must
    /// be of one tick, as the ranges of a [`Run`](crate::issue::Run) are.
    pub fn write_range(&self, out: &mut Vec<u8>, range: &IdRange, before: &str, after: &str) {
        if let (Encoding::Friendly, Some(layout)) = (self.encoding, self.layout) {
            return friendly::write_range(out, range, layout, before, after);
        }
        for index in 0..range.count {
            let id = Id::from_composed(range.first.get() + index * range.step);
            out.extend_from_slice(before.as_bytes());
            write!(out, "{}", self.text(id)).expect("a vector takes any bytes");
            out.extend_from_slice(after.as_bytes());
        }
    }

    fn write(&self, out: &mut impl fmt::Write, id: Id) -> fmt::Result {
        let width = if self.is_padded { self.encoding.padded_width().unwrap_or(0) } else { 0 };
        let number = id.get();
        match self.encoding {
            Encoding::Decimal => DECIMAL.write(out, number, width),
            Encoding::Hex => HEX.write(out, number, 16),
            Encoding::Base32 => BASE32.write(out, number, width),
            Encoding::Base36 => BASE36.write(out, number, width),
            Encoding::Base62 => BASE62.write(out, number, 0),
            Encoding::Base62Sorted => BASE62_SORTED.write(out, number, width),
            Encoding::Base64Url => radix::write_base64url(out, id),
            Encoding::Friendly => {
                friendly::write(out, id, self.layout.expect("`new` requires a layout"))
            }
            Encoding::Uuid7 | Encoding::Typeid => {
                let layout = self.layout.expect("`new` requires a layout");
                uuid::write(out, self.encoding, id, layout)
            }
        }
    }
}

/// Reads decimal digits.
impl FromStr for Id {
    type Err = InvalidId;

    fn from_str(text: &str) -> Result<Self, InvalidId> {
        DECIMAL.decode(text)
    }
}

#[cfg(test)]
mod tests;
