//! `raindrop workers`: lists worker ids, or changes what the store records of them.

mod list;
mod raise;
mod relayout;
mod release;

use super::{failure::Failure, load::keeper_of, store::with_store};
use crate::{config::Config, core::namespace::DEFAULT_NAMESPACE, keeper::Operator};

#[derive(Debug, clap::Args)]
pub(super) struct WorkersArguments {
    /// The namespace to release, raise or move; the list shows every namespace.
    #[arg(long, global = true, value_name = "NAME", default_value = DEFAULT_NAMESPACE)]
    namespace: String,
    /// Also list each worker id that was never used.
    #[arg(long)]
    all: bool,
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// Free worker ids early, for example those of a machine that burned down.
    ///
    /// Always safe: a holder that still runs uses up its lease, whose IDs the next holder never
    /// issues, and then leases another worker id.
    Release(release::ReleaseArguments),
    /// Raise every mark above everything that was ever leased, before any node uses a restored
    /// backup.
    ///
    /// A backup has old marks: nodes that started from them would repeat IDs that were issued
    /// since. Raised marks are ahead of the store's clock by --window and lease.max_clock_skew;
    /// nodes issue IDs again when that time has passed.
    ///
    /// Safe if no node has written to the restored store before, the store's clock is right, and
    /// --window is the largest lease.window of any node. Nodes that still run on their old leases
    /// do no harm. Repeating the command, or running it at any other time, only costs time.
    Raise(raise::RaiseArguments),
    /// Move the namespace from its recorded layout to the configured one.
    ///
    /// Safe only if every ID of the new layout is above every ID that the old marks allow: the
    /// command prints both, and refuses otherwise. Nodes of the old layout do no harm: they stop
    /// when their leases end, and must be restarted with the new configuration.
    ///
    /// If the command is interrupted, run it again: no node can join until it has finished.
    Relayout,
}

pub(super) fn run(config: &Config, arguments: &WorkersArguments) -> Result<(), Failure> {
    let Some(command) = &arguments.command else {
        return with_store(config, async |store, _| {
            list::run(config, &*store, arguments.all).await
        });
    };
    if arguments.all {
        return Err(Failure::Usage("--all: must be left out with a subcommand".into()));
    }
    let settings = keeper_of(config, &arguments.namespace)?;
    if let Command::Raise(arguments) = command {
        arguments.check(&settings.lease)?;
    }
    with_store(config, async |store, clock| {
        let mut operator = Operator::new(settings.clone(), store, clock);
        match command {
            Command::Release(arguments) => release::run(&mut operator, arguments).await,
            Command::Raise(arguments) => {
                raise::run(&settings.lease, &mut operator, arguments).await
            }
            Command::Relayout => relayout::run(&settings.layout, &mut operator).await,
        }
    })
}
