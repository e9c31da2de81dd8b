//! The encodings `uuid7` and `typeid`: an ID, filled up with random bits to a UUID of version 7
//! (RFC 9562, section 5.7).
//!
//! | bits | content |
//! |---|---|
//! | 48 | the start of the ID's tick in Unix milliseconds |
//! | 4 | the version, 7 |
//! | 12 | `rand_a`: the highest bits of the fields, which are all below the timestamp |
//! | 2 | the variant, binary 10 |
//! | 62 | `rand_b`: the other bits of the fields, then random bits |
//!
//! The fields stand in the order of the layout. So UUIDs sort as their IDs do, and two IDs never
//! have the same UUID, whatever the random bits are. Reading a UUID drops the random bits.
//!
//! A TypeID 0.3 writes the same 128 bits in 26 digits. Its prefix is that of the code, which this
//! module neither writes nor reads. Nothing here decides whether a UUID was issued: one of another
//! system may have fields that fit the layout.

use std::{
    cell::RefCell,
    fmt::{self, Write},
};

use uuid::{Uuid, Variant};

use super::{EncoderError, Encoding, InvalidId};
use crate::{
    id::Id,
    layout::{Layout, TimeUnit},
};

/// The bits of a UUID besides instant, version and variant.
const FREE_BITS: u32 = 74;
/// The bits of `rand_b`.
const LOW_BITS: u32 = 62;
/// The bits of the instant, which last until the year 10889.
const TIME_BITS: u32 = 48;
/// The units of 100 ns from the start of the Gregorian calendar to 1970.
const TICKS_TO_1970: i64 = 0x01B2_1DD2_1381_4000;
/// How many UUIDs are filled from one call of the operating system.
const BLOCK: usize = 64;

/// Returns how many bits of a UUID are random.
///
/// # Errors
///
/// When the layout's IDs cannot be written as UUIDs.
pub(super) fn random_bits(encoding: Encoding, layout: &Layout) -> Result<u32, EncoderError> {
    if layout.wraps() {
        return Err(EncoderError::Wraps { encoding });
    }
    let unit = layout.unit();
    if unit != TimeUnit::Millisecond {
        return Err(EncoderError::Unit { encoding, unit });
    }
    if layout.epoch_ms() < 0 {
        return Err(EncoderError::Before1970 { encoding });
    }
    // An ID has 63 bits, so its fields always fit.
    Ok(FREE_BITS - layout.widths().below_timestamp())
}

/// Writes an ID of a layout that has [`random_bits`].
pub(super) fn write(
    out: &mut impl Write,
    encoding: Encoding,
    id: Id,
    layout: &Layout,
) -> fmt::Result {
    write_uuid(out, encoding, uuid_of(id, layout, next_random()))
}

/// Writes the smallest UUID that an ID can have.
pub(super) fn write_smallest(
    out: &mut impl Write,
    encoding: Encoding,
    id: Id,
    layout: &Layout,
) -> fmt::Result {
    write_uuid(out, encoding, uuid_of(id, layout, 0))
}

fn write_uuid(out: &mut impl Write, encoding: Encoding, uuid: Uuid) -> fmt::Result {
    match encoding {
        Encoding::Typeid => write_typeid(out, uuid),
        _ => out.write_str(uuid.hyphenated().encode_lower(&mut Uuid::encode_buffer())),
    }
}

pub(super) fn decode(encoding: Encoding, text: &str, layout: &Layout) -> Result<Id, InvalidId> {
    random_bits(encoding, layout)?;
    let uuid = match encoding {
        Encoding::Typeid => read_typeid(text)?,
        _ => {
            Uuid::parse_str(text).map_err(|error| InvalidId::Uuid { reason: error.to_string() })?
        }
    };
    id_of(uuid, layout)
}

fn uuid_of(id: Id, layout: &Layout, random: u128) -> Uuid {
    let below = layout.widths().below_timestamp();
    let tick = id.get() >> below;
    let fields = id.get() - (tick << below);
    let unix_ms = layout.start_of_tick_ms(tick).unsigned_abs();
    let random_bits = FREE_BITS - below;
    let free = u128::from(fields) << random_bits | random & low_mask(random_bits);
    Uuid::from_u128(
        (u128::from(unix_ms) & low_mask(TIME_BITS)) << 80
            | 7 << 76
            | (free >> LOW_BITS) << 64
            | 0b10 << LOW_BITS
            | free & low_mask(LOW_BITS),
    )
}

