//! Log lines, on standard error: standard output belongs to the commands' answers.

use std::io;

use tracing_subscriber::{EnvFilter, fmt, util::SubscriberInitExt};

use super::config::{LogConfig, LogFormat};

/// Starts logging. Does nothing when logging was started already.
pub fn start(config: &LogConfig) {
    let filter = EnvFilter::new(config.level);
    let lines = fmt().with_env_filter(filter).with_writer(io::stderr).with_target(false);
    // The only failure is that somebody embeds us and logs already.
    let _ = match config.format {
        LogFormat::Text => {
            lines.with_ansi(io::IsTerminal::is_terminal(&io::stderr())).finish().try_init()
        }
        LogFormat::Json => lines.json().flatten_event(true).finish().try_init(),
    };
}
