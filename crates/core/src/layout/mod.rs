//! How the 63 bits of an ID are divided, and the arithmetic of ticks and positions.
//!
//! From the most significant bit: timestamp · data centre · worker · rollback · sequence ·
//! reserved, or with the sequence behind the timestamp ([`FieldOrder`]).
//!
//! A *tick* is `floor(now / unit) − floor(epoch / unit)`, as in treeyh/raindrop. Decoding adds
//! `floor(epoch / unit)` back, so an epoch inside a unit never shifts the time of an ID.
//! A *position* is (tick, sequence) as one ordered integer:
//! `tick · (max_sequence − min_sequence + 1) + (sequence − min_sequence)`.

mod bounds;
mod canonical;
mod composer;
mod field;
mod spec;
mod unit;

pub(crate) use self::spec::ID_BITS;
use self::spec::largest;
pub use self::{
    bounds::{Bounds, BoundsError},
    canonical::InvalidCanonical,
    composer::Composer,
    field::{FieldKind, FieldOrder, Fields, Parsed, TooLong},
    spec::LayoutSpec,
    unit::TimeUnit,
};
use crate::id::Id;

/// The width of ticks in positions where the timestamp wraps, in bits: 2^47 ms are 4459 years.
const WRAPPING_TICK_BITS: u32 = 47;

/// The width of each field in bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Widths {
    /// Ticks since the epoch.
    pub timestamp: u32,
    /// The data centre of the node.
    pub data_center: u32,
    /// The leased worker id.
    pub worker: u32,
    /// The lane.
    pub rollback: u32,
    /// The number inside a tick.
    pub sequence: u32,
    /// A constant.
    pub reserved: u32,
}

impl Widths {
    /// Returns the sum of the widths below the timestamp, which is the shift of the timestamp.
    pub const fn below_timestamp(self) -> u32 {
        self.data_center + self.worker + self.rollback + self.sequence + self.reserved
    }

    /// Returns the sum of the widths: 63, or less where a layout leaves high bits at 0.
    pub const fn total(self) -> u32 {
        self.timestamp + self.below_timestamp()
    }
}

/// A field that does not fit its width, or a sequence number that the layout does not issue.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{field} {value} is outside {low} to {high}")]
pub struct FieldOutOfRange {
    /// The field's name.
    pub field: &'static str,
    /// The value that does not fit.
    pub value: u64,
    /// The smallest value.
    pub low: u64,
    /// The largest value.
    pub high: u64,
}

/// A checked division of 63 bits; built by [`LayoutSpec::build`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layout {
    unit: TimeUnit,
    epoch_units: i64,
    widths: Widths,
    order: FieldOrder,
    data_center: u64,
    rollback_initial: u32,
    reserved: u64,
    min_sequence: u64,
    max_sequence: u64,
    wraps: bool,
}

impl Layout {
    /// The length of a tick.
    pub const fn unit(&self) -> TimeUnit {
        self.unit
    }

    /// The epoch, floored to the unit, in Unix milliseconds.
    pub const fn epoch_ms(&self) -> i64 {
        self.epoch_units.saturating_mul(self.unit.millis())
    }

    /// The width of each field.
    pub const fn widths(&self) -> Widths {
        self.widths
    }

    /// This node's data centre.
    pub const fn data_center(&self) -> u64 {
        self.data_center
    }

    /// The constant in the reserved field.
    pub const fn reserved(&self) -> u64 {
        self.reserved
    }

    /// The first sequence number of a tick.
    pub const fn min_sequence(&self) -> u64 {
        self.min_sequence
    }

    /// The last sequence number of a tick.
    pub const fn max_sequence(&self) -> u64 {
        self.max_sequence
    }

    /// The number of lanes of a worker, 2 to the power of the rollback width.
    pub const fn lanes(&self) -> usize {
        1 << self.widths.rollback
    }

    /// The lane that fresh rows use first.
    pub const fn rollback_initial(&self) -> u32 {
        self.rollback_initial
    }

    /// The smallest worker id: 0, or 1 where the time wraps, so that no ID is 0.
    pub const fn smallest_worker(&self) -> u64 {
        self.wraps as u64
    }

    /// The largest worker id.
    pub const fn largest_worker(&self) -> u64 {
        largest(self.widths.worker)
    }

    /// Whether the timestamp starts again at 0 when it is full, so that IDs repeat after
    /// [`Self::wrap_ms`]. Only IDs wrap; ticks, positions and marks do not.
    pub const fn wraps(&self) -> bool {
        self.wraps
    }

    /// The time after which the timestamp starts again, in milliseconds; `None` if it does not.
    pub fn wrap_ms(&self) -> Option<i64> {
        self.wraps.then(|| (1_i64 << self.widths.timestamp).saturating_mul(self.unit.millis()))
    }

    const fn timestamp_mask(&self) -> u64 {
        largest(self.widths.timestamp)
    }

    /// The last tick that the timestamp can hold; where the time wraps, the last that is counted.
    pub const fn last_tick(&self) -> u64 {
        if self.wraps { largest(WRAPPING_TICK_BITS) } else { self.timestamp_mask() }
    }

    /// The number of positions of a tick.
    pub const fn positions_per_tick(&self) -> u64 {
        self.max_sequence - self.min_sequence + 1
    }

