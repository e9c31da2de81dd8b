//! The texts of values, for errors and `raindrop config`.

use config::ValueKind;

/// Returns the text of a value; `[…]` and `{…}` for lists and tables.
pub(super) fn text_of(kind: &ValueKind) -> String {
    match kind {
        // Keep the point of 3.0, so that it does not look like a whole number.
        ValueKind::Float(number) => format!("{number:?}"),
        ValueKind::Table(_) => "{…}".into(),
        ValueKind::Array(_) => "[…]".into(),
        kind => kind.to_string(),
    }
}

/// Returns the text of a value, with the items of a list.
pub(super) fn display(kind: &ValueKind) -> String {
    match kind {
        ValueKind::Array(items) => {
            let items: Vec<String> = items.iter().map(|item| text_of(&item.kind)).collect();
            format!("[{}]", items.join(", "))
        }
        kind => text_of(kind),
    }
}