fn id_of(uuid: Uuid, layout: &Layout) -> Result<Id, InvalidId> {
    let bits = uuid.as_u128();
    let unix_ms = i64::try_from(bits >> 80).expect("48 bits");
    let is_version_7 = uuid.get_variant() == Variant::RFC4122 && uuid.get_version_num() == 7;
    let tick = layout.tick_in_range(unix_ms).filter(|_| is_version_7);
    let Some(tick) = tick else { return Err(foreign(uuid)) };
    let free = (bits >> 64 & 0xfff) << LOW_BITS | bits & low_mask(LOW_BITS);
    let below = layout.widths().below_timestamp();
    let fields = u64::try_from(free >> (FREE_BITS - below)).expect("fields of an ID");
    Ok(Id::from_composed(tick << below | fields))
}

/// Returns the error for a UUID that no ID of the layout has.
fn foreign(uuid: Uuid) -> InvalidId {
    if uuid.get_variant() != Variant::RFC4122 {
        return InvalidId::UuidVariant;
    }
    let version = u8::try_from(uuid.get_version_num()).expect("4 bits");
    // Versions 1 and 6 count units of 100 ns from 1582.
    let unix_ms = uuid.get_timestamp().map(|time| match version {
        7 => i64::try_from(uuid.as_u128() >> 80).expect("48 bits"),
        _ => {
            let (ticks, _) = time.to_gregorian();
            ticks.cast_signed().wrapping_sub(TICKS_TO_1970).div_euclid(10_000)
        }
    });
    InvalidId::ForeignUuid { version, unix_ms }
}

const fn low_mask(bits: u32) -> u128 {
    (1 << bits) - 1
}

/// The digits of a TypeID: Crockford's, in lower case alone.
const TYPEID_DIGITS: &[u8; 32] = b"0123456789abcdefghjkmnpqrstvwxyz";
/// 26 digits have 130 bits, of which the first two are 0.
const TYPEID_LENGTH: u32 = 26;

/// Returns whether a prefix, with the `_` after it, is one of a TypeID.
pub(super) fn is_typeid_prefix(text: &str) -> bool {
    let Some(prefix) = text.strip_suffix('_') else { return false };
    let is_letter = |byte: Option<u8>| byte.is_some_and(|byte| byte.is_ascii_lowercase());
    prefix.len() <= 63
        && is_letter(prefix.bytes().next())
        && is_letter(prefix.bytes().last())
        && prefix.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_')
}

fn write_typeid(out: &mut impl Write, uuid: Uuid) -> fmt::Result {
    for place in (0..TYPEID_LENGTH).rev() {
        let digit = uuid.as_u128() >> (5 * place) & 31;
        out.write_char(char::from(TYPEID_DIGITS[digit as usize]))?;
    }
    Ok(())
}

fn read_typeid(text: &str) -> Result<Uuid, InvalidId> {
    let mut bits = 0_u128;
    for (position, found) in text.chars().enumerate() {
        let digit = TYPEID_DIGITS.iter().position(|digit| char::from(*digit) == found);
        let digit = digit.ok_or(InvalidId::BadDigit { position, found, encoding: "typeid" })?;
        bits = bits << 5 | digit as u128;
    }
    let found = text.len();
    if found != TYPEID_LENGTH as usize {
        return Err(InvalidId::Length {
            found,
            allowed: TYPEID_LENGTH as usize,
            encoding: "typeid",
        });
    }
    if text.as_bytes()[0] > b'7' {
        return Err(InvalidId::TypeidTooLarge);
    }
    Ok(Uuid::from_u128(bits))
}

/// Returns 128 random bits. Asks the operating system for a block of them at a time.
fn next_random() -> u128 {
    thread_local! {
        static UNUSED: RefCell<Vec<[u8; 16]>> = const { RefCell::new(Vec::new()) };
    }
    UNUSED.with_borrow_mut(|unused| {
        if unused.is_empty() {
            let mut block = [[0; 16]; BLOCK];
            getrandom::fill(block.as_flattened_mut())
                .expect("the operating system has random numbers");
            unused.extend(block);
        }
        u128::from_ne_bytes(unused.pop().expect("filled above"))
    })
}

#[cfg(test)]
mod tests;
