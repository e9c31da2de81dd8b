//! Decimal texts.
//!
//! Neighbouring IDs differ only in their last digits, so a range is written as one text, repeated,
//! and the last four digits are then replaced from a table.

#[cfg(test)]
mod tests;

use std::io::Write as _;

use crate::core::{id::Id, issue::IdRange};

/// The numbers below 10 000 as four digits each.
static FOUR_DIGITS: [[u8; 4]; 10_000] = four_digits();

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

/// Appends an ID in decimal, like its `Display`.
///
/// # Examples
///
/// ```
/// use raindrop::core::{encoding::write_decimal, id::Id};
///
/// let mut body = br#"{"id":""#.to_vec();
/// write_decimal(&mut body, Id::MAX);
/// assert_eq!(body, br#"{"id":"9223372036854775807"#);
/// ```
pub fn write_decimal(buffer: &mut Vec<u8>, id: Id) {
    write!(buffer, "{id}").expect("a vector takes any bytes");
}

/// Appends a range of IDs in decimal, each between the same two texts.
///
/// # Examples
///
/// ```
/// use raindrop::core::{encoding::write_decimal_range, id::Id, issue::IdRange};
///
/// let id = |number| Id::new(number).expect("63 bits");
/// let range = IdRange { first: id(9_998), last: id(10_001), step: 1, count: 4 };
/// let mut body = Vec::new();
/// write_decimal_range(&mut body, &range, "\"order-", "\",");
/// assert_eq!(body, br#""order-9998","order-9999","order-10000","order-10001","#);
/// ```
pub fn write_decimal_range(buffer: &mut Vec<u8>, range: &IdRange, before: &str, after: &str) {
    let numbers = FOUR_DIGITS.len() as u64;
    let mut written = 0;
    while written < range.count {
        let number = range.first.get() + written * range.step;
        let start = buffer.len();
        buffer.extend_from_slice(before.as_bytes());
        write_decimal(buffer, Id::from_composed(number));
        let digits_end = buffer.len() - start;
        buffer.extend_from_slice(after.as_bytes());
        written += 1;
        if number < numbers {
            // The next one may have more digits.
            continue;
        }
        let length = buffer.len() - start;
        let low = number % numbers;
        let left = range.count - written;
        let alike =
            (numbers - 1 - low).checked_div(range.step).map_or(left, |alike| alike.min(left));
        repeat(buffer, start, alike);
        write_last_four(&mut buffer[start + digits_end - 4..], length, low, range.step);
        written += alike;
    }
}

/// Writes `low` and each `step` after it as four digits, at the start of every `length` bytes.
fn write_last_four(texts: &mut [u8], length: usize, low: u64, step: u64) {
    let low = usize::try_from(low).expect("below 10 000");
    if step != 1 {
        let step = usize::try_from(step.max(1)).unwrap_or(usize::MAX);
        for (text, digits) in texts.chunks_mut(length).zip(FOUR_DIGITS[low..].iter().step_by(step))
        {
            text[..4].copy_from_slice(digits);
        }
        return;
    }
    let (fours, rest) = texts.split_at_mut(texts.len() - texts.len() % (4 * length));
    let (numbers, last_numbers) = FOUR_DIGITS[low..].split_at(fours.len() / length);
    // Four at a time, so that each costs little more than a load and a store.
    for (texts, numbers) in fours.chunks_exact_mut(4 * length).zip(numbers.as_chunks::<4>().0) {
        for (index, digits) in numbers.iter().enumerate() {
            texts[index * length..][..4].copy_from_slice(digits);
        }
    }
    for (text, digits) in rest.chunks_mut(length).zip(last_numbers) {
        text[..4].copy_from_slice(digits);
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
