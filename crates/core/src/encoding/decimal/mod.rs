//! Decimal texts, four digits at a time from a table.
//!
//! Converting a number costs a division and a look-up for every few digits. Neighbouring IDs differ
//! only in their last digits, so a range is written as one text, repeated, and the last digits are
//! then replaced.

#[cfg(test)]
mod tests;

use crate::{id::Id, issue::IdRange};

/// The numbers below 10 000 as four digits each.
static FOUR_DIGITS: [[u8; 4]; 10_000] = four_digits();

/// How many numbers have at most four digits.
const GROUP: u64 = FOUR_DIGITS.len() as u64;

#[expect(clippy::cast_possible_truncation, reason = "a digit is below 10")]
const fn four_digits() -> [[u8; 4]; 10_000] {
    let mut table = [[0; 4]; 10_000];
    let mut number = 0;
    while number < table.len() {
        let digits = [number / 1_000, number / 100 % 10, number / 10 % 10, number % 10];
        let mut index = 0;
        while index < digits.len() {
            table[number][index] = b'0' + digits[index] as u8;
            index += 1;
        }
        number += 1;
    }
    table
}

fn last_four(number: u64) -> [u8; 4] {
    let index = usize::try_from(number % GROUP).expect("below 10 000");
    FOUR_DIGITS[index]
}

/// Appends an ID in decimal, like its `Display`.
///
/// # Examples
///
/// ```
/// use raindrop_core::{encoding::write_decimal, id::Id};
///
/// let mut body = br#"{"id":""#.to_vec();
/// write_decimal(&mut body, Id::MAX);
/// assert_eq!(body, br#"{"id":"9223372036854775807"#);
/// ```
pub fn write_decimal(buffer: &mut Vec<u8>, id: Id) {
    const EIGHT_DIGITS: u64 = GROUP.pow(2);
    const SIXTEEN_DIGITS: u64 = GROUP.pow(4);
    let number = id.get();
    if number < SIXTEEN_DIGITS {
        return write_groups(buffer, number);
    }
    // Most IDs have 17 to 19 digits. The divisions of the two halves run in parallel.
    let low = number % SIXTEEN_DIGITS;
    let (high, low) = (low / EIGHT_DIGITS, low % EIGHT_DIGITS);
    let (leading, length) = leading_digits(number / SIXTEEN_DIGITS);
    // Store each digit in its final place: reading back what was just stored would stall.
    let start = buffer.len();
    buffer.extend_from_slice(&[0; 20]);
    if let Some(text) = buffer.last_chunk_mut::<20>() {
        text[..4].copy_from_slice(&leading);
        let groups = text[length..].as_chunks_mut::<4>().0.iter_mut();
        for (digits, number) in groups.zip([high / GROUP, high, low / GROUP, low]) {
            *digits = last_four(number);
        }
    }
    buffer.truncate(start + length + 16);
}

fn write_groups(buffer: &mut Vec<u8>, number: u64) {
    if number < GROUP {
        return write_leading(buffer, number);
    }
    write_groups(buffer, number / GROUP);
    buffer.extend_from_slice(&last_four(number));
}

/// Appends a number below 10 000 without leading zeros.
fn write_leading(buffer: &mut Vec<u8>, number: u64) {
    // Copying a fixed length and cutting it is quicker than copying a length that varies.
    let (digits, length) = leading_digits(number);
    buffer.extend_from_slice(&digits);
    buffer.truncate(buffer.len() - 4 + length);
}

/// The digits of a number below 10 000 without leading zeros, and how many there are.
fn leading_digits(number: u64) -> ([u8; 4], usize) {
    let zeros = usize::from(number < 1_000) + usize::from(number < 100) + usize::from(number < 10);
    let digits = u32::from_le_bytes(last_four(number)) >> (8 * zeros);
    (digits.to_le_bytes(), 4 - zeros)
}

