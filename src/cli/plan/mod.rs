//! `raindrop plan`: what a layout offers, and for how long.

mod facts;
mod flags;
mod picture;
#[cfg(test)]
mod tests;
mod text;

use anstream::{AutoStream, ColorChoice, adapter::strip_str};

use self::flags::LayoutFlags;
use super::{failure::Failure, load::Overrides, output};
use crate::core::clock::{Clock, SystemClock};

#[derive(Debug, clap::Args)]
pub(super) struct PlanArguments {
    #[command(flatten)]
    layout: LayoutFlags,
    /// Print JSON; docs/layouts.md lists its keys.
    #[arg(long)]
    json: bool,
}

pub(super) fn run(overrides: Overrides, arguments: PlanArguments) -> Result<(), Failure> {
    let plan = arguments.layout.plan(overrides)?;
    if arguments.json {
        return output::print_json(&plan);
    }
    let text = text::render(&plan, SystemClock::default().now_ms());
    match AutoStream::choice(&std::io::stdout()) {
        ColorChoice::Never => output::print(&strip_str(&text).to_string())?,
        _ => output::print(&text)?,
    }
    Ok(())
}
