//! `raindrop workers`: lists worker ids, or changes what the store records of them.

mod list;
mod raise;
mod relayout;
mod release;

use std::{sync::Arc, time::Duration};

use tokio::runtime::Builder;

use super::{
    arguments::{Overrides, duration, namespace_of},
    client::{Client, Remote, needs_store},
    confirm::Confirmation,
    failure::Failure,
    output::Report,
    store::{block_on, with_store},
};
use crate::{
    config::{Config, Mode},
    core::namespace::DEFAULT_NAMESPACE,
    keeper::{KeeperSettings, Operator},
    store::{Store, StoreError},
};

#[derive(Debug, clap::Args)]
pub(super) struct WorkersArguments {
    /// The namespace; by default the list shows every one, and the commands change default.
    #[arg(long, global = true, value_name = "NAME")]
    namespace: Option<String>,
    #[command(flatten)]
    selection: list::Selection,
    /// Print JSON: the list, or what a command did; docs/commands.md lists the keys.
    #[arg(long, global = true)]
    json: bool,
    #[command(flatten)]
    remote: Remote,
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// Free worker ids early, for example those of a machine that burned down.
    ///
    /// Always safe: a holder that still runs notices, at the latest after lease.renew, and leases
    /// another worker id; the next holder never issues its IDs. Asks first if a lease has not
    /// expired.
    Release {
        /// The worker ids.
        #[arg(value_name = "WORKER", required = true)]
        workers: Vec<u64>,
        #[command(flatten)]
        confirmation: Confirmation,
    },
    /// Begin a new epoch above everything that was ever leased, before any node uses a restored
    /// backup.
    ///
    /// A backup has old marks: nodes that started from them would repeat IDs that were issued
    /// since. In the new epoch every lease begins at a barrier, which is ahead of the store's clock
    /// by --window and twice lease.max_clock_skew; nodes issue IDs again when that time has passed.
    /// The command writes once, for any number of worker ids.
    ///
    /// Safe if no node has written to the restored store before, the store's clock is right, and
    /// --window is the largest lease.window of any node. Nodes that still run on their old leases
    /// do no harm. Repeating the command, or running it at any other time, only costs time.
    Raise {
        /// The largest lease.window of any node that used the store, such as 5m; by default the
        /// configured one.
        #[arg(long, value_name = "DURATION", value_parser = duration)]
        window: Option<Duration>,
        /// Lower a barrier that a clock put far ahead which was ahead itself: with the clocks right
        /// again, new leases begin when --window and twice lease.max_clock_skew have passed.
        ///
        /// Only if the store lost no write that a process made while a clock was ahead, neither by
        /// a fail-over, nor by a restore, nor in a crash. No store can tell that: if it lost one,
        /// IDs are issued twice. Refused unless the barrier is so far ahead that a wrong clock must
        /// have put it there.
        #[arg(long, value_name = "now")]
        barrier: Option<raise::Barrier>,
        #[command(flatten)]
        confirmation: Confirmation,
    },
    /// Move the namespace from its recorded layout to the configured one.
    ///
    /// Safe only if every ID of the new layout is above every ID that the old marks allow: the
    /// command prints both, and refuses otherwise. Nodes of the old layout do no harm: they stop
    /// when their leases end, and must be restarted with the new configuration.
    ///
    /// If the command is interrupted, run it again: no node can join until it has finished.
    Relayout {
        #[command(flatten)]
        confirmation: Confirmation,
    },
}

/// The store and the namespace that a command changes.
struct Target<'a> {
    /// The store's address, without secrets.
    address: String,
    store: Arc<dyn Store>,
    settings: &'a KeeperSettings,
    operator: Operator,
    report: Report,
}

impl Target<'_> {
    /// Returns the names of the store and the namespace, for people.
    fn place(&self) -> String {
        format!("store {}, namespace {}", self.address, self.settings.namespace)
    }

    /// Returns whether the store has no tables yet. Any other call than the list would create them.
    async fn is_unused(&self) -> Result<bool, Failure> {
        match self.store.read_record(&self.settings.namespace).await {
            Err(StoreError::Vanished(_)) => Ok(true),
            read => Ok(read.map(|_| false)?),
        }
    }
}

pub(super) fn run(overrides: Overrides, arguments: &WorkersArguments) -> Result<(), Failure> {
    let selects = arguments.command.is_some() && !arguments.selection.is_default();
    if selects {
        let flags = "--all, --held and --free";
        return Err(Failure::Usage(format!("{flags}: must be left out with a subcommand")));
    }
    match arguments.remote.client()? {
        Some(client) => block_on(Builder::new_current_thread(), run_remote(&client, arguments)),
        None => run_in_store(&overrides.load()?, arguments),
    }
}

/// Runs a command through the admin routes of a service.
async fn run_remote(client: &Client, arguments: &WorkersArguments) -> Result<(), Failure> {
    let name = match &arguments.command {
        None => return list::list_remote(client, arguments).await,
        Some(Command::Release { workers, confirmation }) => {
            let namespace = arguments.namespace.as_deref().unwrap_or(DEFAULT_NAMESPACE);
            let report = Report::of(arguments.json);
            return release::release_remote(client, namespace, workers, confirmation, report).await;
        }
        Some(Command::Raise { .. }) => "workers raise",
        Some(Command::Relayout { .. }) => "workers relayout",
    };
    Err(needs_store(name))
}

fn no_worker_ids(namespace: &str) -> Failure {
    Failure::Usage(format!(
        "namespace {namespace:?} is in segment mode and has no worker ids: see raindrop codes"
    ))
}

fn run_in_store(config: &Config, arguments: &WorkersArguments) -> Result<(), Failure> {
    let namespace = arguments.namespace.as_deref();
    let Some(command) = &arguments.command else {
        return with_store(config, async |store, clock| {
            list::list(config, &*store, &*clock, arguments).await
        });
    };
    let namespace = namespace.unwrap_or(DEFAULT_NAMESPACE);
    let Mode::Snowflake { keeper: settings, .. } = &namespace_of(config, namespace)?.mode else {
        return Err(no_worker_ids(namespace));
    };
    // Refuse bad arguments before any call of the store.
    match command {
        Command::Release { .. } => {}
        Command::Raise { window, confirmation, .. } => {
            raise::check_window(&settings.lease, *window)?;
            confirmation.check("workers raise")?;
        }
        Command::Relayout { confirmation } => confirmation.check("workers relayout")?,
    }
    with_store(config, async |store, clock| {
        let operator = Operator::new(settings.clone(), Arc::clone(&store), clock);
        let address = config.store.url.to_string();
        let report = Report::of(arguments.json);
        let mut target = Target { address, store, settings, operator, report };
        match command {
            Command::Release { workers, confirmation } => {
                release::release(&mut target, workers, confirmation).await
            }
            Command::Raise { window, barrier, confirmation } => {
                raise::raise(&mut target, *window, *barrier, confirmation).await
            }
            Command::Relayout { confirmation } => {
                relayout::relayout(&mut target, confirmation).await
            }
        }
    })
}
