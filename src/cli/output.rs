//! Writes to the standard streams. A closed standard output (`| head`) is no failure.

use std::io::{self, ErrorKind, Write};

use serde::Serialize;

use super::failure::Failure;
use crate::{config::mask_tokens, process::telemetry::write_at_end};

/// Writes to standard output.
pub(super) fn print(text: &str) -> Result<(), Failure> {
    print_unless_closed(text).map(drop)
}

/// Writes to standard output, and returns whether anybody still reads it.
pub(super) fn print_unless_closed(text: &str) -> Result<bool, Failure> {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => Err(error.into()),
        written => Ok(written.is_ok()),
    }
}

/// Writes a line to standard output.
pub(super) fn say(line: &str) -> Result<(), Failure> {
    print(&format!("{line}\n"))
}

/// Writes JSON to standard output, for people and programs.
pub(super) fn print_json(value: &impl Serialize) -> Result<(), Failure> {
    say(&serde_json::to_string_pretty(value).expect("texts and numbers are always JSON"))
}

/// Writes a question to standard error, and leaves the cursor behind it.
pub(super) fn ask(question: &str) {
    write_at_end(question);
}

/// Writes an error to standard error.
pub(super) fn error(text: &str) {
    write_at_end(&format!("raindrop: {}\n", mask_tokens(text)));
}

/// Returns lines under headings, in columns as wide as they must be.
pub(super) fn table<const N: usize>(headings: [&str; N], lines: &[[String; N]]) -> String {
    let width = |column: usize| {
        let cells = lines.iter().map(|line| line[column].chars().count());
        cells.chain([headings[column].len()]).max().unwrap_or(0)
    };
    let widths: [usize; N] = std::array::from_fn(width);
    let mut text = String::new();
    for line in std::iter::once(&headings.map(String::from)).chain(lines) {
        let mut padded = String::new();
        for (cell, width) in line.iter().zip(widths) {
            padded += &format!("{cell:width$}  ");
        }
        text += padded.trim_end();
        text.push('\n');
    }
    text
}
