//! `raindrop version`: prints the version.

use serde::Serialize;

use super::{failure::Failure, output};

#[derive(Debug, clap::Args)]
pub(super) struct VersionArguments {
    /// Print JSON, with the commit from which the program was built.
    #[arg(long)]
    json: bool,
}

/// The document that `raindrop version --json` prints, with the labels of `raindrop_build_info`.
#[derive(Serialize)]
struct Document {
    version: &'static str,
    /// `unknown` if the build was not told it.
    commit: &'static str,
}

pub(super) fn run(arguments: &VersionArguments) -> Result<(), Failure> {
    let version = env!("CARGO_PKG_VERSION");
    if arguments.json {
        let commit = option_env!("RAINDROP_COMMIT").unwrap_or("unknown");
        return output::print_json(&Document { version, commit });
    }
    output::say(&format!("raindrop {version}"))
}
