//! Writing to the standard streams. A reader that went away (`| head`) is no failure.

use std::io::{self, ErrorKind, Write};

use crate::server::telemetry::write_at_end;

/// Writes to standard output.
pub(super) fn print(text: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        result => result,
    }
}

/// Writes to standard error what is for the eyes of a person.
pub(super) fn tell(text: &str) -> io::Result<()> {
    io::stderr().lock().write_all(text.as_bytes())
}

/// Writes an error to standard error.
pub(super) fn error(text: &str) {
    write_at_end(&format!("raindrop: {text}\n"));
}
