//! A layout as it is configured, and the check that makes a [`Layout`] of it.

use super::{Layout, TimeUnit, WRAPPING_TICK_BITS, Widths};
use crate::core::violation::{Violation, Violations};

/// How many bits an ID has: the sign bit of a signed 64-bit integer stays 0.
const ID_BITS: u32 = 63;

/// The settings of a layout; [`LayoutSpec::build`] checks them all.
///
/// The sequence gets what the other fields leave of 63 bits, unless its width is given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LayoutSpec {
    /// The length of a tick.
    pub time_unit: TimeUnit,
    /// Where ticks begin, in Unix milliseconds; floored to the unit.
    pub epoch_ms: i64,
    /// Width of the timestamp; `None` takes the smallest of the unit's range.
    pub timestamp_bits: Option<u32>,
    /// Whether the widths are those of a published layout: they need not keep to the ranges of
    /// configured layouts, only fit in 63 bits.
    pub exact: bool,
    /// Whether the timestamp starts again at 0 when it is full; see [`Layout::wraps`].
    pub wraps: bool,
    /// Width of the data centre, 0 to 10.
    pub data_center_bits: u32,
    /// This node's data centre.
    pub data_center: u64,
    /// Width of the worker id, 3 to 10.
    pub worker_bits: u32,
    /// Width of the rollback field, 0 to 3: r bits give 2^r lanes.
    pub rollback_bits: u32,
    /// The lane that fresh rows use first.
    pub rollback_initial: u32,
    /// Width of the sequence; `None` takes what the others leave of 63 bits. A smaller one leaves
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
    /// The epoch of the presets of our own, 2025-01-01T00:00:00Z.
    pub const DEFAULT_EPOCH_MS: i64 = 1_735_689_600_000;

    /// The default widths with another unit: one rollback bit, 9 worker bits, the unit's smallest
    /// timestamp.
    pub const fn for_unit(time_unit: TimeUnit) -> Self {
        Self {
            time_unit,
            epoch_ms: Self::DEFAULT_EPOCH_MS,
            timestamp_bits: None,
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
        let mut found = self.width_violations();
        if found.is_empty() {
            let widths = self.widths();
            found = self.value_violations(&widths);
            if found.is_empty() {
                return Ok(Layout::new(
                    self.time_unit,
                    self.epoch_ms,
                    widths,
                    Values {
                        data_center: self.data_center,
                        rollback_initial: self.rollback_initial,
                        reserved: self.reserved_value,
                        min_sequence: self.min_sequence,
                        max_sequence: self.max_sequence.unwrap_or(largest(widths.sequence)),
                        wraps: self.wraps,
                    },
                ));
            }
        }
        Err(Violations(found))
    }

    fn chosen_timestamp_bits(&self) -> u32 {
        self.timestamp_bits.unwrap_or(*self.time_unit.timestamp_bits().start())
    }

    fn widths(&self) -> Widths {
        let timestamp = self.chosen_timestamp_bits();
        let others = timestamp
            + self.data_center_bits
            + self.worker_bits
            + self.rollback_bits
            + self.reserved_bits;
        Widths {
            timestamp,
            data_center: self.data_center_bits,
            worker: self.worker_bits,
            rollback: self.rollback_bits,
            sequence: self.sequence_bits.unwrap_or(ID_BITS - others),
            reserved: self.reserved_bits,
        }
    }

    fn width_violations(&self) -> Vec<Violation> {
        let mut found = Vec::new();
        let timestamp = self.chosen_timestamp_bits();
        let range = self.time_unit.timestamp_bits();
        let mut check = |key: &str, value: u32, low: u32, high: u32, of: &str| {
            if !(low..=high).contains(&value) {
                found.push(Violation::new(key, value, format!("{low} to {high}{of}")));
            }
        };
        if self.exact {
            check("layout.timestamp_bits", timestamp, 1, ID_BITS - 2, "");
            check("layout.data_center_bits", self.data_center_bits, 0, 10, "");
            check("layout.worker_bits", self.worker_bits, 1, 16, "");
        } else {
            let of_unit = format!(" with time_unit {}", self.time_unit);
            check("layout.timestamp_bits", timestamp, *range.start(), *range.end(), &of_unit);
            check("layout.data_center_bits", self.data_center_bits, 0, 10, "");
            check("layout.worker_bits", self.worker_bits, 3, 10, "");
        }
        check("layout.rollback_bits", self.rollback_bits, 0, 3, "");
        check("layout.reserved_bits", self.reserved_bits, 0, 5, "");
        let others = u64::from(timestamp)
            + u64::from(self.data_center_bits)
            + u64::from(self.worker_bits)
            + u64::from(self.rollback_bits)
            + u64::from(self.reserved_bits);
        if found.is_empty() && others >= u64::from(ID_BITS) {
            found.push(Violation::new(
                "layout",
                format!(
                    "timestamp {timestamp} + data centre {} + worker {} + rollback {} + reserved {} = {others} bits",
                    self.data_center_bits, self.worker_bits, self.rollback_bits, self.reserved_bits
                ),
                format!("at most {} bits, so that the sequence has at least 1 of {ID_BITS}", ID_BITS - 1),
            ));
        } else if found.is_empty()
            && let Some(sequence) = self.sequence_bits
        {
            let left = ID_BITS - u32::try_from(others).unwrap_or(ID_BITS);
            if !(1..=left).contains(&sequence) {
                let allowed = format!("1 to {left}, which the others leave of {ID_BITS}");
                found.push(Violation::new("layout.sequence_bits", sequence, allowed));
            }
        }
        if found.is_empty() && self.wraps {
            let sequence = self.widths().sequence;
            let fits = timestamp < WRAPPING_TICK_BITS && WRAPPING_TICK_BITS + sequence < ID_BITS;
            if !fits {
                found.push(Violation::new(
                    "layout",
                    format!("wrapping, with timestamp {timestamp} and sequence {sequence} bits"),
                    format!(
                        "at most {} timestamp and {} sequence bits where the time wraps",
                        WRAPPING_TICK_BITS - 1,
                        ID_BITS - 1 - WRAPPING_TICK_BITS
                    ),
                ));
            }
        }
        found
    }

    fn value_violations(&self, widths: &Widths) -> Vec<Violation> {
        let mut found = Vec::new();
        let mut check = |key: &str, value: u64, low: u64, high: u64, bits: &str| {
            if !(low..=high).contains(&value) {
                found.push(Violation::new(key, value, format!("{low} to {high} ({bits})")));
            }
        };
        let of_bits = |bits: u32| format!("{bits} bits");
        check(
            "layout.data_center",
            self.data_center,
            0,
            largest(widths.data_center),
            &of_bits(widths.data_center),
        );
        check(
            "layout.rollback_initial",
            u64::from(self.rollback_initial),
            0,
            largest(widths.rollback),
            &of_bits(widths.rollback),
        );
        check(
            "layout.reserved_value",
            self.reserved_value,
            0,
            largest(widths.reserved),
            &of_bits(widths.reserved),
        );
        let top = largest(widths.sequence);
        let max = self.max_sequence.unwrap_or(top);
        check("layout.max_sequence", max, 0, top, &of_bits(widths.sequence));
        check("layout.min_sequence", self.min_sequence, 0, max.min(top), "at most max_sequence");
        found
    }
}

