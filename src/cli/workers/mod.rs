//! `raindrop workers`: who holds which worker id, and what a person can do about it.

mod list;
mod raise;
mod relayout;
mod release;

use super::{failure::Failure, load::keeper_of, store::with_store};
use crate::{config::Config, core::namespace::DEFAULT_NAMESPACE, keeper::Operator};

#[derive(Debug, clap::Args)]
pub(super) struct WorkersArguments {
    /// The namespace to release, raise or move; all are listed.
    #[arg(long, global = true, value_name = "NAME", default_value = DEFAULT_NAMESPACE)]
    namespace: String,
    /// List the worker ids that were never used one by one, too.
    #[arg(long)]
    all: bool,
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// Free worker ids before their time, such as those of a machine that burned down.
    ///
    /// Needs nothing to be safe: a holder that still runs uses up what it had leased, which the
    /// next one never issues, and then leases another worker id.
    Release(release::ReleaseArguments),
    /// Raise every mark beyond everything that was ever leased: for a store restored from a
    /// backup, before any node uses it.
    ///
    /// A backup has old marks: nodes that begin there would issue again what was issued since.
    /// Raised marks are beyond the store's clock by the largest lease.window of any node that
    /// used the store, and lease.max_clock_skew; IDs flow again when that time is over.
    ///
    /// Needs, to be safe: no node has written to the restored store before; the store's clock is
    /// right; --window is the largest of any node. Nodes that still run on what they had leased do
    /// no harm. Repeating it is safe, and so is running it at any other time: it only costs time.
    Raise(raise::RaiseArguments),
    /// Move the namespace from its recorded layout to the configured one.
    ///
    /// Needs, to be safe, that every ID of the new layout is above every ID that the old marks
    /// allow: both are printed, and it is refused otherwise. Nodes of the old layout do no harm:
    /// they stop when their leases end, and must be started again with the new configuration.
    ///
    /// When it was cut short, repeat it. Until it is finished no node can join.
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
