//! `raindrop config`: check and print, convert, or describe for editors.

mod raindrop_go;

use std::path::{Path, PathBuf};

use serde::Serialize;

use super::{
    arguments::Overrides, failure::Failure, output, store::with_store, token::random_bytes,
};
use crate::{
    auth::Auth,
    config::{Config, EffectiveSetting, HttpTls, mask_tokens, schema, small_file},
    core::{
        clock::{Clock, SystemClock},
        lease::Token,
    },
    store::store_id,
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
    /// Print JSON: the settings with their sources, and notes.
    #[arg(long, conflicts_with_all = ["from_raindrop", "store_id"])]
    json: bool,
    /// Connect to the store and print its id, for store.id. A store without an id gets a random
    /// one, and keeps it for good.
    #[arg(long, conflicts_with = "from_raindrop")]
    store_id: bool,
    /// Print a JSON schema of the configuration file, for editors. Reads no configuration.
    #[arg(long, conflicts_with_all = ["from_raindrop", "json", "store_id"])]
    schema: bool,
}

/// The document that `raindrop config --json` prints.
#[derive(Serialize)]
struct Document {
    settings: Vec<Setting>,
    /// Notes for the operator, such as secrets that other users can read.
    notes: Vec<String>,
}

#[derive(Serialize)]
struct Setting {
    key: String,
    /// Secrets are masked; null if it is not set.
    value: Option<String>,
    source: String,
}

pub(super) fn run(overrides: Overrides, arguments: &ConfigArguments) -> Result<(), Failure> {
    if arguments.schema {
        return output::print_json(&schema());
    }
    match &arguments.from_raindrop {
        Some(path) => convert(path),
        None => {
            let config = overrides.load()?;
            Auth::of(&config)?;
            let of_key = config.http.tls.as_ref().and_then(HttpTls::readable_key);
            let equal_texts = config.equal_texts.iter().map(ToString::to_string);
            let notes: Vec<String> =
                config.notes.iter().cloned().chain(equal_texts).chain(of_key).collect();
            if arguments.store_id {
                return print_store_id(config);
            }
            if arguments.json {
                return output::print_json(&document(&config, notes));
            }
            show(&config)?;
            for note in notes {
                output::error(&format!("note: {note}"));
            }
            Ok(())
        }
    }
}

fn document(config: &Config, notes: Vec<String>) -> Document {
    let setting = |EffectiveSetting { key, value, source }: &EffectiveSetting| Setting {
        key: key.to_string(),
        value: (!value.is_empty()).then(|| mask_tokens(value).into_owned()),
        source: source.to_string(),
    };
    Document { settings: config.effective.iter().map(setting).collect(), notes }
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

/// Prints the id of the configured store, whichever id it should have.
fn print_store_id(mut config: Config) -> Result<(), Failure> {
    config.store.id = None;
    if config.store.url.is_memory() {
        let text = "--store-id: the store memory: is new at each start, and has no id";
        return Err(Failure::usage(text));
    }
    let fresh = Token::from_bits(u128::from_ne_bytes(random_bytes()?));
    with_store(&config, async |store, _| output::say(&store_id(&*store, fresh).await?.to_string()))
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
