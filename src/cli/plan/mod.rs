//! `raindrop plan`: what a layout gives, and for how long.

mod chosen;
mod facts;
mod json;
mod picture;
mod style;
mod text;

use std::io::IsTerminal;

use self::{chosen::LayoutArguments, facts::Plan, style::Style};
use super::{Failure, output};
use crate::{
    config::{Config, ConfigError},
    core::clock::{Clock, SystemClock},
};

#[derive(Debug, clap::Args)]
pub(super) struct PlanArguments {
    #[command(flatten)]
    layout: LayoutArguments,
    /// Print JSON; docs/layouts.md lists its keys.
    #[arg(long)]
    json: bool,
}

pub(super) fn run(
    load: impl FnOnce() -> Result<Config, ConfigError>,
    arguments: PlanArguments,
) -> Result<(), Failure> {
    let plan = Plan::of(&arguments.layout.choose(load)?);
    if arguments.json {
        return Ok(output::print(&json::render(&plan))?);
    }
    let has_colour = std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
        && std::io::stdout().is_terminal();
    let style = if has_colour { Style::Coloured } else { Style::Plain };
    Ok(output::print(&text::render(&plan, style, SystemClock::default().now_ms()))?)
}

#[cfg(test)]
mod tests;
