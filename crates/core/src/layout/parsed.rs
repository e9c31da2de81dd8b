//! IDs taken apart into fields and an instant.

use super::{Fields, Layout};
use crate::{id::Id, instant::format_unix_ms_or_year};

/// How far ahead of the reader's clock an ID may be, in milliseconds: clocks differ.
const AHEAD_MS: i64 = 10_000;

/// An ID taken apart, with its instant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parsed {
    /// The fields as the ID holds them.
    pub fields: Fields,
    /// The start of the ID's tick, in Unix milliseconds.
    pub unix_ms: i64,
    /// Whether the timestamp wraps. Then `unix_ms` is the latest possible instant that is at most
    /// 10 s after the reader's clock.
    pub wraps: bool,
}

impl Parsed {
    /// Returns a warning if the instant is later than `now_ms`, the reader's clock, or before
    /// `first`: the name of a system and the instant of its first ID. Then the layout or its epoch
    /// is probably not that of the ID.
    pub fn warning(&self, first: Option<(&str, i64)>, now_ms: i64) -> Option<String> {
        let instant = format_unix_ms_or_year(self.unix_ms);
        if self.unix_ms > now_ms.saturating_add(AHEAD_MS) {
            return Some(format!("the timestamp {instant} is in the future"));
        }
        let (name, first_ms) = first.filter(|(_, first_ms)| self.unix_ms < *first_ms)?;
        let first = format_unix_ms_or_year(first_ms);
        Some(format!("the timestamp {instant} is before {name} issued its first IDs ({first})"))
    }
}

/// An ID with more bits than the layout has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{id} has more than the {bits} bits of this layout, whose IDs are at most {}", (1_u64 << bits) - 1)]
pub struct TooLong {
    /// The ID.
    pub id: Id,
    /// How many bits the layout has.
    pub bits: u32,
}

impl Layout {
    /// Returns the fields and the instant of an ID. `now_ms` is the reader's clock in Unix
    /// milliseconds; it matters only where the time [wraps](Layout::wraps).
    ///
    /// # Errors
    ///
    /// When the ID has more bits than the layout.
    pub fn parse(&self, id: Id, now_ms: i64) -> Result<Parsed, TooLong> {
        let bits = self.widths.total();
        if id.get() >> bits != 0 {
            return Err(TooLong { id, bits });
        }
        let fields = self.decompose(id);
        let unix_ms = if self.wraps {
            self.latest_start_ms(fields.tick, now_ms.saturating_add(AHEAD_MS))
        } else {
            self.start_of_tick_ms(fields.tick)
        };
        Ok(Parsed { fields, unix_ms, wraps: self.wraps })
    }

    /// Returns the start of the latest tick with this timestamp that starts by `until_ms`.
    fn latest_start_ms(&self, timestamp: u64, until_ms: i64) -> i64 {
        let round = 1_i64 << self.widths.timestamp;
        let timestamp = i64::try_from(timestamp).unwrap_or(i64::MAX);
        let latest = self.tick_at(until_ms);
        let tick = latest.saturating_sub(latest.saturating_sub(timestamp).rem_euclid(round));
        tick.saturating_add(self.epoch_units).saturating_mul(self.unit.millis())
    }
}
