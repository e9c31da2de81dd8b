//! `raindrop parse`: the fields of an ID.

use super::{Failure, output};
use crate::{
    core::{
        clock::{Clock, SystemClock},
        id::Id,
        preset::NamedLayout,
    },
    server::{
        DEFAULT_NAMESPACE, ParsedId,
        config::{Config, ConfigError},
    },
};

#[derive(Debug, clap::Args)]
pub(super) struct ParseArguments {
    /// The ID.
    id: String,
    /// A preset, or the layout of another system; the configured layout by default.
    #[arg(long, value_name = "NAME", value_parser = layout)]
    layout: Option<NamedLayout>,
}

fn layout(name: &str) -> Result<NamedLayout, String> {
    NamedLayout::by_name(name).ok_or_else(|| {
        format!("must be one of {}", NamedLayout::names().collect::<Vec<_>>().join(", "))
    })
}

pub(super) fn run(
    load: impl FnOnce() -> Result<Config, ConfigError>,
    arguments: &ParseArguments,
) -> Result<(), Failure> {
    let id: Id = arguments
        .id
        .parse()
        .map_err(|error| Failure::Usage(format!("ID {:?}: {error}", arguments.id)))?;
    let now_ms = SystemClock::default().now_ms();
    let parsed = match &arguments.layout {
        Some(layout) => ParsedId::of_named(id, layout, now_ms),
        None => {
            let config = load()?;
            let keeper = config.keeper(DEFAULT_NAMESPACE).expect("it always exists");
            ParsedId::of_namespace(id, &keeper.layout, DEFAULT_NAMESPACE, now_ms)
        }
    };
    let parsed = parsed.map_err(|error| Failure::Failed(error.to_string()))?;
    let json = serde_json::to_string_pretty(&parsed).expect("texts and numbers are always JSON");
    Ok(output::print(&(json + "\n"))?)
}
