//! `raindrop codes`: the codes of segment mode.

mod list;
mod raise;

use std::time::Duration;

use super::{arguments::duration, failure::Failure, store::with_store};
use crate::config::Config;

#[derive(Debug, clap::Args)]
pub(super) struct CodesArguments {
    /// Read twice, so far apart, and tell how many numbers a second were reserved meanwhile. Nodes
    /// reserve about once in segment.target_duration: ask for several times that.
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    rate_over: Option<Duration>,
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// Raise the next numbers of codes: for a store restored from a backup, before any node uses
    /// it.
    ///
    /// A backup has old next numbers: nodes that begin there would issue again what was issued
    /// since. The numbers that are passed over are a gap, and nothing else.
    ///
    /// Needs, to be safe: no node has reserved from the restored store before, and --by is more
    /// than was reserved of any code since the backup.
    Raise(raise::RaiseArguments),
}

pub(super) fn run(config: &Config, arguments: &CodesArguments) -> Result<(), Failure> {
    with_store(config, async |store, _| match &arguments.command {
        None => list::run(config, &*store, arguments.rate_over).await,
        Some(Command::Raise(arguments)) => raise::run(&*store, arguments).await,
    })
}
