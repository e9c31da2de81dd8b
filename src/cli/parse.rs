//! `raindrop parse`: the fields of an ID.

use super::{Failure, keeper_of, output};
use crate::{
    config::{Config, ConfigError},
    core::{
        clock::{Clock, SystemClock},
        encoding::Encoding,
        preset::NamedLayout,
    },
    server::ParsedId,
};

#[derive(Debug, clap::Args)]
pub(super) struct ParseArguments {
    /// The ID.
    id: String,
    /// A preset, or the layout of another system; the configured layout by default.
    #[arg(long, value_name = "NAME", value_parser = layout)]
    layout: Option<NamedLayout>,
    /// The namespace; that of the ID's prefix, or default.
    #[arg(long, value_name = "NAME", conflicts_with = "layout")]
    namespace: Option<String>,
    /// How the ID is written: decimal, hex, base32, base36, base62, base64url or friendly.
    #[arg(long, value_name = "NAME", default_value_t, value_parser = encoding)]
    encoding: Encoding,
}

pub(super) fn encoding(name: &str) -> Result<Encoding, String> {
    let names = || format!("must be one of {}", Encoding::ALL.map(Encoding::name).join(", "));
    Encoding::by_name(name).ok_or_else(names)
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
    let now_ms = SystemClock::default().now_ms();
    let read = |text: &str, layout| {
        let as_usage = |error| Failure::Usage(format!("ID {text:?}: {error}"));
        arguments.encoding.decode(text, layout).map_err(as_usage)
    };
    let parsed = match &arguments.layout {
        Some(named) => ParsedId::of_named(read(&arguments.id, named.layout())?, named, now_ms),
        None => {
            let config = load()?;
            let located = config.codes.locate_text(&arguments.id, arguments.namespace.as_deref());
            let located = located.map_err(|error| Failure::Usage(error.to_string()))?;
            let layout = &keeper_of(&config, located.namespace)?.layout;
            let id = read(located.text, Some(layout))?;
            ParsedId::of_namespace(id, layout, located.namespace, now_ms)
        }
    };
    let parsed = parsed.map_err(|error| Failure::Failed(error.to_string()))?;
    output::print_json(&parsed)
}