/// Appends a range of IDs in decimal, each between the same two texts.
///
/// # Examples
///
/// ```
/// use raindrop_core::{encoding::write_decimal_range, id::Id, issue::IdRange};
///
/// let id = |number| Id::new(number).expect("63 bits");
/// let range = IdRange { first: id(9_998), last: id(10_001), step: 1, count: 4 };
/// let mut body = Vec::new();
/// write_decimal_range(&mut body, &range, "\"order-", "\",");
/// assert_eq!(body, br#""order-9998","order-9999","order-10000","order-10001","#);
/// ```
pub fn write_decimal_range(buffer: &mut Vec<u8>, range: &IdRange, before: &str, after: &str) {
    // With a step of up to a million, a hundred IDs or more then share their leading digits. With a
    // step above 100 million, every ID is converted separately.
    if range.step <= 100 {
        write_parts::<1>(buffer, range, before, after);
    } else {
        write_parts::<2>(buffer, range, before, after);
    }
}

/// Appends a range in parts whose IDs differ only in the last `GROUPS` groups of four digits.
fn write_parts<const GROUPS: u32>(
    buffer: &mut Vec<u8>,
    range: &IdRange,
    before: &str,
    after: &str,
) {
    let span = const { GROUP.pow(GROUPS) };
    let mut written = 0;
    while written < range.count {
        let number = range.first.get() + written * range.step;
        let start = buffer.len();
        buffer.extend_from_slice(before.as_bytes());
        write_decimal(buffer, Id::from_composed(number));
        let digits_end = buffer.len() - start;
        buffer.extend_from_slice(after.as_bytes());
        written += 1;
        if number < span {
            // The next ID may have one digit more.
            continue;
        }
        let length = buffer.len() - start;
        let low = number % span;
        let left = range.count - written;
        let alike = (span - 1 - low).checked_div(range.step).map_or(left, |alike| alike.min(left));
        repeat(buffer, start, alike);
        let changing = &mut buffer[start + digits_end - 4 * GROUPS as usize..];
        if range.step == 1 {
            write_consecutive(changing, length, low);
        } else {
            write_spaced::<GROUPS>(changing, length, low, range.step);
        }
        written += alike;
    }
}

/// Writes `low` and the numbers after it as four digits each, at the start of every `length` bytes.
fn write_consecutive(texts: &mut [u8], length: usize, low: u64) {
    let low = usize::try_from(low).expect("below 10 000");
    let (fours, rest) = texts.split_at_mut(texts.len() - texts.len() % (4 * length));
    let (numbers, last_numbers) = FOUR_DIGITS[low..].split_at(fours.len() / length);
    // Four numbers at a time, so that each costs little more than a load and a store.
    for (texts, numbers) in fours.chunks_exact_mut(4 * length).zip(numbers.as_chunks::<4>().0) {
        for (index, digits) in numbers.iter().enumerate() {
            texts[index * length..][..4].copy_from_slice(digits);
        }
    }
    for (text, digits) in rest.chunks_mut(length).zip(last_numbers) {
        text[..4].copy_from_slice(digits);
    }
}

/// Writes `low` and each `step` after it as `GROUPS` groups of four digits in the same way.
fn write_spaced<const GROUPS: u32>(texts: &mut [u8], length: usize, low: u64, step: u64) {
    let mut next = low;
    for text in texts.chunks_mut(length) {
        let mut number = next;
        for digits in text[..4 * GROUPS as usize].as_chunks_mut().0.iter_mut().rev() {
            *digits = last_four(number);
            number /= GROUP;
        }
        next += step;
    }
}

/// Appends the end of the buffer, from `start` on, this many times.
fn repeat(buffer: &mut Vec<u8>, start: usize, times: u64) {
    let times = usize::try_from(times).expect("fits in memory");
    let mut missing = (buffer.len() - start).saturating_mul(times);
    buffer.reserve(missing);
    while missing > 0 {
        // Each copy doubles the text.
        let copied = missing.min(buffer.len() - start);
        buffer.extend_from_within(start..start + copied);
        missing -= copied;
    }
}
