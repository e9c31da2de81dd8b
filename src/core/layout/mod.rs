//! How the 63 bits of an ID are divided, and the arithmetic of ticks and positions.
//!
//! From the most significant bit: timestamp · data centre · worker · rollback · sequence · reserved.
//!
//! A *tick* is `floor(now / unit) − floor(epoch / unit)`, as in treeyh/raindrop; decoding adds
//! `floor(epoch / unit)` back, so an epoch inside a unit never shifts the time of an ID.
//! A *position* is (tick, sequence) as one ordered integer:
//! `tick · (max_sequence − min_sequence + 1) + (sequence − min_sequence)`.

mod spec;
mod unit;
mod words;

use self::spec::{Values, largest};
pub use self::{spec::LayoutSpec, unit::TimeUnit, words::InvalidWords};
use crate::core::id::Id;

/// The width of each field in bits, from the most significant to the least.
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
    const fn below_timestamp(self) -> u32 {
        self.data_center + self.worker + self.rollback + self.sequence + self.reserved
    }
}

/// The fields of one ID.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fields {
    /// Ticks since the epoch.
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

/// A field that does not fit its width, or a sequence outside min to max.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{field} {value} is outside {low} to {high}")]
pub struct FieldOutOfRange {
    /// The field's name.
    pub field: &'static str,
    /// What it should have held.
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
    data_center: u64,
    rollback_initial: u32,
    reserved: u64,
    min_sequence: u64,
    max_sequence: u64,
}

impl Layout {
    fn new(unit: TimeUnit, epoch_ms: i64, widths: Widths, values: Values) -> Self {
        Self {
            unit,
            epoch_units: epoch_ms.div_euclid(unit.millis()),
            widths,
            data_center: values.data_center,
            rollback_initial: values.rollback_initial,
            reserved: values.reserved,
            min_sequence: values.min_sequence,
            max_sequence: values.max_sequence,
        }
    }

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

    /// How many lanes a worker has: 2 to the power of the rollback width.
    pub const fn lanes(&self) -> usize {
        1 << self.widths.rollback
    }

    /// The lane that fresh rows use first.
    pub const fn rollback_initial(&self) -> u32 {
        self.rollback_initial
    }

    /// The largest worker id.
    pub const fn largest_worker(&self) -> u64 {
        largest(self.widths.worker)
    }

    /// The last tick that the timestamp can hold.
    pub const fn last_tick(&self) -> u64 {
        largest(self.widths.timestamp)
    }

    /// How many positions a tick has.
    pub const fn positions_per_tick(&self) -> u64 {
        self.max_sequence - self.min_sequence + 1
    }

    /// One past the last position of the last tick.
    pub const fn end_position(&self) -> u64 {
        (self.last_tick() + 1) * self.positions_per_tick()
    }

    /// The tick of an instant; negative before the epoch, and beyond [`Self::last_tick`] after
    /// the timestamp's end.
    pub const fn tick_at(&self, unix_ms: i64) -> i64 {
        unix_ms.div_euclid(self.unit.millis()).saturating_sub(self.epoch_units)
    }

    /// The tick of an instant, when the timestamp can hold it.
    pub fn tick_in_range(&self, unix_ms: i64) -> Option<u64> {
        u64::try_from(self.tick_at(unix_ms)).ok().filter(|tick| *tick <= self.last_tick())
    }

    /// The tick of an instant, moved into 0 to [`Self::last_tick`].
    pub fn tick_clamped(&self, unix_ms: i64) -> u64 {
        u64::try_from(self.tick_at(unix_ms)).unwrap_or(0).min(self.last_tick())
    }

    /// The first millisecond of a tick; saturates where an `i64` cannot hold it.
    pub fn start_of_tick_ms(&self, tick: u64) -> i64 {
        i64::try_from(tick)
            .unwrap_or(i64::MAX)
            .saturating_add(self.epoch_units)
            .saturating_mul(self.unit.millis())
    }

    /// The first millisecond that the timestamp can no longer hold.
    pub fn valid_until_ms(&self) -> i64 {
        self.start_of_tick_ms(self.last_tick() + 1)
    }

    /// The first position of a tick.
    pub const fn first_position(&self, tick: u64) -> u64 {
        tick * self.positions_per_tick()
    }

    /// The tick of a position.
    pub const fn tick_of(&self, position: u64) -> u64 {
        position / self.positions_per_tick()
    }

    /// The sequence number of a position.
    pub const fn sequence_of(&self, position: u64) -> u64 {
        self.min_sequence + position % self.positions_per_tick()
    }

