//! `raindrop codes`: lists the codes of segment mode, or raises them.

mod list;
mod raise;

use std::time::Duration;

use super::{arguments::duration, failure::Failure, store::with_store};
use crate::config::Config;

#[derive(Debug, clap::Args)]
pub(super) struct CodesArguments {
    /// Read twice, this far apart, and show how many numbers a second were reserved in between.
    /// Nodes reserve about once in segment.target_duration: choose several times that.
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    rate_over: Option<Duration>,
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// Raise the next numbers of codes, before any node uses a restored backup.
    ///
    /// A backup has old next numbers: nodes that started from them would repeat numbers that were
    /// issued since. Skipped numbers are only a gap.
    ///
    /// Safe if no node has reserved from the restored store before, and --by is more than any code
    /// reserved since the backup.
    Raise(raise::RaiseArguments),
}

pub(super) fn run(config: &Config, arguments: &CodesArguments) -> Result<(), Failure> {
    with_store(config, async |store, _| match &arguments.command {
        None => list::run(config, &*store, arguments.rate_over).await,
        Some(Command::Raise(arguments)) => raise::run(&*store, arguments).await,
    })
}
