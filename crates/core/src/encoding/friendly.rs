//! The encoding `friendly`: the fields of an ID as a text for people.

use std::{
    fmt::{self, Debug},
    str::FromStr,
};

use jiff::{SignedDuration, ToSpan, civil::DateTime};

use super::{InvalidId, write_decimal};
use crate::{
    id::Id,
    issue::IdRange,
    layout::{Fields, Layout},
};

const UNIX_EPOCH: DateTime = DateTime::constant(1970, 1, 1, 0, 0, 0, 0);
/// The Gregorian calendar repeats every 400 years, so jiff's, which ends with the year 9999, serves
/// for every year.
const CYCLE_YEARS: i128 = 400;
const CYCLE_MS: i128 = 146_097 * 86_400_000;

pub(super) fn write(out: &mut impl fmt::Write, id: Id, layout: &Layout) -> fmt::Result {
    let Fields { tick, data_center, worker, lane, sequence, reserved } = layout.decompose(id);
    write_instant(out, start_of_tick(layout, i128::from(tick)))?;
    write!(out, "-{data_center}-{worker}-{lane}-{sequence}-{reserved}")
}

/// Appends IDs of one tick, each between the same two texts. Writes the instant once and copies it.
pub(super) fn write_range(
    out: &mut Vec<u8>,
    range: &IdRange,
    layout: &Layout,
    before: &str,
    after: &str,
) {
    let Fields { tick, data_center, worker, lane, reserved, .. } = layout.decompose(range.first);
    let instant = instant_text(start_of_tick(layout, i128::from(tick)));
    let head = format!("{before}{instant}-{data_center}-{worker}-{lane}-");
    let tail = format!("-{reserved}{after}");
    for index in 0..range.count {
        let id = Id::from_composed(range.first.get() + index * range.step);
        out.extend_from_slice(head.as_bytes());
        write_decimal(out, Id::from_composed(layout.decompose(id).sequence));
        out.extend_from_slice(tail.as_bytes());
    }
}

pub(super) fn decode(text: &str, layout: &Layout) -> Result<Id, InvalidId> {
    if layout.wraps() {
        return Err(InvalidId::Wraps);
    }
    let mut reader = Reader { length: text.len(), rest: text };
    let unix_ms = reader.instant()?;
    let mut field = || {
        reader.literal('-', "a -")?;
        reader.number(1, 19, "a field's digits")
    };
    let (data_center, worker, lane) = (field()?, field()?, field()?);
    let (sequence, reserved) = (field()?, field()?);
    reader.end()?;
    let since_epoch = unix_ms - i128::from(layout.epoch_ms());
    let ticks = since_epoch.div_euclid(i128::from(layout.unit().millis()));
    let Some(tick) = u64::try_from(ticks).ok().filter(|tick| *tick <= layout.last_tick()) else {
        let last = i128::from(layout.last_tick());
        let [first, last] = [0, last].map(|tick| instant_text(start_of_tick(layout, tick)));
        return Err(InvalidId::FriendlyInstant { first, last });
    };
    let start = start_of_tick(layout, ticks);
    if start != unix_ms {
        return Err(InvalidId::InsideTick { starts: instant_text(start) });
    }
    let id = layout.join(&Fields { tick, data_center, worker, lane, sequence, reserved })?;
    // An ID has a single text, so leading zeros and a 30th of February are refused.
    let mut written = String::with_capacity(text.len());
    write(&mut written, id, layout).expect("a string takes any text");
    if written == text { Ok(id) } else { Err(InvalidId::OtherwiseWritten { written }) }
}

/// Returns the start of a tick in Unix milliseconds, which may not fit into an `i64`.
fn start_of_tick(layout: &Layout, tick: i128) -> i128 {
    i128::from(layout.epoch_ms()) + tick * i128::from(layout.unit().millis())
}

fn instant_text(unix_ms: i128) -> String {
    let mut text = String::new();
    write_instant(&mut text, unix_ms).expect("a string takes any text");
    text
}

