//! `raindrop parse`: prints the fields of an ID.

use clap::builder::{PossibleValuesParser, TypedValueParser};

use super::{
    arguments::{Overrides, encodings, keeper_of},
    failure::Failure,
    output,
};
use crate::{
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
    /// A preset, or the layout of another system; by default the configured layout.
    #[arg(long, value_name = "NAME", value_parser = layouts())]
    layout: Option<NamedLayout>,
    /// The namespace; by default that of the ID's prefix, or else default.
    #[arg(long, value_name = "NAME", conflicts_with = "layout")]
    namespace: Option<String>,
    /// The encoding of the ID.
    #[arg(long, value_name = "NAME", default_value_t, value_parser = encodings())]
    encoding: Encoding,
}

fn layouts() -> impl TypedValueParser<Value = NamedLayout> {
    PossibleValuesParser::new(NamedLayout::names())
        .map(|name| NamedLayout::by_name(&name).expect("a possible value"))
}

pub(super) fn run(overrides: Overrides, arguments: &ParseArguments) -> Result<(), Failure> {
    let now_ms = SystemClock::default().now_ms();
    let read = |text: &str, layout| {
        let as_usage = |error| Failure::Usage(format!("ID {text:?}: {error}"));
        arguments.encoding.decode(text, layout).map_err(as_usage)
    };
    let parsed = match &arguments.layout {
        Some(named) => ParsedId::of_named(read(&arguments.id, named.layout())?, named, now_ms),
        None => {
            let config = overrides.load()?;
            let located =
                config.codes.locate_text(&arguments.id, arguments.namespace.as_deref(), |_| true);
            let located = located.map_err(Failure::usage)?;
            let layout = &keeper_of(&config, located.namespace)?.layout;
            let id = read(located.text, Some(layout))?;
            ParsedId::of_namespace(id, layout, located.namespace, now_ms)
        }
    };
    output::print_json(&parsed.map_err(Failure::failed)?)
}
