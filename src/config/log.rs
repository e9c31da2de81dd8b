//! The `log` section.

use super::reader::Reader;

/// What is logged, and in which format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogConfig {
    /// `off`, `error`, `warn`, `info`, `debug` or `trace`.
    pub level: &'static str,
    /// Text or JSON.
    pub format: LogFormat,
}

/// The format of log lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogFormat {
    /// Text for people.
    Text,
    /// One JSON object per line.
    Json,
}

const LEVELS: [&str; 6] = ["off", "error", "warn", "info", "debug", "trace"];

pub(super) fn read(reader: &mut Reader) -> LogConfig {
    let level = reader.value("log.level", LEVELS.join(", "), |text| {
        LEVELS.into_iter().find(|level| *level == text)
    });
    let format = reader.value("log.format", "text or json", |text| match text {
        "text" => Some(LogFormat::Text),
        "json" => Some(LogFormat::Json),
        _ => None,
    });
    LogConfig { level, format }
}