/// Writes an instant in the basic format of ISO 8601, in which years outside 0 to 9999 have a sign.
fn write_instant(out: &mut impl fmt::Write, unix_ms: i128) -> fmt::Result {
    let in_cycle = i64::try_from(unix_ms.rem_euclid(CYCLE_MS)).expect("below 400 years");
    let date_time = UNIX_EPOCH + SignedDuration::from_millis(in_cycle);
    let year = i128::from(date_time.year()) + unix_ms.div_euclid(CYCLE_MS) * CYCLE_YEARS;
    match year {
        0..=9_999 => write!(out, "{year:04}")?,
        10_000.. => write!(out, "+{year}")?,
        _ => write!(out, "-{:04}", -year)?,
    }
    write!(out, "{}", date_time.strftime("%m%dT%H%M%S%.3fZ"))
}

/// Reads a text from left to right.
struct Reader<'a> {
    length: usize,
    rest: &'a str,
}

impl Reader<'_> {
    fn fail<T>(&self, expected: &'static str) -> Result<T, InvalidId> {
        Err(InvalidId::Friendly { position: self.length - self.rest.len(), expected })
    }

    fn literal(&mut self, character: char, expected: &'static str) -> Result<(), InvalidId> {
        let Some(rest) = self.rest.strip_prefix(character) else { return self.fail(expected) };
        self.rest = rest;
        Ok(())
    }

    /// Reads a number of `least` to `most` digits; takes as many digits as there are. At most 19
    /// fit into 64 bits.
    fn number<T: FromStr<Err: Debug>>(
        &mut self,
        least: usize,
        most: usize,
        expected: &'static str,
    ) -> Result<T, InvalidId> {
        let count = self.rest.bytes().take(most).take_while(u8::is_ascii_digit).count();
        let (digits, rest) = self.rest.split_at(count);
        self.rest = rest;
        if count < least {
            return self.fail(expected);
        }
        Ok(digits.parse().expect("decimal digits that fit"))
    }

    fn instant(&mut self) -> Result<i128, InvalidId> {
        let sign = if self.rest.starts_with('-') { -1 } else { 1 };
        let unsigned = self.rest.strip_prefix(['-', '+']);
        // After a sign, the year has any length; the last four digits are month and day.
        let most = if unsigned.is_some() { 19 } else { 8 };
        self.rest = unsigned.unwrap_or(self.rest);
        let date: i128 = self.number(8, most, "a date such as 20261120")?;
        let year = date / 10_000 * sign;
        let [in_cycle, month, day] = [year.rem_euclid(CYCLE_YEARS), date / 100 % 100, date % 100]
            .map(|number| i16::try_from(number).expect("at most 399"));
        self.literal('T', "a T")?;
        let hour: i128 = self.number(2, 2, "the hour's digits")?;
        let minute: i128 = self.number(2, 2, "the minute's digits")?;
        let second: i128 = self.number(2, 2, "the second's digits")?;
        self.literal('.', "a .")?;
        let millisecond: i128 = self.number(3, 3, "the millisecond's digits")?;
        self.literal('Z', "a Z")?;
        let start_of_year = DateTime::constant(2_000 + in_cycle, 1, 1, 0, 0, 0, 0);
        // Add the days: a 30th of February becomes the 1st or 2nd of March, and is refused later.
        let date = start_of_year + (month - 1).months() + (day - 1).days();
        let of_day = ((hour * 60 + minute) * 60 + second) * 1_000 + millisecond;
        let cycles_since_2000 = year.div_euclid(CYCLE_YEARS) - 2_000 / CYCLE_YEARS;
        let date_ms = date.duration_since(UNIX_EPOCH).as_millis() + cycles_since_2000 * CYCLE_MS;
        Ok(date_ms + of_day)
    }

    fn end(&self) -> Result<(), InvalidId> {
        if self.rest.is_empty() { Ok(()) } else { self.fail("its end") }
    }
}
