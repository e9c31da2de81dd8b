//! Positional notation in several alphabets.

use std::fmt;

use super::InvalidId;
use crate::core::id::Id;

/// The largest number of digits, that of 2^63 − 1 in decimal.
const MOST_DIGITS: usize = 19;
/// The value of characters that are not digits.
const NONE: u8 = u8::MAX;

/// The digits of an alphabet, smallest first, and the value of each ASCII character.
pub(super) struct Alphabet<const RADIX: usize> {
    name: &'static str,
    digits: [u8; RADIX],
    values: [u8; 128],
}

pub(super) static DECIMAL: Alphabet<10> = Alphabet::new("decimal", b"0123456789", Case::Exact);
pub(super) static HEX: Alphabet<16> = Alphabet::new("hex", b"0123456789abcdef", Case::Either);
pub(super) static BASE32: Alphabet<32> =
    Alphabet::new("base32", b"0123456789ABCDEFGHJKMNPQRSTVWXYZ", Case::Either)
        .also(*b"iIlL", 1)
        .also(*b"oO", 0);
pub(super) static BASE36: Alphabet<36> =
    Alphabet::new("base36", b"0123456789abcdefghijklmnopqrstuvwxyz", Case::Either);
pub(super) static BASE62: Alphabet<62> = Alphabet::new(
    "base62",
    b"0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ",
    Case::Exact,
);
pub(super) static BASE64URL: Alphabet<64> = Alphabet::new(
    "base64url",
    b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_",
    Case::Exact,
);

#[derive(Clone, Copy)]
enum Case {
    Exact,
    Either,
}

#[expect(clippy::cast_possible_truncation, reason = "no radix is above 64")]
impl<const RADIX: usize> Alphabet<RADIX> {
    const fn new(name: &'static str, digits: &[u8; RADIX], case: Case) -> Self {
        let mut values = [NONE; 128];
        let mut value = 0;
        while value < RADIX {
            let digit = digits[value];
            values[digit as usize] = value as u8;
            if let Case::Either = case {
                values[digit.to_ascii_lowercase() as usize] = value as u8;
                values[digit.to_ascii_uppercase() as usize] = value as u8;
            }
            value += 1;
        }
        Self { name, digits: *digits, values }
    }

    /// Also reads these characters as the digit of this value.
    const fn also<const COUNT: usize>(mut self, characters: [u8; COUNT], value: u8) -> Self {
        let mut index = 0;
        while index < COUNT {
            self.values[characters[index] as usize] = value;
            index += 1;
        }
        self
    }

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
        let value = *self.values.get(usize::try_from(u32::from(digit)).ok()?)?;
        (value != NONE).then_some(u64::from(value))
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
