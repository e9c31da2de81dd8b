//! A layout in words, as the store's layout record holds it.

use super::{Layout, LayoutSpec, TimeUnit};
use crate::core::instant::{format_unix_ms_short, parse_unix_ms};

/// A text that is not a layout in words.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is not a layout in words, such as {example:?}")]
pub struct InvalidWords {
    text: String,
    example: String,
}

/// The names of the numbers, in their order after unit and epoch.
const NUMBERS: [&str; 8] = [
    "timestamp",
    "data_center",
    "worker",
    "rollback",
    "sequence",
    "reserved",
    "min_sequence",
    "max_sequence",
];

/// What ends the words of a layout whose time wraps.
const WRAPS: &str = " wraps=true";

impl Layout {
    /// The layout in words, as the store's layout record holds it. Equal words mean that IDs of
    /// different workers cannot be equal.
    ///
    /// The data centre's and the reserved field's values are not part of it: nodes may differ in
    /// them.
    pub fn words(&self) -> String {
        let w = self.widths;
        let widths = [w.timestamp, w.data_center, w.worker, w.rollback, w.sequence, w.reserved];
        let numbers =
            widths.map(u64::from).into_iter().chain([self.min_sequence, self.max_sequence]);
        let mut words =
            format!("unit={} epoch={}", self.unit, format_unix_ms_short(self.epoch_ms()));
        for (name, number) in NUMBERS.iter().zip(numbers) {
            words.push_str(&format!(" {name}={number}"));
        }
        if self.wraps {
            words.push_str(WRAPS);
        }
        words
    }

    /// The layout that these words say, with 0 for what they leave out: data centre, reserved
    /// value and initial lane.
    ///
    /// # Errors
    ///
    /// When they are not exactly what [`Self::words`] writes for some layout.
    pub fn from_words(words: &str) -> Result<Self, InvalidWords> {
        // Whatever was lost in reading shows when it is written again.
        let layout = read(words).filter(|layout| layout.words() == words);
        layout.ok_or_else(|| {
            let example = LayoutSpec::for_unit(TimeUnit::Millisecond).build();
            InvalidWords {
                text: words.to_owned(),
                example: example.expect("the default layout is valid").words(),
            }
        })
    }
}

fn read(words: &str) -> Option<Layout> {
    let (words, wraps) = match words.strip_suffix(WRAPS) {
        Some(words) => (words, true),
        None => (words, false),
    };
    let mut pairs = words.split(' ');
    let mut value = |name: &str| pairs.next()?.strip_prefix(name)?.strip_prefix('=');
    let unit: TimeUnit = value("unit")?.parse().ok()?;
    let epoch_ms = parse_unix_ms(value("epoch")?)?;
    let mut numbers = [0_u64; NUMBERS.len()];
    for (name, number) in NUMBERS.iter().zip(&mut numbers) {
        *number = value(name)?.parse().ok()?;
    }
    let [timestamp, data_center, worker, rollback, sequence, reserved, min_sequence, max_sequence] =
        numbers;
    let bits = |number| u32::try_from(number).ok();
    let spec = LayoutSpec {
        epoch_ms,
        exact: true,
        wraps,
        sequence_bits: Some(bits(sequence)?),
        timestamp_bits: Some(bits(timestamp)?),
        data_center_bits: bits(data_center)?,
        worker_bits: bits(worker)?,
        rollback_bits: bits(rollback)?,
        reserved_bits: bits(reserved)?,
        min_sequence,
        max_sequence: Some(max_sequence),
        ..LayoutSpec::for_unit(unit)
    };
    spec.build().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::preset::Preset;

    #[test]
    fn only_what_is_written_is_read() {
        let words = LayoutSpec::for_unit(TimeUnit::Second).build().expect("valid").words();
        assert!(Layout::from_words(&words).is_ok());
        let changed = [
            ("unit=second", "unit=2"),
            ("unit=second", "unit=fortnight"),
            ("epoch=2025-01-01T00:00:00Z", "epoch=2025-01-01T01:00:00+01:00"),
            ("epoch=2025-01-01T00:00:00Z", "epoch=2025-01-01T00:00:00.5Z"),
            ("timestamp=31", "timestamp=031"),
            ("timestamp=31", "timestamp=32"),
            ("worker=9", "worker=4294967305"),
            (" reserved=0", ""),
            ("rollback=1", "lanes=1"),
            ("rollback=1", "rollback=+1"),
            (" worker", "  worker"),
        ];
        for (from, to) in changed {
            let other = words.replace(from, to);
            assert_ne!(other, words);
            let error = Layout::from_words(&other).expect_err(&other).to_string();
            assert!(error.contains(to.trim()) && error.contains("unit=millisecond"), "{error}");
        }
        for preset in Preset::ALL {
            let layout = preset.layout();
            assert_eq!(
                Layout::from_words(&layout.words()).as_ref().map(Layout::words),
                Ok(layout.words())
            );
        }
        for other in ["", " ", "relayout", &format!("{words} "), &format!("{words} more=1")] {
            assert!(Layout::from_words(other).is_err(), "{other:?}");
        }
    }
}
