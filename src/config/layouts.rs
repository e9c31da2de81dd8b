//! Reads the `[layouts.NAME]` tables: layouts of other systems, whose IDs can be read.

use super::{
    keys::LAYOUTS,
    layout::INSTANT,
    reader::{DEFAULT, Place, Reader},
};
use crate::core::{
    instant::{format_unix_ms_short, parse_unix_ms},
    preset::{NamedLayout, description::FORM, foreign::ForeignLayout},
};

/// The pattern of a layout's name, for error messages.
const NAME_PATTERN: &str = "[a-z][a-z0-9_-]{0,31}";

/// Reads every layout.
pub(super) fn read(reader: &mut Reader) -> Vec<ForeignLayout> {
    let mut layouts = Vec::new();
    for (name, source) in std::mem::take(&mut reader.layouts) {
        let allowed = if !is_valid_name(&name) {
            format!("renamed to match {NAME_PATTERN}")
        } else if NamedLayout::names().any(|known| known == name) {
            format!("renamed: {name} is built in")
        } else {
            reader.enter(Place::Entry(format!("{LAYOUTS}.{name}."), source));
            layouts.extend(read_one(reader, &name));
            continue;
        };
        reader.push(format!("{LAYOUTS}.{name}"), "{…}".to_owned(), source, allowed);
    }
    reader.enter(Place::Top);
    layouts
}

fn read_one(reader: &mut Reader, name: &str) -> Option<ForeignLayout> {
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
