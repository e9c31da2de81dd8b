//! Tables of text.

use std::fmt::Write;

/// Lines under headings, in columns as wide as they must be.
pub(super) fn table<const N: usize>(headings: [&str; N], lines: &[[String; N]]) -> String {
    let width = |column: usize| {
        let cells = lines.iter().map(|line| line[column].chars().count());
        cells.chain([headings[column].len()]).max().unwrap_or(0)
    };
    let widths: [usize; N] = std::array::from_fn(width);
    let mut text = String::new();
    for line in std::iter::once(headings.map(String::from)).chain(lines.iter().cloned()) {
        let mut padded = String::new();
        for (cell, width) in line.iter().zip(widths) {
            write!(padded, "{cell:width$}  ").expect("a string takes any text");
        }
        text.push_str(padded.trim_end());
        text.push('\n');
    }
    text
}
