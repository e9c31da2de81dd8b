//! `raindrop config`: check and print, or convert.

mod raindrop_go;

use std::{fmt::Write, fs, path::PathBuf};

use super::{Failure, output};
use crate::{
    config::{Config, ConfigError},
    core::clock::{Clock, SystemClock},
    server::Auth,
};

#[derive(Debug, clap::Args)]
pub(super) struct ConfigArguments {
    /// Print the TOML configuration that makes the IDs of this one of raindrop-Go, instead.
    ///
    /// FILE is its RainDropConfig as JSON, which it logs when it starts ("raindrop init. config:"),
    /// or as TOML, under the names of the struct or of its JSON tags. What differs is told on
    /// standard error.
    #[arg(long, value_name = "FILE")]
    from_raindrop: Option<PathBuf>,
}

pub(super) fn run(
    load: impl FnOnce() -> Result<Config, ConfigError>,
    arguments: ConfigArguments,
) -> Result<(), Failure> {
    match arguments.from_raindrop {
        Some(path) => convert(path),
        None => {
            let config = load()?;
            Auth::of(&config)?;
            show(&config)
        }
    }
}

fn show(config: &Config) -> Result<(), Failure> {
    let mut text = String::new();
    let longest = config.effective().iter().map(|setting| setting.key.len()).max().unwrap_or(0);
    for setting in config.effective() {
        let value = if setting.value.is_empty() { "(unset)" } else { &setting.value };
        writeln!(text, "{:longest$} = {value}  ({})", setting.key, setting.source)
            .expect("a string takes any text");
    }
    Ok(output::print(&text)?)
}

fn convert(path: PathBuf) -> Result<(), Failure> {
    let usage = |reason: &str| Failure::Usage(format!("{}: {reason}", path.display()));
    let text = fs::read_to_string(&path).map_err(|error| usage(&error.to_string()))?;
    let converted = raindrop_go::convert(&text, SystemClock::default().now_ms())
        .map_err(|problems| usage(&format!("cannot be converted:\n{}", problems.join("\n"))))?;
    for warning in converted.warnings {
        output::error(&format!("warning: {warning}"));
    }
    Ok(output::print(&converted.toml)?)
}
