//! Logging to standard error. Standard output is for the results of commands.
//!
//! A task that logs must never wait, fail or panic, whatever happens to standard error. So lines go
//! through the queue of `LogWriter`, and so do panics, which a hook logs. Lines that cannot be
//! written are counted (`DROPPED`). Texts from stores, peers and clients are escaped in every
//! field, so that they can neither forge a line nor control a terminal.

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
    Layer, Registry,
    field::MakeExt as _,
    fmt::format::{Writer, debug_fn},
    layer::SubscriberExt as _,
    reload,
    util::SubscriberInitExt,
};

#[cfg(feature = "otel")]
use super::traces::{self, WithTraceId};
use super::{
    log_level::{LogLevel, directives},
    log_writer::LogWriter,
};
use crate::{
    config::{LogConfig, LogFormat},
    core::visible::visible,
};

/// How long the end of the process waits for queued lines.
const FLUSHED_WITHIN: Duration = Duration::from_secs(1);

/// The writer of this process.
static WRITER: OnceLock<LogWriter> = OnceLock::new();

/// The level of the log of this process.
static LEVEL: OnceLock<LogLevel> = OnceLock::new();

/// Counts the lines that were not written.
pub(crate) static DROPPED: LazyLock<IntCounter> = LazyLock::new(|| {
    let help = "Log lines that were not written: standard error cannot be written, or not as fast.";
    IntCounter::new("raindrop_log_lines_dropped_total", help).expect("a valid name")
});

/// Counts the spans that were not sent; 0 in a build without the feature `otel`.
pub(crate) static SPANS_DROPPED: LazyLock<IntCounter> = LazyLock::new(|| {
    let help = "Spans that were not sent: the collector did not take them, or not as fast.";
    IntCounter::new("raindrop_spans_dropped_total", help).expect("a valid name")
});

/// Waits for the queued lines when it is dropped, for at most a second.
#[derive(Debug)]
#[must_use = "the last lines may be lost unless it lives as long as the process"]
pub struct Logging(());

impl Drop for Logging {
    fn drop(&mut self) {
        #[cfg(feature = "otel")]
        traces::flush();
        flush();
    }
}

/// Starts logging, and logs panics as errors. Does nothing if a subscriber is installed already.
///
/// Lines are queued, and dropped when the queue is full or a write fails, so a task that logs never
/// waits and never fails.
///
/// # Errors
///
/// When the operating system cannot start a thread.
pub fn start(config: &LogConfig) -> io::Result<Logging> {
    let writer = LogWriter::start(io::stderr(), DROPPED.clone())?;
    let is_terminal = io::IsTerminal::is_terminal(&io::stderr());
    let (subscriber, level) = subscriber(config, writer.clone(), is_terminal);
    // This fails only in a program that embeds the service and has a subscriber.
    if subscriber.try_init().is_ok() {
        std::panic::set_hook(Box::new(log_panic));
        let _ = WRITER.set(writer);
        let _ = LEVEL.set(level);
    }
    Ok(Logging(()))
}

/// Returns the level of the log, unless a program that embeds the service has a log of its own.
pub(crate) fn level() -> Option<LogLevel> {
    LEVEL.get().cloned()
}

/// Waits until the queued lines are written, for at most a second.
pub(crate) fn flush() {
    if let Some(writer) = WRITER.get() {
        writer.flush_within(FLUSHED_WITHIN);
    }
}

/// Writes a text to standard error at the end of the process. Gives up after a second, because a
/// reader of standard error may hang.
pub(crate) fn write_at_end(text: &str) {
    // A failure cannot be reported anywhere.
    match LogWriter::start(io::stderr(), DROPPED.clone()) {
        Ok(mut writer) => {
            let _ = writer.write_all(text.as_bytes());
            writer.flush_within(FLUSHED_WITHIN);
        }
        // Without a thread, write directly, even if that may hang.
        Err(_) => drop(io::stderr().write_all(text.as_bytes())),
    }
}

/// Logs, and survives a panic of the subscriber, which may be one of a program that embeds the
/// service.
pub(crate) fn log_safely(log: impl FnOnce()) {
    let _ = catch_unwind(AssertUnwindSafe(log));
}

type Lines = Box<dyn Layer<Registry> + Send + Sync>;

fn subscriber(
    config: &LogConfig,
    writer: LogWriter,
    is_terminal: bool,
) -> (Box<dyn Subscriber + Send + Sync>, LogLevel) {
    let lines = tracing_subscriber::fmt::layer()
        .with_target(false)
        // The library would print them with `eprintln!`, which panics if standard error is closed.
        .log_internal_errors(false);
    let lines: Lines = match config.format {
        LogFormat::Text => {
            let lines = lines.fmt_fields(debug_fn(write_field).delimited(" "));
            let lines = lines.with_writer(move || writer.clone());
            let lines = lines.with_ansi(is_terminal);
            #[cfg(feature = "otel")]
            let lines = lines.map_event_format(|format| WithTraceId::text(format, is_terminal));
            Box::new(lines)
        }
        LogFormat::Json => {
            let lines = lines.with_writer(move || JsonLines(writer.clone()));
            let lines = lines.json().flatten_event(true);
            #[cfg(feature = "otel")]
            let lines = lines.map_event_format(WithTraceId::json);
            Box::new(lines)
        }
    };
    let (filter, handle) = reload::Layer::new(directives(config.level));
    let apply = move |filter| {
        // This fails only once the subscriber is gone, and with it the log.
        let _ = handle.reload(filter);
    };
    let subscriber = Registry::default().with(lines.with_filter(filter));
    #[cfg(feature = "otel")]
    let subscriber = subscriber.with(traces::layer());
    (Box::new(subscriber), LogLevel::new(config.level, Box::new(apply)))
}

/// Writes a field of a text line, escaped: its value may come from a peer or a store. The library
/// escapes only the message.
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

/// Queues lines of JSON, and escapes what the library leaves: it escapes only C0 characters. Each
/// call is one line.
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

/// Logs a panic. It replaces the standard hook, which writes to standard error directly and so may
/// hang.
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
    use crate::config::LoggedRequests;

    const LOG: LogConfig = LogConfig {
        level: "info",
        format: LogFormat::Json,
        requests: LoggedRequests::Off,
        slow_after: Duration::from_secs(1),
    };

    fn writer(out: impl Write + Send + 'static) -> (LogWriter, IntCounter) {
        let dropped = IntCounter::new("dropped", "Lines.").expect("a valid name");
        (LogWriter::start(out, dropped.clone()).expect("a thread"), dropped)
    }

    #[test]
    fn lines_to_a_broken_pipe_are_dropped_and_nothing_panics() {
        let (reader, pipe) = io::pipe().expect("a pipe");
        drop(reader);
        let (writer, dropped) = writer(pipe);
        with_default(subscriber(&LOG, writer.clone(), false).0, || {
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
        // Restore the hook afterwards: other tests run in this process.
        let before = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            log_panic(info);
            before(info);
        }));
        with_default(subscriber(&LOG, writer.clone(), false).0, || {
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
            with_default(subscriber(&config, writer.clone(), is_terminal).0, || {
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
