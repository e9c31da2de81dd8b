//! Log lines, on standard error: standard output belongs to the commands' answers.

use std::{
    backtrace::{Backtrace, BacktraceStatus},
    fmt::{self, Debug},
    io::{self, Write},
    panic::{AssertUnwindSafe, PanicHookInfo, catch_unwind},
    sync::{LazyLock, OnceLock},
    time::Duration,
};

use prometheus::IntCounter;
use tracing::{
    Subscriber,
    field::{self, Field},
};
use tracing_subscriber::{
    EnvFilter,
    field::MakeExt as _,
    fmt::format::{Writer, debug_fn},
    util::SubscriberInitExt,
};

use super::log_writer::LogWriter;
use crate::{
    config::{LogConfig, LogFormat},
    core::visible::visible,
};

/// How long the end of the process waits for lines that are not written yet.
const FLUSHED_WITHIN: Duration = Duration::from_secs(1);

/// Of this process, as the lines themselves.
static WRITER: OnceLock<LogWriter> = OnceLock::new();

/// Lines that were not written.
pub(crate) static DROPPED: LazyLock<IntCounter> = LazyLock::new(|| {
    let help = "Log lines that were not written: standard error cannot be written, or not as fast.";
    IntCounter::new("raindrop_log_lines_dropped_total", help).expect("a valid name")
});

/// Writes the queued lines when it is dropped, or gives up after a second.
#[derive(Debug)]
#[must_use = "the last lines may be lost unless it lives as long as the process"]
pub struct Logging(());

impl Drop for Logging {
    fn drop(&mut self) {
        flush();
    }
}

/// Starts logging; panics are logged as errors. Does nothing when logging was started already.
///
/// A line that cannot be written at once is queued, and dropped when the queue is full or when
/// writing fails: whoever logs never waits and never fails.
///
/// # Errors
///
/// When the operating system has no thread to give.
pub fn start(config: &LogConfig) -> io::Result<Logging> {
    let writer = LogWriter::start(io::stderr(), DROPPED.clone())?;
    let is_terminal = io::IsTerminal::is_terminal(&io::stderr());
    // The only failure is that somebody embeds us and logs already.
    if subscriber(config, writer.clone(), is_terminal).try_init().is_ok() {
        std::panic::set_hook(Box::new(log_panic));
        let _ = WRITER.set(writer);
    }
    Ok(Logging(()))
}

/// Waits until the queued lines are written, at most a second.
pub(crate) fn flush() {
    if let Some(writer) = WRITER.get() {
        writer.flush_within(FLUSHED_WITHIN);
    }
}

/// Writes a text to standard error unless that takes longer than a second: the end of the process
/// does not wait for a reader that hangs.
pub(crate) fn write_at_end(text: &str) {
    // There is nowhere left to report a failure to.
    match LogWriter::start(io::stderr(), DROPPED.clone()) {
        Ok(mut writer) => {
            let _ = writer.write_all(text.as_bytes());
            writer.flush_within(FLUSHED_WITHIN);
        }
        // There is no thread that could wait for the reader.
        Err(_) => drop(io::stderr().write_all(text.as_bytes())),
    }
}

/// Logs although a panic of the subscriber, which may be another than ours, must not end the
/// caller.
pub(crate) fn log_safely(log: impl FnOnce()) {
    let _ = catch_unwind(AssertUnwindSafe(log));
}

/// Errors of requests to the Kubernetes API, which the keeper reports with what they mean; and what
/// clients do to HTTP/2, who could fill the log.
const NOISY_TARGETS: &str = "kube_client::client::builder=off,h2=error";

fn subscriber(
    config: &LogConfig,
    writer: LogWriter,
    is_terminal: bool,
) -> Box<dyn Subscriber + Send + Sync> {
    let lines = tracing_subscriber::fmt()
        .with_env_filter(EnvFilter::new(format!("{},{NOISY_TARGETS}", config.level)))
        .with_target(false)
        // It would print them with `eprintln!`, which panics.
        .log_internal_errors(false);
    match config.format {
        LogFormat::Text => {
            let lines = lines.fmt_fields(debug_fn(write_field).delimited(" "));
            let lines = lines.with_writer(move || writer.clone());
            Box::new(lines.with_ansi(is_terminal).finish())
        }
        LogFormat::Json => {
            let lines = lines.with_writer(move || JsonLines(writer.clone()));
            Box::new(lines.json().flatten_event(true).finish())
        }
    }
}

/// Writes a field of a text line with what others wrote escaped. The library's own format escapes the
/// message alone.
fn write_field(writer: &mut Writer<'_>, field: &Field, value: &dyn Debug) -> fmt::Result {
    let value = format!("{value:?}");
    let value = visible(&value);
    match field.name() {
        "message" => write!(writer, "{value}"),
        name if writer.has_ansi_escapes() => {
            write!(writer, "\u{1b}[3m{name}\u{1b}[0m\u{1b}[2m=\u{1b}[0m{value}")
        }
        name => write!(writer, "{name}={value}"),
    }
}