    /// Puts fields together, each checked against its range.
    ///
    /// # Errors
    ///
    /// The first field that does not fit. Nothing is ever wrapped.
    pub fn compose(&self, fields: &Fields) -> Result<Id, FieldOutOfRange> {
        let widths = self.widths;
        let check = |field, value, low, high| {
            if value < low || value > high {
                return Err(FieldOutOfRange { field, value, low, high });
            }
            Ok(value)
        };
        let fit = |field, value, bits| check(field, value, 0, largest(bits));
        let mut number = fit("tick", fields.tick, widths.timestamp)?;
        let mut append = |value: u64, bits: u32| number = number << bits | value;
        append(fit("data_center", fields.data_center, widths.data_center)?, widths.data_center);
        append(fit("worker_id", fields.worker, widths.worker)?, widths.worker);
        append(fit("lane", fields.lane, widths.rollback)?, widths.rollback);
        let sequence = check("sequence", fields.sequence, self.min_sequence, self.max_sequence)?;
        append(sequence, widths.sequence);
        append(fit("reserved", fields.reserved, widths.reserved)?, widths.reserved);
        Ok(Id::from_composed(number))
    }

    /// Takes an ID apart. Any 63-bit number has fields; whether this layout issued it, the
    /// number alone cannot tell.
    pub const fn decompose(&self, id: Id) -> Fields {
        let mut number = id.get();
        let widths = self.widths;
        const fn take(number: &mut u64, bits: u32) -> u64 {
            let field = *number & largest(bits);
            *number >>= bits;
            field
        }
        let reserved = take(&mut number, widths.reserved);
        let sequence = take(&mut number, widths.sequence);
        let lane = take(&mut number, widths.rollback);
        let worker = take(&mut number, widths.worker);
        let data_center = take(&mut number, widths.data_center);
        Fields { tick: number, data_center, worker, lane, sequence, reserved }
    }

    /// The layout of one worker and lane, ready to compose positions.
    ///
    /// # Errors
    ///
    /// When the worker or lane does not fit.
    pub fn composer(&self, worker: u64, lane: u64) -> Result<Composer, FieldOutOfRange> {
        let constant = self.compose(&Fields {
            tick: 0,
            data_center: self.data_center,
            worker,
            lane,
            sequence: self.min_sequence,
            reserved: self.reserved,
        })?;
        let widths = self.widths;
        Ok(Composer {
            constant: constant.get(),
            positions_per_tick: self.positions_per_tick(),
            tick_shift: widths.below_timestamp(),
            sequence_shift: widths.reserved,
        })
    }

    /// The key of this layout's rows beside those of another reserved value: `width/value`.
    pub fn reserved_key(&self) -> String {
        self.reserved_key_of(self.reserved)
    }

    /// The keys of every value that the reserved field can have.
    pub fn reserved_keys(&self) -> Vec<String> {
        (0..=largest(self.widths.reserved)).map(|value| self.reserved_key_of(value)).collect()
    }

    fn reserved_key_of(&self, value: u64) -> String {
        format!("{}/{value}", self.widths.reserved)
    }

    /// A number that no ID of this tick or a later one is below, whatever its other fields are.
    pub const fn smallest_id(&self, tick: u64) -> Id {
        Id::from_composed(tick << self.widths.below_timestamp())
    }

    /// A number that no ID of this tick or an earlier one is above, whatever its other fields are.
    pub const fn largest_id(&self, tick: u64) -> Id {
        let below = self.widths.below_timestamp();
        Id::from_composed(tick << below | largest(below))
    }
}

/// Composes positions of one worker and lane into IDs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Composer {
    constant: u64,
    positions_per_tick: u64,
    tick_shift: u32,
    sequence_shift: u32,
}

impl Composer {
    /// The ID at a position, which must lie before the layout's end.
    pub const fn compose(&self, position: u64) -> Id {
        let tick = position / self.positions_per_tick;
        let offset = position % self.positions_per_tick;
        // The constant holds min_sequence; adding the offset cannot carry out of the field,
        // since min_sequence + offset <= max_sequence.
        Id::from_composed(
            (tick << self.tick_shift) + self.constant + (offset << self.sequence_shift),
        )
    }

    /// How many positions follow this one in its tick, itself included.
    pub const fn left_in_tick(&self, position: u64) -> u64 {
        self.positions_per_tick - position % self.positions_per_tick
    }

    /// The difference between neighbouring IDs of one tick.
    pub const fn step(&self) -> u64 {
        1 << self.sequence_shift
    }
}

#[cfg(test)]
mod tests;
