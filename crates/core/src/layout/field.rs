//! The fields of an ID and their order, and IDs taken apart into fields and an instant.

use super::Layout;
use crate::{id::Id, instant::format_unix_ms_or_year};

/// The fields of one ID.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Fields {
    /// Ticks since the epoch; where the time wraps, only their low bits.
    pub tick: u64,
    /// The data centre.
    pub data_center: u64,
    /// The worker id.
    pub worker: u64,
    /// The lane.
    pub lane: u64,
    /// The number inside the tick.
    pub sequence: u64,
    /// The constant low-order field.
    pub reserved: u64,
}

impl Fields {
    pub(crate) const fn get_mut(&mut self, kind: FieldKind) -> &mut u64 {
        match kind {
            FieldKind::Time => &mut self.tick,
            FieldKind::DataCenter => &mut self.data_center,
            FieldKind::Worker => &mut self.worker,
            FieldKind::Lane => &mut self.lane,
            FieldKind::Sequence => &mut self.sequence,
            FieldKind::Reserved => &mut self.reserved,
        }
    }
}

/// A field of an ID, by the name that it has in descriptions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FieldKind {
    /// Ticks since the epoch.
    Time,
    /// The data centre.
    DataCenter,
    /// The worker id.
    Worker,
    /// The lane.
    Lane,
    /// The number inside a tick.
    Sequence,
    /// Constant bits, or bits whose meaning is unknown.
    Reserved,
}

impl FieldKind {
    pub(crate) const ALL: [Self; 6] =
        [Self::Time, Self::DataCenter, Self::Worker, Self::Lane, Self::Sequence, Self::Reserved];

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Time => "time",
            Self::DataCenter => "data_center",
            Self::Worker => "worker",
            Self::Lane => "lane",
            Self::Sequence => "sequence",
            Self::Reserved => "reserved",
        }
    }
}

/// Where the sequence stands. The timestamp is always first and the reserved field last.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FieldOrder {
    /// Timestamp · data centre · worker · rollback · sequence · reserved: the default.
    #[default]
    WorkerSequence,
    /// Timestamp · sequence · data centre · worker · rollback · reserved, as in sonyflake.
    SequenceWorker,
}

impl FieldOrder {
    /// Every order.
    pub const ALL: [Self; 2] = [Self::WorkerSequence, Self::SequenceWorker];

    /// Its name in configuration and layout records.
    pub const fn name(self) -> &'static str {
        match self {
            Self::WorkerSequence => "time-worker-sequence",
            Self::SequenceWorker => "time-sequence-worker",
        }
    }

    /// Returns the order of this name.
    pub fn by_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|order| order.name() == name)
    }
}

impl Layout {
    /// Where the sequence stands.
    pub const fn order(&self) -> FieldOrder {
        self.order
    }

    /// Returns every field and its width, from the most significant. A width may be 0.
    pub fn fields(&self) -> [(FieldKind, u32); 6] {
        let widths = self.widths;
        let mut fields = [
            (FieldKind::Time, widths.timestamp),
            (FieldKind::DataCenter, widths.data_center),
            (FieldKind::Worker, widths.worker),
            (FieldKind::Lane, widths.rollback),
            (FieldKind::Sequence, widths.sequence),
            (FieldKind::Reserved, widths.reserved),
        ];
        if self.order == FieldOrder::SequenceWorker {
            fields[1..5].rotate_right(1);
        }
        fields
    }

    /// Returns how many bits are below the sequence.
    pub(super) const fn sequence_shift(&self) -> u32 {
        let widths = self.widths;
        match self.order {
            FieldOrder::WorkerSequence => widths.reserved,
            FieldOrder::SequenceWorker => widths.below_timestamp() - widths.sequence,
        }
    }
}

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