/// The constants and bounds inside the fields.
pub(super) struct Values {
    pub data_center: u64,
    pub rollback_initial: u32,
    pub reserved: u64,
    pub min_sequence: u64,
    pub max_sequence: u64,
    pub wraps: bool,
}

/// The largest number of this many bits.
pub(super) const fn largest(bits: u32) -> u64 {
    (1 << bits) - 1
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(spec: &LayoutSpec) -> Vec<String> {
        spec.build().expect_err("violations").0.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn every_violation_is_reported_at_once() {
        let spec = LayoutSpec {
            timestamp_bits: Some(40),
            data_center_bits: 11,
            worker_bits: 2,
            rollback_bits: 4,
            reserved_bits: 6,
            ..LayoutSpec::for_unit(TimeUnit::Millisecond)
        };
        assert_eq!(
            keys(&spec),
            [
                "layout.timestamp_bits = 40: must be 41 to 55 with time_unit millisecond",
                "layout.data_center_bits = 11: must be 0 to 10",
                "layout.worker_bits = 2: must be 3 to 10",
                "layout.rollback_bits = 4: must be 0 to 3",
                "layout.reserved_bits = 6: must be 0 to 5",
            ]
        );
        let spec = LayoutSpec {
            data_center: 1,
            rollback_initial: 2,
            reserved_bits: 1,
            reserved_value: 2,
            min_sequence: 100,
            max_sequence: Some(99),
            ..LayoutSpec::for_unit(TimeUnit::Millisecond)
        };
        assert_eq!(
            keys(&spec),
            [
                "layout.data_center = 1: must be 0 to 0 (0 bits)",
                "layout.rollback_initial = 2: must be 0 to 1 (1 bits)",
                "layout.reserved_value = 2: must be 0 to 1 (1 bits)",
                "layout.min_sequence = 100: must be 0 to 99 (at most max_sequence)",
            ]
        );
    }

    #[test]
    fn the_sequence_keeps_at_least_one_bit() {
        let mut spec = LayoutSpec {
            timestamp_bits: Some(52),
            worker_bits: 10,
            rollback_bits: 0,
            ..LayoutSpec::for_unit(TimeUnit::Millisecond)
        };
        assert_eq!(spec.build().expect("62 bits beside the sequence").widths().sequence, 1);
        spec.timestamp_bits = Some(53);
        assert_eq!(
            keys(&spec),
            [
                "layout = timestamp 53 + data centre 0 + worker 10 + rollback 0 + reserved 0 = 63 bits: \
              must be at most 62 bits, so that the sequence has at least 1 of 63"
            ]
        );
    }

    #[test]
    fn units_have_the_ranges_of_raindrop() {
        for (unit, low, high) in [
            (TimeUnit::Millisecond, 41, 55),
            (TimeUnit::Second, 31, 55),
            (TimeUnit::Minute, 25, 50),
            (TimeUnit::Hour, 19, 45),
            (TimeUnit::Day, 15, 40),
        ] {
            let spec = |bits| LayoutSpec {
                timestamp_bits: bits,
                worker_bits: 3,
                ..LayoutSpec::for_unit(unit)
            };
            assert_eq!(spec(None).build().expect("default").widths().timestamp, low);
            assert!(spec(Some(low)).build().is_ok() && spec(Some(high)).build().is_ok());
            assert!(spec(Some(low - 1)).build().is_err() && spec(Some(high + 1)).build().is_err());
        }
    }
}
