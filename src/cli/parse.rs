//! `raindrop parse`: the fields of an ID.

use super::{Failure, output};
use crate::{
    core::{id::Id, preset::Preset},
    server::{
        DEFAULT_NAMESPACE, ParsedId,
        config::{Config, ConfigError},
    },
};

#[derive(Debug, clap::Args)]
pub(super) struct ParseArguments {
    /// The ID.
    id: String,
    /// The layout, by its preset's name; the configured one by default.
    #[arg(long, value_name = "PRESET", value_parser = preset)]
    layout: Option<Preset>,
}

fn preset(name: &str) -> Result<Preset, String> {
    let names = || format!("must be {}", Preset::ALL.map(Preset::name).join(" or "));
    Preset::by_name(name).ok_or_else(names)
}

pub(super) fn run(
    load: impl FnOnce() -> Result<Config, ConfigError>,
    arguments: &ParseArguments,
) -> Result<(), Failure> {
    let id: Id = arguments
        .id
        .parse()
        .map_err(|error| Failure::Usage(format!("ID {:?}: {error}", arguments.id)))?;
    let parsed = match arguments.layout {
        Some(preset) => ParsedId::of_preset(id, preset),
        None => {
            let config = load()?;
            let keeper = config.keeper(DEFAULT_NAMESPACE).expect("it always exists");
            ParsedId::of_namespace(id, &keeper.layout, DEFAULT_NAMESPACE)
        }
    };
    let json = serde_json::to_string_pretty(&parsed).expect("texts and numbers are always JSON");
    Ok(output::print(&(json + "\n"))?)
}
