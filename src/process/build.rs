//! What this program was built from.

use serde::Serialize;
use utoipa::ToSchema;

/// This build, as `/version`, `raindrop version --json` and `raindrop_build_info` report it.
pub(crate) const BUILD: Build = Build {
    version: env!("CARGO_PKG_VERSION"),
    commit: match option_env!("RAINDROP_COMMIT") {
        Some(commit) => commit,
        None => "unknown",
    },
};

/// A build of this program.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Build {
    /// The version.
    pub(crate) version: &'static str,
    /// The commit, `unknown` if the build was not told it.
    pub(crate) commit: &'static str,
}
