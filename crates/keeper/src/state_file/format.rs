//! Encodes and decodes the bytes of a state file.
//!
//! The first line names the format. Two slots follow at fixed offsets, each with the whole content:
//! a line with its number, its length and its checksum, and then a few lines of text. The slots are
//! written one after the other. So a slot that can be read is always safe to use.

use std::{collections::BTreeMap, str};

use raindrop_core::lease::SavedLease;

/// The first line. Another number means another format.
const MAGIC: &str = "raindrop state file 1\n";
/// The beginning of the first line in every format.
const MAGIC_OF_ANY: &str = "raindrop state file ";
/// The offset of the first slot, in bytes.
pub(crate) const FIRST_SLOT: usize = 4096;
/// The size of a slot in bytes: room for some 150 namespaces.
const SLOT: usize = 1 << 16;
/// The length of a slot's first line, in bytes.
const SLOT_LINE: usize = "slot 0123456789abcdef 01234567 0123456789abcdef\n".len();

/// The beginning of each line that describes the place.
const FACT: &str = "place.";

/// The machine, file and store with which leases were saved.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Place {
    /// The facts, by name. In another place at least one of them differs.
    pub(crate) facts: BTreeMap<String, String>,
}

/// The entry of one namespace in a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    /// The canonical text of the layout.
    pub(crate) layout: String,
    /// The width and value of the reserved bits, by which rows are keyed.
    pub(crate) reserved_key: String,
    pub(crate) lease: SavedLease,
}

/// The content of a slot.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Content {
    pub(crate) place: Place,
    pub(crate) entries: BTreeMap<String, Entry>,
}

/// The content that was found in a file.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Found {
    /// No content yet.
    Nothing,
    /// The file is not a state file, so it must not be overwritten.
    Foreign,
    /// A state file that cannot be read, for this reason.
    Unreadable(&'static str),
    Content {
        number: u64,
        content: Content,
    },
}

/// Returns the bytes of a file without content, with room for both slots.
pub(crate) fn empty_file() -> Vec<u8> {
    let mut bytes = vec![0; FIRST_SLOT + 2 * SLOT];
    bytes[..MAGIC.len()].copy_from_slice(MAGIC.as_bytes());
    bytes
}

/// Returns the offset of the slot for this number, and that of the other slot.
pub(crate) const fn slots_for(number: u64) -> [u64; 2] {
    let (first, second) = (FIRST_SLOT as u64, (FIRST_SLOT + SLOT) as u64);
    if number.is_multiple_of(2) { [first, second] } else { [second, first] }
}

/// Returns the bytes of a slot; `None` if the content does not fit.
pub(crate) fn encode(number: u64, content: &Content) -> Option<Vec<u8>> {
    let mut text = String::new();
    let mut line = |key: &str, value: &str| {
        // No value may look like another line.
        let value = value.replace(char::is_control, " ");
        text.extend([key, " ", &value, "\n"]);
    };
    for (name, value) in &content.place.facts {
        line(&format!("{FACT}{name}"), value);
    }
    for (namespace, Entry { layout, reserved_key, lease }) in &content.entries {
        line("namespace", namespace);
        line("layout", layout);
        line("reserved", reserved_key);
        line("worker", &lease.worker.to_string());
        line("lane", &lease.lane.to_string());
        line("token", &lease.token.to_string());
        line("epoch", &lease.epoch.to_string());
        line("marks", &lease.marks.to_string());
        line("local", &lease.local_mark.to_string());
    }
    let sum = checksum(number, text.as_bytes());
    let slot = format!("slot {number:016x} {:08x} {sum:016x}\n{text}", text.len());
    (slot.len() <= SLOT).then(|| slot.into_bytes())
}

/// Decodes a file.
pub(crate) fn decode(bytes: &[u8]) -> Found {
    if !bytes.starts_with(MAGIC.as_bytes()) {
        let length = bytes.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
        // The creation of the file was interrupted: it is empty, or its first line is cut short.
        return if MAGIC.as_bytes().starts_with(&bytes[..length]) {
            Found::Nothing
        } else if bytes.starts_with(MAGIC_OF_ANY.as_bytes()) {
            Found::Unreadable("another version of Raindrop wrote it")
        } else {
            Found::Foreign
        };
    }
    let rest = bytes.get(FIRST_SLOT..).unwrap_or_default();
    let slots = rest.split_at_checked(SLOT).unwrap_or((rest, &[]));
    let slots = [slots.0, slots.1];
    match slots.into_iter().filter_map(decode_slot).max_by_key(|(number, _)| *number) {
        Some((number, content)) => Found::Content { number, content },
        // The first write was interrupted.
        None if slots.iter().any(|slot| slot.iter().all(|byte| *byte == 0)) => Found::Nothing,
        None => Found::Unreadable("neither copy in it is whole"),
    }
}

fn decode_slot(bytes: &[u8]) -> Option<(u64, Content)> {
    let line = str::from_utf8(bytes.get(..SLOT_LINE)?).ok()?;
    let mut fields = line.strip_suffix('\n')?.split(' ');
    if fields.next()? != "slot" {
        return None;
    }
    let mut hex = || u64::from_str_radix(fields.next()?, 16).ok();
    let (number, length, sum) = (hex()?, usize::try_from(hex()?).ok()?, hex()?);
    let text = bytes.get(SLOT_LINE..SLOT_LINE.checked_add(length)?)?;
    if checksum(number, text) != sum {
        return None;
    }
    Some((number, decode_content(str::from_utf8(text).ok()?)?))
}

fn decode_content(text: &str) -> Option<Content> {
    let mut content = Content::default();
    let mut lines = text.lines().map(|line| line.split_once(' ')).peekable();
    let is_fact = |line: &Option<(&str, &str)>| line.is_some_and(|(key, _)| key.starts_with(FACT));
    while let Some((key, value)) = lines.next_if(is_fact).flatten() {
        let name = key.strip_prefix(FACT)?;
        content.place.facts.insert(name.to_owned(), value.to_owned());
    }
    while let Some(line) = lines.next() {
        let ("namespace", namespace) = line? else { return None };
        let mut value = |wanted: &str| match lines.next()?? {
            (key, value) if key == wanted => Some(value),
            _ => None,
        };
        let (layout, reserved_key) = (value("layout")?.to_owned(), value("reserved")?.to_owned());
        let lease = SavedLease {
            worker: value("worker")?.parse().ok()?,
            lane: value("lane")?.parse().ok()?,
            token: value("token")?.parse().ok()?,
            epoch: value("epoch")?.parse().ok()?,
            marks: value("marks")?.parse().ok()?,
            local_mark: value("local")?.parse().ok()?,
        };
        if lease.lane >= lease.marks.lanes() {
            return None;
        }
        let entry = Entry { layout, reserved_key, lease };
        content.entries.insert(namespace.to_owned(), entry);
    }
    Some(content)
}

/// Computes FNV-1a with 64 bits, which shows that a slot was written only in part.
fn checksum(number: u64, text: &[u8]) -> u64 {
    let bytes = number.to_be_bytes().into_iter().chain(text.iter().copied());
    bytes.fold(0xcbf2_9ce4_8422_2325, |sum, byte| {
        (sum ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

#[cfg(test)]
mod tests;
