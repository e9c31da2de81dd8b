//! The `layout` section: a preset, or a layout of one's own.

use super::reader::Reader;
use crate::{
    core::{
        instant::parse_unix_ms,
        layout::{Layout, LayoutSpec, TimeUnit},
        preset::Preset,
    },
    keeper::KeeperSettings,
};

/// What makes a layout one's own: not to be given beside a preset.
const WIDTHS: [&str; 8] = [
    "layout.time_unit",
    "layout.timestamp_bits",
    "layout.worker_bits",
    "layout.data_center_bits",
    "layout.rollback_bits",
    "layout.reserved_bits",
    "layout.min_sequence",
    "layout.max_sequence",
];

const INSTANT: &str = "an RFC 3339 instant such as 2025-01-01T00:00:00Z";

/// A checked layout and the preset it comes from.
#[derive(Debug)]
pub(super) struct LayoutChoice {
    pub(super) layout: Layout,
    pub(super) preset: Option<Preset>,
    /// From when on there are IDs for a past time, if that is configured.
    pub(super) backfill_from_ms: Option<i64>,
}

pub(super) fn read(reader: &mut Reader) -> LayoutChoice {
    let (mut spec, preset) = read_widths(reader);
    if let Some(epoch_ms) = reader.given("layout.epoch", INSTANT, parse_unix_ms) {
        spec.epoch_ms = epoch_ms;
    } else if let Some(Err(violation)) = preset.map(Preset::check_own_epoch) {
        reader.violation(violation);
    }
    set(&mut spec.data_center, reader.given_number("layout.data_center"));
    set(&mut spec.rollback_initial, reader.given_number("layout.rollback_initial"));
    set(&mut spec.reserved_value, reader.given_number("layout.reserved_value"));
    let layout = spec.build().unwrap_or_else(|violations| {
        for violation in violations.0 {
            reader.violation(violation);
        }
        Preset::Raindrop.spec().build().expect("the default layout is valid")
    });
    let backfill_from_ms = read_backfill_from(reader, &layout);
    LayoutChoice { layout, preset, backfill_from_ms }
}

fn read_backfill_from(reader: &mut Reader, layout: &Layout) -> Option<i64> {
    let from_ms = reader.given("layout.backfill_from", INSTANT, parse_unix_ms)?;
    // What takes the place of a bad layout must not be held against it.
    if reader.is_bad("layout.") {
        return None;
    }
    if let Some(violation) = KeeperSettings::check_backfill_from(layout, from_ms) {
        reader.violation(violation);
        return None;
    }
    Some(from_ms)
}

fn read_widths(reader: &mut Reader) -> (LayoutSpec, Option<Preset>) {
    let names = format!("one of {}", Preset::ALL.map(Preset::name).join(", "));
    let named = reader.given("layout.preset", names, Preset::by_name);
    let widths: Vec<&str> = WIDTHS.into_iter().filter(|key| reader.is_given(key)).collect();
    if reader.is_given("layout.preset") {
        for key in widths {
            reader.reject(key, "left out beside layout.preset, which brings its own");
        }
    } else if !widths.is_empty() {
        return (custom(reader), None);
    }
    let preset = named.unwrap_or(Preset::Raindrop);
    (preset.spec(), Some(preset))
}

fn custom(reader: &mut Reader) -> LayoutSpec {
    let units = format!("{}, or 1 to 5", TimeUnit::ALL.map(TimeUnit::name).join(", "));
    let unit = reader.value("layout.time_unit", units, |text| text.parse().ok());
    let mut spec = LayoutSpec::for_unit(unit);
    spec.timestamp_bits = reader.given_number("layout.timestamp_bits");
    set(&mut spec.worker_bits, reader.given_number("layout.worker_bits"));
    set(&mut spec.data_center_bits, reader.given_number("layout.data_center_bits"));
    set(&mut spec.rollback_bits, reader.given_number("layout.rollback_bits"));
    set(&mut spec.reserved_bits, reader.given_number("layout.reserved_bits"));
    set(&mut spec.min_sequence, reader.given_number("layout.min_sequence"));
    spec.max_sequence = reader.given_number("layout.max_sequence");
    spec
}

fn set<T>(field: &mut T, given: Option<T>) {
    if let Some(value) = given {
        *field = value;
    }
}
