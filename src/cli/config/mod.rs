//! `raindrop config`: check and print, or convert.

mod raindrop_go;

use std::path::{Path, PathBuf};

use super::{arguments::Overrides, failure::Failure, output};
use crate::{
    auth::Auth,
    config::{Config, EffectiveSetting, HttpTls, mask_tokens, small_file},
    core::clock::{Clock, SystemClock},
};

#[derive(Debug, clap::Args)]
pub(super) struct ConfigArguments {
    /// Convert a configuration of raindrop-Go to TOML for the same IDs, and print that instead.
    ///
    /// FILE is its RainDropConfig as JSON, which it logs when it starts ("raindrop init. config:"),
    /// or as TOML, under the names of the struct or of its JSON tags. Differences are reported on
    /// standard error.
    #[arg(long, value_name = "FILE")]
    from_raindrop: Option<PathBuf>,
}

pub(super) fn run(overrides: Overrides, arguments: &ConfigArguments) -> Result<(), Failure> {
    match &arguments.from_raindrop {
        Some(path) => convert(path),
        None => {
            let config = overrides.load()?;
            Auth::of(&config)?;
            show(&config)?;
            let of_key = config.http.tls.as_ref().and_then(HttpTls::readable_key);
            for note in config.notes.iter().chain(&of_key) {
                output::error(&format!("note: {note}"));
            }
            Ok(())
        }
    }
}

fn show(config: &Config) -> Result<(), Failure> {
    let mut text = String::new();
    let longest = config.effective.iter().map(|setting| setting.key.len()).max().unwrap_or(0);
    for EffectiveSetting { key, value, source } in &config.effective {
        let value = if value.is_empty() { "(unset)" } else { value };
        text += &format!("{key:longest$} = {value}  ({source})\n");
    }
    output::print(&mask_tokens(&text))
}

fn convert(path: &Path) -> Result<(), Failure> {
    let usage = |reason: &str| Failure::Usage(format!("{}: {reason}", path.display()));
    let text = small_file::read_text(path).map_err(|error| usage(&error.to_string()))?;
    let heading = || format!("{}: cannot be converted:", path.display());
    let converted = raindrop_go::convert(&text, SystemClock::default().now_ms())
        .map_err(|problems| Failure::problems(&heading(), problems))?;
    for warning in converted.warnings {
        output::error(&format!("warning: {warning}"));
    }
    output::print(&converted.toml)
}
