//! The settings of a layout, and the checks that make a [`Layout`] of them.

use std::ops::RangeInclusive;

use super::{FieldOrder, Layout, TimeUnit, WRAPPING_TICK_BITS, Widths};
use crate::violation::{Violation, Violations};

/// How many bits an ID has: the sign bit of a signed 64-bit integer stays 0.
pub(crate) const ID_BITS: u32 = 63;

/// The settings of a layout. [`LayoutSpec::build`] checks them all.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LayoutSpec {
    /// The length of a tick.
    pub time_unit: TimeUnit,
    /// The start of tick 0 in Unix milliseconds; floored to the unit.
    pub epoch_ms: i64,
    /// Width of the timestamp; `None` takes the smallest of the unit's range.
    pub timestamp_bits: Option<u32>,
    /// Where the sequence stands.
    pub order: FieldOrder,
    /// Whether the widths are those of a published layout, which may lie outside the ranges below.
    pub exact: bool,
    /// Whether the timestamp starts again at 0 when it is full; see [`Layout::wraps`].
    pub wraps: bool,
    /// Width of the data centre, 0 to 10.
    pub data_center_bits: u32,
    /// This node's data centre.
    pub data_center: u64,
    /// Width of the worker id, 3 to 16.
    pub worker_bits: u32,
    /// Width of the rollback field, 0 to 3: r bits give 2^r lanes.
    pub rollback_bits: u32,
    /// The lane that fresh rows use first.
    pub rollback_initial: u32,
    /// Width of the sequence; `None` takes what the others leave of 63 bits. A smaller width leaves
    /// the highest bits of every ID at 0.
    pub sequence_bits: Option<u32>,
    /// Width of the constant low-order field, 0 to 5.
    pub reserved_bits: u32,
    /// The constant in that field.
    pub reserved_value: u64,
    /// The first sequence number of a tick.
    pub min_sequence: u64,
    /// The last sequence number of a tick; `None` takes the largest that fits.
    pub max_sequence: Option<u64>,
}

impl LayoutSpec {
    /// The epoch of Raindrop's own presets, 2025-01-01T00:00:00Z.
    pub const DEFAULT_EPOCH_MS: i64 = 1_735_689_600_000;

    /// Returns the default settings for a unit: 9 worker bits, one rollback bit, and the smallest
    /// timestamp of the unit.
    pub const fn for_unit(time_unit: TimeUnit) -> Self {
        Self {
            time_unit,
            epoch_ms: Self::DEFAULT_EPOCH_MS,
            timestamp_bits: None,
            order: FieldOrder::WorkerSequence,
            exact: false,
            wraps: false,
            data_center_bits: 0,
            data_center: 0,
            worker_bits: 9,
            rollback_bits: 1,
            rollback_initial: 0,
            sequence_bits: None,
            reserved_bits: 0,
            reserved_value: 0,
            min_sequence: 0,
            max_sequence: None,
        }
    }

    /// Checks every setting and builds the layout.
    ///
    /// # Errors
    ///
    /// All violations at once, each with key, value and range.
    pub fn build(&self) -> Result<Layout, Violations> {
        let mut violations = self.width_violations();
        if violations.is_empty() {
            violations = self.value_violations();
        }
        if !violations.is_empty() {
            return Err(Violations(violations));
        }
        let widths = self.widths();
        Ok(Layout {
            unit: self.time_unit,
            epoch_units: self.epoch_ms.div_euclid(self.time_unit.millis()),
            widths,
            order: self.order,
            data_center: self.data_center,
            rollback_initial: self.rollback_initial,
            reserved: self.reserved_value,
            min_sequence: self.min_sequence,
            max_sequence: self.max_sequence.unwrap_or(largest(widths.sequence)),
            wraps: self.wraps,
        })
    }

    fn chosen_timestamp_bits(&self) -> u32 {
        self.timestamp_bits.unwrap_or(*self.time_unit.timestamp_bits().start())
    }

