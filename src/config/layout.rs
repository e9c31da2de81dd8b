//! Reads layouts: the `layout` section, with a preset or custom widths, and the `[layouts.NAME]`
//! tables, layouts of other systems whose IDs can be read.

use super::{
    keys::LAYOUTS,
    reader::{DEFAULT, Place, Reader},
};
use crate::core::{
    instant::{format_unix_ms_short, parse_unix_ms},
    layout::{FieldOrder, Layout, LayoutSpec, TimeUnit},
    preset::{NamedLayout, Preset, description::FORM, foreign::ForeignLayout},
    violation::Violations,
};

/// The keys of custom layouts, which a preset excludes.
const CUSTOM: [&str; 9] = [
    "layout.time_unit",
    "layout.order",
    "layout.timestamp_bits",
    "layout.worker_bits",
    "layout.data_center_bits",
    "layout.rollback_bits",
    "layout.reserved_bits",
    "layout.min_sequence",
    "layout.max_sequence",
];

/// The form of an instant, for error messages.
pub(super) const INSTANT: &str = "an RFC 3339 instant such as 2025-01-01T00:00:00Z";

/// The pattern of a name in `[layouts.NAME]`, for error messages.
pub(super) const NAME_PATTERN: &str = "[a-z][a-z0-9_-]{0,31}";

/// Reads the layout, and the preset that it comes from.
pub(super) fn read(reader: &mut Reader) -> (Layout, Option<Preset>) {
    let preset = read_preset(reader);
    let units = format!("{}, or 1 to 5", TimeUnit::ALL.map(TimeUnit::name).join(", "));
    let unit = reader.value("layout.time_unit", units, |text| text.parse().ok());
    let mut spec = preset.map_or_else(|| LayoutSpec::for_unit(unit), Preset::spec);
    let orders = format!("one of {}", FieldOrder::ALL.map(FieldOrder::name).join(", "));
    if let Some(order) = reader.given("layout.order", orders, FieldOrder::by_name) {
        spec.order = order;
    }
    spec.timestamp_bits = reader.given_number("layout.timestamp_bits").or(spec.timestamp_bits);
    spec.max_sequence = reader.given_number("layout.max_sequence").or(spec.max_sequence);
    reader.update_number("layout.worker_bits", &mut spec.worker_bits);
    reader.update_number("layout.data_center_bits", &mut spec.data_center_bits);
    reader.update_number("layout.rollback_bits", &mut spec.rollback_bits);
    reader.update_number("layout.rollback_initial", &mut spec.rollback_initial);
    reader.update_number("layout.reserved_bits", &mut spec.reserved_bits);
    reader.update_number("layout.data_center", &mut spec.data_center);
    reader.update_number("layout.reserved_value", &mut spec.reserved_value);
    reader.update_number("layout.min_sequence", &mut spec.min_sequence);
    if let Some(epoch_ms) = reader.given("layout.epoch", INSTANT, parse_unix_ms) {
        spec.epoch_ms = epoch_ms;
    } else if let Some(Err(violation)) = preset.map(Preset::check_own_epoch) {
        reader.violations(Violations(vec![violation]));
    }
    let layout = spec.build().unwrap_or_else(|violations| {
        reader.violations(violations);
        Preset::Raindrop.layout()
    });
    reader.resolve("layout.preset", preset.map_or("", Preset::name));
    reader.resolve("layout.time_unit", layout.unit().name());
    reader.resolve("layout.epoch", format_unix_ms_short(layout.epoch_ms()));
    reader.resolve("layout.order", layout.order().name());
    reader.resolve("layout.timestamp_bits", layout.widths().timestamp);
    reader.resolve("layout.max_sequence", layout.max_sequence());
    (layout, preset)
}

fn read_preset(reader: &mut Reader) -> Option<Preset> {
    let names = format!("one of {}", Preset::ALL.map(Preset::name).join(", "));
    let preset = reader.given("layout.preset", names, Preset::by_name);
    if reader.is_given("layout.preset") {
        reader.reject_given(&CUSTOM, "left out beside layout.preset, which sets it");
    } else if CUSTOM.iter().any(|key| reader.is_given(key)) {
        return None;
    }
    preset.or(Some(Preset::Raindrop))
}

/// Reads every `[layouts.NAME]` table.
pub(super) fn read_foreign(reader: &mut Reader) -> Vec<ForeignLayout> {
    let mut layouts = Vec::new();
    for (name, source) in std::mem::take(&mut reader.layouts) {
        let allowed = if !is_valid_name(&name) {
            format!("renamed to match {NAME_PATTERN}")
        } else if NamedLayout::names().any(|known| known == name) {
            format!("renamed: {name} is built in")
        } else {
            reader.enter(Place::Entry(format!("{LAYOUTS}.{name}."), source));
            layouts.extend(read_foreign_one(reader, &name));
            continue;
        };
        reader.push(format!("{LAYOUTS}.{name}"), "{…}".to_owned(), source, allowed);
    }
    reader.enter(Place::Top);
    layouts
}

fn read_foreign_one(reader: &mut Reader, name: &str) -> Option<ForeignLayout> {
    let epoch_ms = reader.given("epoch", INSTANT, parse_unix_ms).unwrap_or(0);
    if !reader.is_given("layout") {
        reader.reject("layout", FORM);
    }
    let described = ForeignLayout::described(name, &reader.text("layout")?, epoch_ms);
    reader.show("layout", DEFAULT);
    reader.resolve("epoch", format_unix_ms_short(epoch_ms));
    reader.show("epoch", DEFAULT);
    described.map_err(|error| reader.reject("layout", format!("{FORM}; {error}"))).ok()
}

fn is_valid_name(name: &str) -> bool {
    let rest =
        |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"_-".contains(&byte);
    (1..=32).contains(&name.len())
        && name.starts_with(|first: char| first.is_ascii_lowercase())
        && name.bytes().all(rest)
}