    /// One past the last position of the last tick.
    pub const fn end_position(&self) -> u64 {
        (self.last_tick() + 1) * self.positions_per_tick()
    }

    /// Returns the tick of an instant in Unix milliseconds: negative before the epoch, and above
    /// [`Self::last_tick`] after the end of the timestamp.
    pub const fn tick_at(&self, unix_ms: i64) -> i64 {
        unix_ms.div_euclid(self.unit.millis()).saturating_sub(self.epoch_units)
    }

    /// Returns the tick of an instant, if the timestamp can hold it.
    pub fn tick_in_range(&self, unix_ms: i64) -> Option<u64> {
        u64::try_from(self.tick_at(unix_ms)).ok().filter(|tick| *tick <= self.last_tick())
    }

    /// Returns the tick of an instant, clamped to 0 to [`Self::last_tick`].
    pub fn tick_clamped(&self, unix_ms: i64) -> u64 {
        u64::try_from(self.tick_at(unix_ms)).unwrap_or(0).min(self.last_tick())
    }

    /// Returns the first Unix millisecond of a tick; saturates where an `i64` cannot hold it.
    pub fn start_of_tick_ms(&self, tick: u64) -> i64 {
        i64::try_from(tick)
            .unwrap_or(i64::MAX)
            .saturating_add(self.epoch_units)
            .saturating_mul(self.unit.millis())
    }

    /// The first Unix millisecond that the timestamp can no longer hold.
    pub fn valid_until_ms(&self) -> i64 {
        self.start_of_tick_ms(self.last_tick() + 1)
    }

    /// Returns the first position of a tick.
    pub const fn first_position(&self, tick: u64) -> u64 {
        tick * self.positions_per_tick()
    }

    /// Returns the tick of a position.
    pub const fn tick_of(&self, position: u64) -> u64 {
        position / self.positions_per_tick()
    }

    /// Returns the sequence number of a position.
    pub const fn sequence_of(&self, position: u64) -> u64 {
        self.min_sequence + position % self.positions_per_tick()
    }

    /// Composes an ID to be issued, and checks each field against its range.
    ///
    /// # Errors
    ///
    /// The first field that does not fit. Nothing wraps except the tick of a layout that
    /// [wraps](Self::wraps).
    pub fn compose(&self, fields: &Fields) -> Result<Id, FieldOutOfRange> {
        check("sequence", fields.sequence, self.min_sequence, self.max_sequence)?;
        self.join(fields)
    }

    /// Composes any ID: the inverse of [`Self::decompose`]. The sequence number may be one that
    /// this layout does not issue.
    ///
    /// # Errors
    ///
    /// The first field that does not fit its width.
    pub fn join(&self, fields: &Fields) -> Result<Id, FieldOutOfRange> {
        let mut fields = *fields;
        check("tick", fields.tick, 0, self.last_tick())?;
        let mut number = fields.tick & self.timestamp_mask();
        for (kind, bits) in self.fields().into_iter().skip(1) {
            let value = *fields.get_mut(kind);
            let field = if kind == FieldKind::Worker { "worker_id" } else { kind.name() };
            check(field, value, 0, largest(bits))?;
            number = number << bits | value;
        }
        Ok(Id::from_composed(number))
    }

    /// Takes an ID apart. Any 63-bit number has fields, whether this layout issued it or not.
    /// [`Self::parse`] also checks the length and adds the instant.
    pub fn decompose(&self, id: Id) -> Fields {
        // The bits above the layout belong to the tick.
        let mut fields = Fields { tick: id.get(), ..Fields::default() };
        for (kind, bits) in self.fields().into_iter().skip(1).rev() {
            *fields.get_mut(kind) = fields.tick & largest(bits);
            fields.tick >>= bits;
        }
        fields
    }

    /// Returns the key of this layout's rows, `width/value` of the reserved field: rows of other
    /// reserved values exist beside them.
    pub fn reserved_key(&self) -> String {
        self.reserved_key_of(self.reserved)
    }

    /// Returns the keys of every value that the reserved field can have.
    pub fn reserved_keys(&self) -> Vec<String> {
        (0..=largest(self.widths.reserved)).map(|value| self.reserved_key_of(value)).collect()
    }

    fn reserved_key_of(&self, value: u64) -> String {
        format!("{}/{value}", self.widths.reserved)
    }

    /// Returns a lower bound of the IDs of this tick and later ones; 0 where the time wraps.
    pub const fn smallest_id(&self, tick: u64) -> Id {
        let tick = if self.wraps { 0 } else { tick };
        Id::from_composed(tick << self.widths.below_timestamp())
    }

    /// Returns an upper bound of the IDs of this tick and earlier ones; the largest ID of all where
    /// the time wraps.
    pub const fn largest_id(&self, tick: u64) -> Id {
        let tick = if self.wraps { largest(self.widths.timestamp) } else { tick };
        let below = self.widths.below_timestamp();
        Id::from_composed(tick << below | largest(below))
    }
}

const fn check(
    field: &'static str,
    value: u64,
    low: u64,
    high: u64,
) -> Result<(), FieldOutOfRange> {
    if value < low || value > high {
        return Err(FieldOutOfRange { field, value, low, high });
    }
    Ok(())
}

#[cfg(test)]
mod tests;
