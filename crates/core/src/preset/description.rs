//! Descriptions of layouts in one line: `time:39@10ms,sequence:8,worker:16`.

use std::{str::FromStr, time::Duration};

use self::FieldKind::Time;
pub use crate::layout::FieldKind;
use crate::{duration, instant::millis, layout::ID_BITS};

/// The form of a description, for error messages.
#[doc(hidden)]
pub const FORM: &str = "a description such as time:39@10ms,sequence:8,worker:16";

/// The longest tick.
const LONGEST_UNIT: Duration = Duration::from_hours(24);

/// The fields of a layout and the length of its tick.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Description {
    /// The length of a tick in milliseconds.
    pub unit_ms: i64,
    /// Each field and its width in bits, from the most significant. A field that is missing reads
    /// as 0.
    pub fields: Vec<(FieldKind, u32)>,
}

/// A text that does not describe a layout.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{part:?}: must be {allowed}")]
pub struct InvalidDescription {
    /// The part that is wrong.
    pub part: String,
    /// The allowed values, as a phrase that follows "must be".
    pub allowed: String,
}

fn invalid(part: &str, allowed: impl Into<String>) -> InvalidDescription {
    InvalidDescription { part: part.to_owned(), allowed: allowed.into() }
}

impl Description {
    /// Returns the sum of all widths.
    pub(super) fn bits(&self) -> u32 {
        self.fields.iter().map(|(_, bits)| bits).sum()
    }
}

impl FromStr for Description {
    type Err = InvalidDescription;

    /// Reads `name:bits` of each field, from the most significant, with `@` and the length of a
    /// tick behind the width of `time` unless that is 1 ms.
    fn from_str(text: &str) -> Result<Self, InvalidDescription> {
        let mut described = Self { unit_ms: 1, fields: Vec::new() };
        for part in text.split(',') {
            let part = part.trim();
            let (kind, bits, unit) = read_field(part)?;
            if described.fields.iter().any(|(other, _)| *other == kind) {
                return Err(invalid(part, format!("given once: {} is repeated", kind.name())));
            }
            described.fields.push((kind, bits));
            if let Some(unit) = unit {
                described.unit_ms = read_unit(part, kind, unit)?;
            }
            let sum = described.bits();
            if sum > ID_BITS {
                let left = ID_BITS + bits - sum;
                return Err(invalid(part, format!("at most {left} bits: an ID has {ID_BITS}")));
            }
        }
        match described.fields.iter().any(|(kind, _)| *kind == Time) {
            true => Ok(described),
            false => Err(invalid(text, format!("with the field time: {FORM}"))),
        }
    }
}

fn read_field(part: &str) -> Result<(FieldKind, u32, Option<&str>), InvalidDescription> {
    let split = part.split_once(':');
    let (name, width) = split.ok_or_else(|| invalid(part, "a field and its width: worker:10"))?;
    let known = FieldKind::ALL.into_iter().find(|kind| kind.name() == name);
    let kind = known.ok_or_else(|| {
        invalid(part, format!("a field of {}", FieldKind::ALL.map(FieldKind::name).join(", ")))
    })?;
    let (width, unit) = match width.split_once('@') {
        Some((width, unit)) => (width, Some(unit)),
        None => (width, None),
    };
    let is_number = !width.is_empty() && width.bytes().all(|byte| byte.is_ascii_digit());
    let bits = width.parse().ok().filter(|bits| is_number && (1..=ID_BITS).contains(bits));
    let bits = bits.ok_or_else(|| invalid(part, format!("1 to {ID_BITS} bits wide")))?;
    Ok((kind, bits, unit))
}

fn read_unit(part: &str, kind: FieldKind, unit: &str) -> Result<i64, InvalidDescription> {
    if kind != Time {
        return Err(invalid(part, "without a length of ticks: only time has one"));
    }
    let is_whole = |unit: &Duration| unit.subsec_nanos().is_multiple_of(1_000_000);
    let range = Duration::from_millis(1)..=LONGEST_UNIT;
    let unit = duration::parse(unit).filter(|unit| is_whole(unit) && range.contains(unit));
    let allowed = "time:bits@unit with a unit of whole milliseconds, 1ms to 24h";
    Ok(millis(unit.ok_or_else(|| invalid(part, allowed))?))
}

#[cfg(test)]
mod tests {
    use super::{
        FieldKind::{Sequence, Worker},
        *,
    };

    #[test]
    fn descriptions_are_read() {
        let read = |text: &str| text.parse::<Description>().expect(text);
        assert_eq!(
            read("time:39@10ms,sequence:8,worker:16"),
            Description { unit_ms: 10, fields: vec![(Time, 39), (Sequence, 8), (Worker, 16)] }
        );
        assert_eq!(read("time:63"), Description { unit_ms: 1, fields: vec![(Time, 63)] });
        let every = read("time:20@1m, data_center:1, worker:22, lane:2, sequence:13, reserved:5");
        assert_eq!((every.unit_ms, every.fields.len(), every.bits()), (60_000, 6, 63));
    }

    #[test]
    fn errors_name_the_bad_part() {
        for (text, said) in [
            ("", r#""": must be a field and its width"#),
            ("time:41,", r#""": must be a field and its width"#),
            ("time:41,worker", r#""worker": must be a field and its width"#),
            ("time:41,node:10", r#""node:10": must be a field of time, data_center, worker"#),
            ("Time:41", r#""Time:41": must be a field of"#),
            ("time:0", r#""time:0": must be 1 to 63 bits wide"#),
            ("time:64", "1 to 63"),
            ("time:+41", "1 to 63"),
            ("time:", "1 to 63"),
            ("time:99999999999", "1 to 63"),
            ("time:41,worker:10,worker:12", r#""worker:12": must be given once"#),
            ("time:41,worker:10@1s", r#""worker:10@1s": must be without a length"#),
            ("time:41@10", r#""time:41@10": must be time:bits@unit"#),
            ("time:41@0", "1ms to 24h"),
            ("time:41@1us", "1ms to 24h"),
            ("time:41@1500us", "1ms to 24h"),
            ("time:41@25h", "1ms to 24h"),
            ("time:41,worker:10,sequence:13", r#""sequence:13": must be at most 12 bits"#),
            ("worker:10,sequence:12", r#""worker:10,sequence:12": must be with the field time"#),
        ] {
            let error = text.parse::<Description>().expect_err(text).to_string();
            assert!(error.contains(said), "{text}: {error}");
        }
    }
}
