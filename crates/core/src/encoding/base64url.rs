//! RFC 4648's base64url over the 8 big-endian bytes of an ID: 10 digits of 6 bits, and one that
//! holds the last 4 bits before two that are 0.

use std::fmt;

use super::{InvalidId, radix::BASE64URL};
use crate::id::Id;

const LENGTH: usize = 11;

pub(super) fn write(out: &mut impl fmt::Write, id: Id) -> fmt::Result {
    BASE64URL.write(out, id.get() >> 4, LENGTH - 1)?;
    BASE64URL.write(out, (id.get() & 15) << 2, 1)
}

pub(super) fn decode(text: &str) -> Result<Id, InvalidId> {
    let text = text.strip_suffix('=').unwrap_or(text);
    let mut number: u64 = 0;
    for (position, found) in text.chars().enumerate() {
        let value =
            BASE64URL.value_of(found).filter(|value| position != LENGTH - 1 || value % 4 == 0);
        let value = value.ok_or_else(|| BASE64URL.bad_digit(position, found))?;
        // Texts that are too long lose their first digits here and are refused below.
        number = if position < LENGTH - 1 { number << 6 | value } else { number << 4 | value >> 2 };
    }
    match text.len() {
        LENGTH => Id::new(number).ok_or(InvalidId::TooLarge),
        found => Err(InvalidId::Length { found, allowed: LENGTH, encoding: "base64url" }),
    }
}
