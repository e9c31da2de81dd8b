//! The bits as a row of boxes: as wide as they have bits where that fits, and never narrower than
//! their names.

use super::{
    facts::{Field, Part},
    style::Style,
};

/// The widest that a picture gets: 80 columns less a margin.
const COLUMNS: usize = 78;

/// The picture's lines: bit numbers, then the boxes.
pub(super) fn lines(fields: &[Field], style: Style) -> Vec<String> {
    let widths = widths(fields);
    let row = |left: &str, between: &str, right: &str, cell: &dyn Fn(&Field, usize) -> String| {
        let cells: Vec<String> =
            fields.iter().zip(&widths).map(|(field, width)| cell(field, *width)).collect();
        let [left, between, right] = [left, between, right].map(|text| style.faint(text));
        format!("{left}{}{right}", cells.join(&between))
    };
    let rule = |_: &Field, width: usize| style.faint(&"─".repeat(width));
    let name = |field: &Field, width: usize| {
        let name = if field.part == Part::Unused { "0" } else { field.part.name() };
        style.part(field.part, &format!("{name:^width$}"))
    };
    let bits =
        |field: &Field, width: usize| style.part(field.part, &format!("{:^width$}", field.bits));
    vec![
        style.faint(&ruler(fields, &widths)),
        row("┌", "┬", "┐", &rule),
        row("│", "│", "│", &name),
        row("│", "│", "│", &bits),
        row("└", "┴", "┘", &rule),
    ]
}

/// The number of each field's highest bit, and of the last bit.
fn ruler(fields: &[Field], widths: &[usize]) -> String {
    let mut text = String::new();
    for (index, (field, width)) in fields.iter().zip(widths).enumerate() {
        let is_last = index + 1 == fields.len();
        let width = if is_last { width - 1 } else { *width };
        text.push(' ');
        text.push_str(&format!("{:<width$}", field.high));
    }
    text + "0"
}

/// One column per bit, but never less than a name has; then the widest cells give up columns
/// until the picture fits.
fn widths(fields: &[Field]) -> Vec<usize> {
    let least = |field: &Field| match field.part {
        // Its cell shows 0, under a number of two digits.
        Part::Unused => 2,
        part => part.name().len(),
    };
    let wanted = |field: &Field| least(field).max(usize::try_from(field.bits).unwrap_or(COLUMNS));
    let mut widths: Vec<usize> = fields.iter().map(wanted).collect();
    while widths.iter().sum::<usize>() + widths.len() + 1 > COLUMNS {
        let spare = |index: &usize| widths[*index] - least(&fields[*index]);
        match (0..widths.len()).max_by_key(spare).filter(|index| spare(index) > 0) {
            Some(widest) => widths[widest] -= 1,
            None => break,
        }
    }
    widths
}
