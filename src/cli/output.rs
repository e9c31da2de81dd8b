//! Writes to the standard streams. A closed standard output (`| head`) is no failure.

use std::io::{self, ErrorKind, Write};

use serde::Serialize;

use super::failure::Failure;
use crate::server::telemetry::write_at_end;

/// Writes to standard output.
pub(super) fn print(text: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        result => result,
    }
}

/// Writes a line to standard output.
pub(super) fn say(line: &str) -> Result<(), Failure> {
    Ok(print(&format!("{line}\n"))?)
}

/// Writes JSON to standard output, for people and programs.
pub(super) fn print_json(value: &impl Serialize) -> Result<(), Failure> {
    say(&serde_json::to_string_pretty(value).expect("texts and numbers are always JSON"))
}

/// Writes to standard error what must not end up in a file.
pub(super) fn eprint(text: &str) -> io::Result<()> {
    io::stderr().lock().write_all(text.as_bytes())
}

/// Writes an error to standard error.
pub(super) fn error(text: &str) {
    write_at_end(&format!("raindrop: {text}\n"));
}
