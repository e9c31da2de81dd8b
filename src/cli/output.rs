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
    is_written(out.write_all(text.as_bytes()).and_then(|()| out.flush()))
}

/// Returns whether a write to standard output arrived: `false` if its reader has closed it.
pub(super) fn is_written(written: io::Result<()>) -> Result<bool, Failure> {
    match written {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            Err(Failure::Failed(format!("standard output cannot be written: {error}")))
        }
        written => Ok(written.is_ok()),
    }
}

/// Refuses to continue if the process was started without a standard output. Commands call this
/// before they produce a result that cannot be produced again, such as IDs.
///
/// Rust opens `/dev/null` for reading and writing in place of a closed stream, before `main`, so
/// writes to it succeed. Shells open it for writing alone.
#[cfg(unix)]
pub(super) fn require_stdout() -> Result<(), Failure> {
    use rustix::fs::{FileType, OFlags, fcntl_getfl, fstat, stat};

    let is_replaced = || {
        let (found, null) = (fstat(io::stdout())?, stat("/dev/null")?);
        let is_device = FileType::from_raw_mode(found.st_mode) == FileType::CharacterDevice;
        let is_read = fcntl_getfl(io::stdout())?.contains(OFlags::RDWR);
        Ok::<_, rustix::io::Errno>(is_device && found.st_rdev == null.st_rdev && is_read)
    };
    if is_replaced().unwrap_or(false) {
        return Err(Failure::Failed(
            "standard output is closed, or /dev/null opened for reading, too: nothing was issued \
             or created; to throw the output away, redirect it (> /dev/null)"
                .to_owned(),
        ));
    }
    Ok(())
}

#[cfg(not(unix))]
pub(super) const fn require_stdout() -> Result<(), Failure> {
    Ok(())
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

/// How a command that changes something reports: with texts, or with one JSON document at its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Report {
    Text,
    Json,
}

impl Report {
    pub(super) const fn of(json: bool) -> Self {
        if json { Self::Json } else { Self::Text }
    }

    /// Writes a line for people: to standard output, or to standard error if that is for JSON.
    pub(super) fn say(self, line: &str) -> Result<(), Failure> {
        self.print(&format!("{}\n", visible(line)))
    }

    /// Writes lines for people as [`Self::say`] does. Callers escape untrusted texts.
    pub(super) fn print(self, text: &str) -> Result<(), Failure> {
        match self {
            Self::Text => print(text),
            Self::Json => {
                write_at_end(&visible_lines(text));
                Ok(())
            }
        }
    }

    /// Writes the document if the report is JSON.
    pub(super) fn document(self, document: &impl Serialize) -> Result<(), Failure> {
        match self {
            Self::Text => Ok(()),
            Self::Json => print_json(document),
        }
    }
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

/// Returns the width of the terminal that standard output is, in characters.
#[cfg(unix)]
fn terminal_width() -> Option<usize> {
    let size = rustix::termios::tcgetwinsize(io::stdout()).ok()?;
    Some(size.ws_col.into()).filter(|width| *width > 0)
}

#[cfg(not(unix))]
const fn terminal_width() -> Option<usize> {
    None
}

/// Returns lines under headings, in columns as wide as their widest cell. Cells are escaped. The
/// last column is cut to the terminal.
pub(super) fn table<const N: usize>(headings: [&str; N], lines: &[[String; N]]) -> String {
    table_of_width(headings, lines, terminal_width())
}

fn table_of_width<const N: usize>(
    headings: [&str; N],
    lines: &[[String; N]],
    terminal: Option<usize>,
) -> String {
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
        text +=
            &cut(padded.trim_end(), widths[..N - 1].iter().map(|width| width + 2).sum(), terminal);
        text.push('\n');
    }
    text
}

/// Cuts a line to the width of the terminal, if the terminal has room for the last column and for
/// some of its text.
fn cut(line: &str, last_column: usize, terminal: Option<usize>) -> String {
    const LEAST: usize = 8;
    match terminal {
        Some(width) if line.chars().count() > width && width >= last_column + LEAST => {
            line.chars().take(width - 1).chain(['…']).collect()
        }
        _ => line.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn last_column_is_cut_to_the_terminal() {
        let lines = [["5".to_owned(), "10.0.0.7:8080#02:42:ac".to_owned()]];
        let of_width = |width| table_of_width(["WORKER", "HOLDER"], &lines, width);
        let whole = "WORKER  HOLDER\n5       10.0.0.7:8080#02:42:ac\n";
        assert_eq!(of_width(None), whole);
        assert_eq!(of_width(Some(30)), whole);
        assert_eq!(of_width(Some(20)), "WORKER  HOLDER\n5       10.0.0.7:80…\n");
        // Too narrow for any of it: the terminal wraps the lines.
        assert_eq!(of_width(Some(15)), whole);
    }

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
