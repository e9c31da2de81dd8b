//! Writes to the standard streams. A closed standard output (`| head`) is no failure.

use std::{
    borrow::Cow,
    io::{self, ErrorKind, Write},
};

use serde::Serialize;

use super::failure::Failure;
use crate::{config::mask_tokens, process::telemetry::write_at_end};

/// Writes to standard output.
pub(super) fn print(text: &str) -> Result<(), Failure> {
    print_unless_closed(text).map(drop)
}

/// Writes to standard output, and returns whether anybody still reads it.
pub(super) fn print_unless_closed(text: &str) -> Result<bool, Failure> {
    write(&visible(text))
}

/// Writes a text of ours with its colours to standard output.
pub(super) fn print_styled(text: &str) -> Result<(), Failure> {
    write(text).map(drop)
}

/// Shows characters that a terminal would obey, as JSON writes them: what is printed may be from other
/// people, such as the holder of a row.
fn visible(text: &str) -> Cow<'_, str> {
    let is_obeyed = |letter: char| match letter {
        '\n' | '\t' => false,
        // They change the order of what is shown.
        '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => true,
        _ => letter.is_control(),
    };
    if !text.contains(is_obeyed) {
        return text.into();
    }
    let shown = |letter| match is_obeyed(letter) {
        true => format!("\\u{:04x}", u32::from(letter)),
        false => letter.to_string(),
    };
    text.chars().map(shown).collect::<String>().into()
}

fn write(text: &str) -> Result<bool, Failure> {
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
    write_at_end(&visible(question));
}

/// Writes an error to standard error.
pub(super) fn error(text: &str) {
    write_at_end(&format!("raindrop: {}\n", visible(&mask_tokens(text))));
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_that_is_shown_moves_the_cursor() {
        for (text, shown) in [
            ("node-7\tpod\n", "node-7\tpod\n"),
            ("机器 é", "机器 é"),
            ("a\u{1b}[2Jb\r\u{7}", "a\\u001b[2Jb\\u000d\\u0007"),
            ("\u{9b}31m\u{202e}x\u{7f}", "\\u009b31m\\u202ex\\u007f"),
        ] {
            assert_eq!(visible(text), shown);
            // What programs read means the same.
            let json = serde_json::to_string(text).expect("a text");
            let read: String = serde_json::from_str(&visible(&json)).expect("JSON");
            assert_eq!(read, text);
        }
    }
}
