//! RFC 4648's base64url over the 8 big-endian bytes of an ID: 10 digits of 6 bits, and one that
//! holds the last 4 bits before two that are 0.

use std::fmt;

use crate::core::id::{Id, InvalidId};

const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
const LENGTH: usize = 11;
const NAME: &str = "base64url";

pub(super) fn write(out: &mut impl fmt::Write, id: Id) -> fmt::Result {
    let mut digits = [0; LENGTH];
    for (index, digit) in digits.iter_mut().enumerate() {
        let bits = if index < LENGTH - 1 { id.get() >> (58 - 6 * index) } else { id.get() << 2 };
        *digit = DIGITS[usize::from((bits & 63).to_le_bytes()[0])];
    }
    out.write_str(std::str::from_utf8(&digits).expect("every digit is ASCII"))
}

pub(super) fn decode(text: &str) -> Result<Id, InvalidId> {
    let text = text.strip_suffix('=').unwrap_or(text);
    let mut number: u64 = 0;
    for (position, found) in text.chars().enumerate() {
        let value = value_of(found).filter(|value| position != LENGTH - 1 || value % 4 == 0);
        let value = value.ok_or(InvalidId::BadDigit { position, found, encoding: NAME })?;
        // Texts that are too long lose their first digits here and are refused below.
        number = if position < LENGTH - 1 { number << 6 | value } else { number << 4 | value >> 2 };
    }
    match text.len() {
        LENGTH => Id::new(number).ok_or(InvalidId::TooLarge),
        found => Err(InvalidId::Length { found, allowed: LENGTH, encoding: NAME }),
    }
}

fn value_of(digit: char) -> Option<u64> {
    let value = match digit {
        'A'..='Z' => u64::from(digit) - u64::from('A'),
        'a'..='z' => u64::from(digit) - u64::from('a') + 26,
        '0'..='9' => u64::from(digit) - u64::from('0') + 52,
        '-' => 62,
        '_' => 63,
        _ => return None,
    };
    Some(value)
}