/// Queues lines of JSON, in which the library escapes C0 characters alone. Each call is one line.
struct JsonLines(LogWriter);

impl Write for JsonLines {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        let text = String::from_utf8_lossy(line);
        let text = visible(text.trim_end_matches('\n'));
        self.0.write_all(format!("{text}\n").as_bytes())?;
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// In place of the standard hook, which writes to standard error itself and so may wait for ever.
fn log_panic(info: &PanicHookInfo<'_>) {
    let backtrace = Backtrace::capture();
    let is_captured = backtrace.status() == BacktraceStatus::Captured;
    tracing::error!(
        panic = info.payload_as_str().unwrap_or("unknown"),
        location = info.location().map(field::display),
        backtrace = is_captured.then(|| field::display(&backtrace)),
        "a panic"
    );
}

#[cfg(test)]
mod tests {
    use std::{io::BufRead, panic};

    use tracing::subscriber::with_default;

    use super::*;

    const LOG: LogConfig = LogConfig { level: "info", format: LogFormat::Json };

    fn writer(out: impl Write + Send + 'static) -> (LogWriter, IntCounter) {
        let dropped = IntCounter::new("dropped", "Lines.").expect("a valid name");
        (LogWriter::start(out, dropped.clone()).expect("a thread"), dropped)
    }

    #[test]
    fn lines_to_a_broken_pipe_are_dropped_and_nothing_panics() {
        let (reader, pipe) = io::pipe().expect("a pipe");
        drop(reader);
        let (writer, dropped) = writer(pipe);
        with_default(subscriber(&LOG, writer.clone(), false), || {
            tracing::info!("one");
            tracing::warn!(number = 2, "two");
        });
        assert!(writer.flush_within(Duration::from_secs(30)));
        assert_eq!(dropped.get(), 2);
    }

    #[test]
    fn a_panic_is_one_error_line_with_its_place_and_text() {
        let (reader, pipe) = io::pipe().expect("a pipe");
        let (writer, dropped) = writer(pipe);
        // Other tests of this process keep their hook.
        let before = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            log_panic(info);
            before(info);
        }));
        with_default(subscriber(&LOG, writer.clone(), false), || {
            panic::catch_unwind(|| panic!("planted by a test")).expect_err("it panics");
        });
        let mut line = String::new();
        io::BufReader::new(reader).read_line(&mut line).expect("a line");
        for part in [r#""level":"ERROR""#, r#""panic":"planted by a test""#, "telemetry.rs:"] {
            assert!(line.contains(part), "{part} in {line}");
        }
        assert_eq!(dropped.get(), 0);
    }

    #[test]
    fn what_others_wrote_is_one_visible_line_in_every_format() {
        let evil = "x\u{1b}[2J\u{7}\u{9b}31m\u{202e}\n2026-11-29T00:00:00Z  INFO forged\r\n";
        let shown = "x\\u001b[2J\\u0007\\u009b31m\\u202e\\n2026-11-29T00:00:00Z  INFO forged\\r\\n";
        for (format, is_terminal) in
            [(LogFormat::Text, false), (LogFormat::Text, true), (LogFormat::Json, false)]
        {
            let (mut reader, pipe) = io::pipe().expect("a pipe");
            let (writer, _) = writer(pipe);
            let config = LogConfig { format, ..LOG };
            with_default(subscriber(&config, writer.clone(), is_terminal), || {
                tracing::warn!(error = %evil, text = evil, debug = ?evil, "{evil}");
            });
            assert!(writer.flush_within(Duration::from_secs(30)));
            let mut bytes = vec![0; 4096];
            let read = io::Read::read(&mut reader, &mut bytes).expect("a line");
            let line = std::str::from_utf8(&bytes[..read]).expect("UTF-8");
            let text = line.strip_suffix('\n').expect("a line");
            assert_eq!(text.matches("31m").count(), 4, "{text:?}");
            if format == LogFormat::Json {
                let line: serde_json::Value = serde_json::from_str(text).expect("JSON");
                assert_eq!((&line["error"], &line["message"]), (&evil.into(), &evil.into()));
            } else {
                assert!(text.contains(&format!("WARN {shown}")) || is_terminal, "{text:?}");
                assert!(text.contains(&format!("error={shown}")) || is_terminal, "{text:?}");
            }
            // The colours are the log's own.
            let plain = anstream::adapter::strip_str(text).to_string();
            assert!(!plain.contains(|letter: char| letter.is_control()), "{plain:?}");
            assert!(!plain.contains('\u{202e}') && (is_terminal || plain == text), "{text:?}");
        }
    }

    #[test]
    fn a_panicking_subscriber_does_not_end_a_caller_that_logs_safely() {
        log_safely(|| panic!("planted by a test"));
    }
}
