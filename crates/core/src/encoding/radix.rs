//! Positional notation in several alphabets.

use std::fmt;

use super::InvalidId;
use crate::id::Id;

/// The largest number of digits, that of 2^63 − 1 in decimal.
const MOST_DIGITS: usize = 19;

/// The digits of an alphabet, smallest first.
pub(super) struct Alphabet<const RADIX: usize> {
    name: &'static str,
    digits: &'static [u8; RADIX],
    /// Returns the digit that a character is read as.
    read: fn(u8) -> u8,
}

pub(super) static DECIMAL: Alphabet<10> =
    Alphabet { name: "decimal", digits: b"0123456789", read: exact };
pub(super) static HEX: Alphabet<16> =
    Alphabet { name: "hex", digits: b"0123456789abcdef", read: lower_case };
pub(super) static BASE32: Alphabet<32> = Alphabet {
    name: "base32",
    digits: b"0123456789ABCDEFGHJKMNPQRSTVWXYZ",
    read: |character| match character.to_ascii_uppercase() {
        b'I' | b'L' => b'1',
        b'O' => b'0',
        digit => digit,
    },
};
pub(super) static BASE36: Alphabet<36> =
    Alphabet { name: "base36", digits: b"0123456789abcdefghijklmnopqrstuvwxyz", read: lower_case };
pub(super) static BASE62: Alphabet<62> = Alphabet {
    name: "base62",
    digits: b"0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ",
    read: exact,
};
pub(super) static BASE62_SORTED: Alphabet<62> = Alphabet {
    name: "base62-sorted",
    digits: b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz",
    read: exact,
};
static BASE64URL: Alphabet<64> = Alphabet {
    name: "base64url",
    digits: b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_",
    read: exact,
};

const fn exact(character: u8) -> u8 {
    character
}

const fn lower_case(character: u8) -> u8 {
    character.to_ascii_lowercase()
}

#[expect(clippy::cast_possible_truncation, reason = "no radix is above 64")]
impl<const RADIX: usize> Alphabet<RADIX> {
    /// Writes at least `width` digits.
    pub(super) fn write(
        &self,
        out: &mut impl fmt::Write,
        mut number: u64,
        width: usize,
    ) -> fmt::Result {
        let mut buffer = [self.digits[0]; MOST_DIGITS];
        let mut start = MOST_DIGITS;
        // The radix is a constant of each alphabet, so the divisions become multiplications.
        while number > 0 || start == MOST_DIGITS {
            start -= 1;
            buffer[start] = self.digits[(number % RADIX as u64) as usize];
            number /= RADIX as u64;
        }
        let start = start.min(MOST_DIGITS - width);
        out.write_str(std::str::from_utf8(&buffer[start..]).expect("every digit is ASCII"))
    }

    /// Returns the value of a digit.
    pub(super) fn value_of(&self, digit: char) -> Option<u64> {
        let digit = (self.read)(u8::try_from(digit).ok()?);
        (0..).zip(self.digits).find(|(_, known)| **known == digit).map(|(value, _)| value)
    }

    pub(super) const fn bad_digit(&self, position: usize, found: char) -> InvalidId {
        InvalidId::BadDigit { position, found, encoding: self.name }
    }

    pub(super) fn decode(&self, text: &str) -> Result<Id, InvalidId> {
        if text.is_empty() {
            return Err(InvalidId::Empty);
        }
        let mut number: u64 = 0;
        for (position, found) in text.chars().enumerate() {
            let value = self.value_of(found).ok_or_else(|| self.bad_digit(position, found))?;
            number = number
                .checked_mul(RADIX as u64)
                .and_then(|shifted| shifted.checked_add(value))
                .ok_or(InvalidId::TooLarge)?;
        }
        Id::new(number).ok_or(InvalidId::TooLarge)
    }
}

/// The number of digits of a base64url text.
const BASE64URL_LENGTH: usize = 11;

/// Writes RFC 4648's base64url of the 8 big-endian bytes of an ID: 10 digits of 6 bits, and one
/// that holds the last 4 bits above two zero bits.
pub(super) fn write_base64url(out: &mut impl fmt::Write, id: Id) -> fmt::Result {
    BASE64URL.write(out, id.get() >> 4, BASE64URL_LENGTH - 1)?;
    BASE64URL.write(out, (id.get() & 15) << 2, 1)
}

/// Reads what [`write_base64url`] writes, with or without a `=` at the end.
pub(super) fn decode_base64url(text: &str) -> Result<Id, InvalidId> {
    let text = text.strip_suffix('=').unwrap_or(text);
    let last = BASE64URL_LENGTH - 1;
    let mut number: u64 = 0;
    for (position, found) in text.chars().enumerate() {
        let value = BASE64URL.value_of(found).filter(|value| position != last || value % 4 == 0);
        let value = value.ok_or_else(|| BASE64URL.bad_digit(position, found))?;
        // A text that is too long loses its first digits here and is refused below.
        number = if position < last { number << 6 | value } else { number << 4 | value >> 2 };
    }
    match text.len() {
        BASE64URL_LENGTH => Id::new(number).ok_or(InvalidId::TooLarge),
        found => {
            Err(InvalidId::Length { found, allowed: BASE64URL_LENGTH, encoding: BASE64URL.name })
        }
    }
}
