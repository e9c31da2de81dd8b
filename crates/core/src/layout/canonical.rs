//! The canonical text of a layout, as the store's layout record holds it.

use super::{FieldOrder, Layout, LayoutSpec, TimeUnit, Widths};
use crate::instant::{format_unix_ms_short, parse_unix_ms};

/// A text that is not the canonical text of a layout.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is not the canonical text of a layout, such as {example:?}")]
pub struct InvalidCanonical {
    text: String,
    example: String,
}

/// How the text ends where the time wraps.
const WRAPS: &str = " wraps=true";
/// What precedes the order of the fields, unless that is the default.
const ORDER: &str = " order=";

impl Layout {
    /// Returns the canonical text. IDs of different workers cannot be equal if the texts of their
    /// layouts are equal.
    ///
    /// It leaves out what may differ between nodes: the data centre, the reserved value and the
    /// initial lane.
    pub fn canonical(&self) -> String {
        let Widths { timestamp, data_center, worker, rollback, sequence, reserved } = self.widths;
        let (unit, epoch) = (self.unit, format_unix_ms_short(self.epoch_ms()));
        let (min_sequence, max_sequence) = (self.min_sequence, self.max_sequence);
        let (before, order) = match self.order {
            FieldOrder::WorkerSequence => ("", ""),
            order @ FieldOrder::SequenceWorker => (ORDER, order.name()),
        };
        let wraps = if self.wraps { WRAPS } else { "" };
        format!(
            "unit={unit} epoch={epoch} timestamp={timestamp} data_center={data_center} \
             worker={worker} rollback={rollback} sequence={sequence} reserved={reserved} \
             min_sequence={min_sequence} max_sequence={max_sequence}{before}{order}{wraps}"
        )
    }

    /// Reads a canonical text. The fields that it leaves out become 0.
    ///
    /// # Errors
    ///
    /// When the text is not exactly what [`Self::canonical`] returns for some layout.
    pub fn from_canonical(text: &str) -> Result<Self, InvalidCanonical> {
        // A text that was read incompletely differs from what the layout writes.
        let layout = read(text).filter(|layout| layout.canonical() == text);
        layout.ok_or_else(|| {
            let example = LayoutSpec::for_unit(TimeUnit::Millisecond).build();
            InvalidCanonical {
                text: text.to_owned(),
                example: example.expect("the default layout is valid").canonical(),
            }
        })
    }
}

fn read(text: &str) -> Option<Layout> {
    let (text, wraps) = match text.strip_suffix(WRAPS) {
        Some(text) => (text, true),
        None => (text, false),
    };
    let (text, order) = match text.split_once(ORDER) {
        Some((text, order)) => (text, FieldOrder::by_name(order)?),
        None => (text, FieldOrder::default()),
    };
    let mut pairs = text.split(' ');
    let mut value = |name: &str| pairs.next()?.strip_prefix(name)?.strip_prefix('=');
    let unit: TimeUnit = value("unit")?.parse().ok()?;
    // The fields are evaluated in this order, which is that of the text.
    let spec = LayoutSpec {
        epoch_ms: parse_unix_ms(value("epoch")?)?,
        timestamp_bits: Some(value("timestamp")?.parse().ok()?),
        data_center_bits: value("data_center")?.parse().ok()?,
        worker_bits: value("worker")?.parse().ok()?,
        rollback_bits: value("rollback")?.parse().ok()?,
        sequence_bits: Some(value("sequence")?.parse().ok()?),
        reserved_bits: value("reserved")?.parse().ok()?,
        min_sequence: value("min_sequence")?.parse().ok()?,
        max_sequence: Some(value("max_sequence")?.parse().ok()?),
        exact: true,
        order,
        wraps,
        ..LayoutSpec::for_unit(unit)
    };
    spec.build().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::preset::Preset;

    #[test]
    fn only_canonical_texts_are_read() {
        let text = LayoutSpec::for_unit(TimeUnit::Second).build().expect("valid").canonical();
        assert!(Layout::from_canonical(&text).is_ok());
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
            let other = text.replace(from, to);
            assert_ne!(other, text);
            let error = Layout::from_canonical(&other).expect_err(&other).to_string();
            assert!(error.contains(to.trim()) && error.contains("unit=millisecond"), "{error}");
        }
        for preset in Preset::ALL {
            let layout = preset.layout();
            assert_eq!(
                Layout::from_canonical(&layout.canonical()).as_ref().map(Layout::canonical),
                Ok(layout.canonical())
            );
        }
        let order = format!("{text} order=time-sequence-worker");
        assert!(Layout::from_canonical(&order).is_ok_and(|layout| layout.canonical() == order));
        for other in [
            "",
            " ",
            "relayout",
            &format!("{text} "),
            &format!("{text} more=1"),
            &format!("{text} order=time-worker-sequence"),
            &format!("{text} order="),
            &format!("{order}{order}"),
        ] {
            assert!(Layout::from_canonical(other).is_err(), "{other:?}");
        }
    }
}
