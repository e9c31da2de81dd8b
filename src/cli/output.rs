//! Writes to the standard streams. A closed standard output (`| head`) is no error.

use std::io::{self, ErrorKind, Write};

use serde::Serialize;

use super::failure::Failure;
use crate::{
    config::mask_tokens,
    core::visible::{visible, visible_lines},
    process::telemetry::write_at_end,
};

/// Writes to standard output.
pub(super) fn print(text: &str) -> Result<(), Failure> {
    print_unless_closed(text).map(drop)
}

/// Writes to standard output. Returns `false` if its reader has closed it.
///
/// Each line is escaped. An untrusted text, such as a layout from the store, could still end a
/// line: callers that put it into a text of several lines escape it with [`visible`] first.
pub(super) fn print_unless_closed(text: &str) -> Result<bool, Failure> {
    write(&visible_lines(text))
}

/// Writes a trusted text with its colours to standard output.
pub(super) fn print_styled(text: &str) -> Result<(), Failure> {
    write(text).map(drop)
}

fn write(text: &str) -> Result<bool, Failure> {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => Err(error.into()),
        written => Ok(written.is_ok()),
    }
}

/// Writes one line to standard output, and escapes it.
pub(super) fn say(line: &str) -> Result<(), Failure> {
    print(&format!("{}\n", visible(line)))
}

/// Writes JSON to standard output, for people and programs.
pub(super) fn print_json(value: &impl Serialize) -> Result<(), Failure> {
    let json = serde_json::to_string_pretty(value).expect("texts and numbers are always JSON");
    print(&format!("{json}\n"))
}

/// Writes a question to standard error, without a line end.
pub(super) fn ask(question: &str) {
    write_at_end(&visible_lines(question));
}

/// Writes an error to standard error as one escaped line.
pub(super) fn error(line: &str) {
    error_lines(&visible(line));
}

/// Writes an error of several lines to standard error. Callers escape untrusted texts.
pub(super) fn error_lines(text: &str) {
    write_at_end(&format!("raindrop: {}\n", visible_lines(&mask_tokens(text))));
}

/// Returns lines under headings, in columns as wide as their widest cell. Cells are escaped.
pub(super) fn table<const N: usize>(headings: [&str; N], lines: &[[String; N]]) -> String {
    let shown = |line: &[String; N]| line.each_ref().map(|cell| visible(cell).into_owned());
    let lines: Vec<[String; N]> = lines.iter().map(shown).collect();
    let width = |column: usize| {
        let cells = lines.iter().map(|line| line[column].chars().count());
        cells.chain([headings[column].len()]).max().unwrap_or(0)
    };
    let widths: [usize; N] = std::array::from_fn(width);
    let mut text = String::new();
    for line in std::iter::once(&headings.map(String::from)).chain(&lines) {
        let mut padded = String::new();
        for (cell, width) in line.iter().zip(widths) {
            padded += &format!("{cell:width$}  ");
        }
        text += padded.trim_end();
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_programs_read_means_the_same() {
        let text = "a\u{1b}[2Jb\n\u{9b}31m\u{202e}x\u{7f}";
        let json = serde_json::to_string_pretty(&[text]).expect("a text");
        let read: Vec<String> = serde_json::from_str(&visible_lines(&json)).expect("JSON");
        assert_eq!(read, [text]);
    }

    #[test]
    fn cell_that_others_wrote_stays_in_its_line() {
        let cells = [["a\u{1b}[2J\nforged  held".to_owned(), "x".to_owned()]];
        let text = table(["HOLDER", "B"], &cells);
        assert_eq!(text, "HOLDER                    B\na\\u001b[2J\\nforged  held  x\n");
    }
}
