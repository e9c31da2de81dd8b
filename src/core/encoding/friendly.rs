//! The fields of an ID as a text that people read.

use std::fmt;

use crate::core::{
    id::{Id, InvalidId},
    layout::{Fields, Layout},
};

const DAY_MS: i128 = 86_400_000;

pub(super) fn write(out: &mut impl fmt::Write, id: Id, layout: &Layout) -> fmt::Result {
    let Fields { tick, data_center, worker, lane, sequence, reserved } = layout.decompose(id);
    write_instant(out, start_of_tick(layout, i128::from(tick)))?;
    write!(out, "-{data_center}-{worker}-{lane}-{sequence}-{reserved}")
}

pub(super) fn decode(text: &str, layout: &Layout) -> Result<Id, InvalidId> {
    if layout.wraps() {
        return Err(InvalidId::Wraps);
    }
    let mut reader = Reader { text, position: 0 };
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
    let tick = u64::try_from(ticks).map_err(|_| out_of_range(layout))?;
    if tick > layout.last_tick() {
        return Err(out_of_range(layout));
    }
    let start = start_of_tick(layout, ticks);
    if start != unix_ms {
        return Err(InvalidId::InsideTick { starts: instant_text(start) });
    }
    let id = layout.join(&Fields { tick, data_center, worker, lane, sequence, reserved })?;
    // One ID has one text: no leading zeros, and no 30th of February.
    let mut written = String::with_capacity(text.len());
    write(&mut written, id, layout).expect("a string takes any text");
    if written == text { Ok(id) } else { Err(InvalidId::OtherwiseWritten { written }) }
}

fn out_of_range(layout: &Layout) -> InvalidId {
    InvalidId::FriendlyInstant {
        first: instant_text(start_of_tick(layout, 0)),
        last: instant_text(start_of_tick(layout, i128::from(layout.last_tick()))),
    }
}

/// In milliseconds; wide, because a layout's last ticks may lie beyond an `i64`.
fn start_of_tick(layout: &Layout, tick: i128) -> i128 {
    i128::from(layout.epoch_ms()) + tick * i128::from(layout.unit().millis())
}

fn instant_text(unix_ms: i128) -> String {
    let mut text = String::new();
    write_instant(&mut text, unix_ms).expect("a string takes any text");
    text
}

/// ISO 8601's basic format; years beyond 0 to 9999 have a sign, as there.
fn write_instant(out: &mut impl fmt::Write, unix_ms: i128) -> fmt::Result {
    let (year, month, day) = date_of(unix_ms.div_euclid(DAY_MS));
    let of_day = unix_ms.rem_euclid(DAY_MS);
    let (hour, minute) = (of_day / 3_600_000, of_day / 60_000 % 60);
    let (second, millisecond) = (of_day / 1_000 % 60, of_day % 1_000);
    match year {
        0..=9_999 => write!(out, "{year:04}")?,
        10_000.. => write!(out, "+{year}")?,
        _ => write!(out, "-{:04}", -year)?,
    }
    write!(out, "{month:02}{day:02}T{hour:02}{minute:02}{second:02}.{millisecond:03}Z")
}

/// Year, month and day of a day counted from 1970-01-01: `civil_from_days` of Howard Hinnant's
/// "chrono-Compatible Low-Level Date Algorithms". Years begin in March there.
fn date_of(day: i128) -> (i128, i128, i128) {
    let day = day + 719_468;
    let era = day.div_euclid(146_097);
    let of_era = day.rem_euclid(146_097);
    let year_of_era = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * shifted_month + 2) / 5 + 1;
    let month = if shifted_month < 10 { shifted_month + 3 } else { shifted_month - 9 };
    (year_of_era + era * 400 + i128::from(month <= 2), month, day)
}

/// The day, counted from 1970-01-01, of a date: `days_from_civil` of the same source.
fn day_of(year: i128, month: i128, day: i128) -> i128 {
    let year = year - i128::from(month <= 2);
    let era = year.div_euclid(400);
    let year_of_era = year.rem_euclid(400);
    let shifted_month = if month > 2 { month - 3 } else { month + 9 };
    let of_year = (153 * shifted_month + 2) / 5 + day - 1;
    let of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + of_year;
    era * 146_097 + of_era - 719_468
}

/// Reads a text from left to right.
struct Reader<'a> {
    text: &'a str,
    position: usize,
}

impl<'a> Reader<'a> {
    fn rest(&self) -> &'a str {
        // Only ASCII is ever passed over, so this is a boundary.
        &self.text[self.position..]
    }

    fn fail<T>(&self, expected: &'static str) -> Result<T, InvalidId> {
        Err(InvalidId::Friendly { position: self.position, expected })
    }

    fn literal(&mut self, character: char, expected: &'static str) -> Result<(), InvalidId> {
        if !self.rest().starts_with(character) {
            return self.fail(expected);
        }
        self.position += 1;
        Ok(())
    }

    /// A number of so many digits, as many as there are.
    fn number(
        &mut self,
        least: usize,
        most: usize,
        expected: &'static str,
    ) -> Result<u64, InvalidId> {
        let rest = self.rest();
        let digits = rest.bytes().take(most).take_while(u8::is_ascii_digit).count();
        if digits < least {
            self.position += digits;
            return self.fail(expected);
        }
        self.position += digits;
        Ok(rest[..digits].parse().expect("at most 19 decimal digits fit in 64 bits"))
    }

    fn two(&mut self, expected: &'static str) -> Result<i128, InvalidId> {
        self.number(2, 2, expected).map(i128::from)
    }

    fn instant(&mut self) -> Result<i128, InvalidId> {
        let sign = match self.rest().bytes().next() {
            Some(b'-') => -1,
            Some(b'+') => 1,
            _ => 0,
        };
        self.position += usize::from(sign != 0);
        // A year of any length, then month and day.
        let most = if sign == 0 { 8 } else { 19 };
        let date = i128::from(self.number(8, most, "a date such as 20261120")?);
        let year = date / 10_000 * if sign < 0 { -1 } else { 1 };
        let (month, day) = (date / 100 % 100, date % 100);
        self.literal('T', "a T")?;
        let hour = self.two("the hour's digits")?;
        let minute = self.two("the minute's digits")?;
        let second = self.two("the second's digits")?;
        self.literal('.', "a .")?;
        let millisecond = i128::from(self.number(3, 3, "the millisecond's digits")?);
        self.literal('Z', "a Z")?;
        let of_day = ((hour * 60 + minute) * 60 + second) * 1_000 + millisecond;
        Ok(day_of(year, month, day) * DAY_MS + of_day)
    }

    fn end(&self) -> Result<(), InvalidId> {
        if self.rest().is_empty() { Ok(()) } else { self.fail("its end") }
    }
}
