//! The bits as a row of boxes: as wide as they have bits where that fits, and never narrower than
//! their names.

use super::facts::{Field, Part};

/// The widest that a picture gets: 80 columns less a margin.
const COLUMNS: usize = 78;

impl Part {
    pub(super) const fn name(self) -> &'static str {
        self.look().0
    }

    /// Returns a text in the colour of this part.
    pub(super) fn paint(self, text: &str) -> String {
        paint(self.look().1, text)
    }

    /// Its name, and its colour as an ANSI code.
    const fn look(self) -> (&'static str, &'static str) {
        match self {
            Self::Unused => ("unused", "2"),
            Self::Timestamp => ("timestamp", "1;34"),
            Self::DataCenter => ("data centre", "1;35"),
            Self::Worker => ("worker", "1;32"),
            Self::Rollback => ("rollback", "1;33"),
            Self::Sequence => ("sequence", "1;36"),
            Self::Reserved => ("reserved", "1;31"),
        }
    }
}

/// Returns a text in the colour of an ANSI code.
pub(super) fn paint(code: &str, text: &str) -> String {
    format!("\u{1b}[{code}m{text}\u{1b}[0m")
}

/// Returns a text that steps back behind others.
pub(super) fn faint(text: &str) -> String {
    paint("2", text)
}

/// Returns the picture's lines: bit numbers, then the boxes.
pub(super) fn lines(fields: &[Field]) -> Vec<String> {
    let widths = widths(fields);
    let row = |left: &str, between: &str, right: &str, cell: &dyn Fn(&Field, usize) -> String| {
        let cells: Vec<String> =
            fields.iter().zip(&widths).map(|(field, width)| cell(field, *width)).collect();
        let [left, between, right] = [left, between, right].map(faint);
        format!("{left}{}{right}", cells.join(&between))
    };
    let rule = |_: &Field, width: usize| faint(&"─".repeat(width));
    let name = |field: &Field, width: usize| {
        let name = if field.part == Part::Unused { "0" } else { field.part.name() };
        field.part.paint(&format!("{name:^width$}"))
    };
    let bits = |field: &Field, width: usize| field.part.paint(&format!("{:^width$}", field.bits));
    vec![
        faint(&ruler(fields, &widths)),
        row("┌", "┬", "┐", &rule),
        row("│", "│", "│", &name),
        row("│", "│", "│", &bits),
        row("└", "┴", "┘", &rule),
    ]
}

/// Returns the number of each field's highest bit, and of the last bit.
fn ruler(fields: &[Field], widths: &[usize]) -> String {
    let mut text = String::new();
    for (field, width) in fields.iter().zip(widths) {
        text.push_str(&format!(" {:<width$}", field.high_bit));
    }
    text.pop();
    text + "0"
}

/// Returns one column per bit, but never less than a name has; then the widest cells give up
/// columns until the picture fits.
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
