//! `raindrop version`: prints the version.

use super::{failure::Failure, output};
use crate::process::BUILD;

#[derive(Debug, clap::Args)]
pub(super) struct VersionArguments {
    /// Print JSON, with the commit from which the program was built.
    #[arg(long)]
    json: bool,
}

pub(super) fn run(arguments: &VersionArguments) -> Result<(), Failure> {
    if arguments.json {
        return output::print_json(&BUILD);
    }
    output::say(&format!("raindrop {}", BUILD.version))
}