    /// The widths, once each of them is in its range.
    fn widths(&self) -> Widths {
        let mut widths = Widths {
            timestamp: self.chosen_timestamp_bits(),
            data_center: self.data_center_bits,
            worker: self.worker_bits,
            rollback: self.rollback_bits,
            sequence: 0,
            reserved: self.reserved_bits,
        };
        let left = ID_BITS.saturating_sub(widths.total());
        widths.sequence = self.sequence_bits.unwrap_or(left);
        widths
    }

    fn width_violations(&self) -> Vec<Violation> {
        let (timestamp, worker, of_unit) = if self.exact {
            (1..=ID_BITS - 2, 1..=16, String::new())
        } else {
            let of_unit = format!(" with time_unit {}", self.time_unit);
            (self.time_unit.timestamp_bits(), 3..=16, of_unit)
        };
        let mut violations = Vec::new();
        let mut check = |key: &str, value: u32, range: RangeInclusive<u32>, of: &str| {
            if !range.contains(&value) {
                let (low, high) = range.into_inner();
                violations.push(Violation::new(key, value, format!("{low} to {high}{of}")));
            }
        };
        check("layout.timestamp_bits", self.chosen_timestamp_bits(), timestamp, &of_unit);
        check("layout.data_center_bits", self.data_center_bits, 0..=10, "");
        check("layout.worker_bits", self.worker_bits, worker, "");
        check("layout.rollback_bits", self.rollback_bits, 0..=3, "");
        check("layout.reserved_bits", self.reserved_bits, 0..=5, "");
        if violations.is_empty() {
            violations.extend(self.sum_violation());
        }
        violations
    }

    /// Checks what the fields take together, once each of them is in its range.
    fn sum_violation(&self) -> Option<Violation> {
        let widths = self.widths();
        let Widths { timestamp, data_center, worker, rollback, sequence, reserved } = widths;
        let others = Widths { sequence: 0, ..widths }.total();
        if others >= ID_BITS {
            let value = format!(
                "timestamp {timestamp} + data centre {data_center} + worker {worker} + \
                 rollback {rollback} + reserved {reserved} = {others} bits"
            );
            let most = ID_BITS - 1;
            let allowed =
                format!("at most {most} bits, so that the sequence has at least 1 of {ID_BITS}");
            return Some(Violation::new("layout", value, allowed));
        }
        let left = ID_BITS - others;
        if !(1..=left).contains(&sequence) {
            let allowed = format!("1 to {left}, which the others leave of {ID_BITS}");
            return Some(Violation::new("layout.sequence_bits", sequence, allowed));
        }
        let most_timestamp = WRAPPING_TICK_BITS - 1;
        let most_sequence = ID_BITS - 1 - WRAPPING_TICK_BITS;
        (self.wraps && (timestamp > most_timestamp || sequence > most_sequence)).then(|| {
            Violation::new(
                "layout",
                format!("wrapping, with timestamp {timestamp} and sequence {sequence} bits"),
                format!(
                    "at most {most_timestamp} timestamp and {most_sequence} sequence bits where \
                     the time wraps"
                ),
            )
        })
    }

    fn value_violations(&self) -> Vec<Violation> {
        let widths = self.widths();
        let max_sequence = self.max_sequence.unwrap_or(largest(widths.sequence));
        let of_bits = |bits: u32| (largest(bits), format!("{bits} bits"));
        let most = max_sequence.min(largest(widths.sequence));
        let rollback_initial = u64::from(self.rollback_initial);
        [
            ("layout.data_center", self.data_center, of_bits(widths.data_center)),
            ("layout.rollback_initial", rollback_initial, of_bits(widths.rollback)),
            ("layout.reserved_value", self.reserved_value, of_bits(widths.reserved)),
            ("layout.max_sequence", max_sequence, of_bits(widths.sequence)),
            ("layout.min_sequence", self.min_sequence, (most, "at most max_sequence".to_owned())),
        ]
        .into_iter()
        .filter(|(_, value, (high, _))| value > high)
        .map(|(key, value, (high, of))| Violation::new(key, value, format!("0 to {high} ({of})")))
        .collect()
    }
}

/// The largest number of this many bits.
pub(super) const fn largest(bits: u32) -> u64 {
    (1 << bits) - 1
}

#[cfg(test)]
mod tests;
