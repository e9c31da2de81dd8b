//! `raindrop codes`: lists the codes of segment mode, or changes what the store records of them.

mod change;
mod import;
pub(super) mod list;
mod remote;

use std::{collections::BTreeSet, time::Duration};

use tokio::runtime::Builder;

use self::import::ImportArguments;

use super::{
    arguments::{Overrides, code, duration, namespace_of},
    client::Remote,
    confirm::Confirmation,
    failure::Failure,
    output::Report,
    store::{block_on, with_store},
};
use crate::{
    config::{Config, Mode},
    core::segment::SegmentSpec,
    keeper::SegmentSettings,
    server::GivenSettings,
};

#[derive(Debug, clap::Args)]
pub(super) struct CodesArguments {
    /// The namespace; may be left out where only one is in segment mode, and to list all.
    #[arg(long, global = true, value_name = "NAME")]
    namespace: Option<String>,
    /// Read twice, this far apart, and show how many numbers a second were reserved in between.
    /// Nodes reserve about once in segment.target_duration: choose several times that.
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    rate_over: Option<Duration>,
    /// Print JSON: the list, or what a command did, with the keys of GET /codes.
    #[arg(long, global = true)]
    json: bool,
    #[command(flatten)]
    remote: Remote,
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// Create a code that nodes serve without a restart; those that run know it within a second.
    Create {
        /// The code.
        #[arg(value_parser = code)]
        code: String,
        #[command(flatten)]
        settings: GivenSettings,
    },
    /// Change settings of a managed code; nodes follow within 30 s.
    Set {
        /// The code.
        #[arg(value_parser = code)]
        code: String,
        #[command(flatten)]
        settings: GivenSettings,
        #[command(flatten)]
        confirmation: Confirmation,
    },
    /// Start codes above the numbers of Leaf, tinyid or CosId.
    ///
    /// Reads the other service's table, and starts each code above its largest number, a step and
    /// the margin. A code that exists is raised, never lowered, so this can be repeated.
    ///
    /// Safe if the other service is stopped, or cannot reserve more numbers. Numbers that it
    /// reserved before are all below.
    Import(ImportArguments),
    /// Raise the next numbers of codes, before any node uses a restored backup.
    ///
    /// A backup has old next numbers: nodes that started from them would repeat numbers that were
    /// issued since. Skipped numbers are only a gap.
    ///
    /// Safe if no node has reserved from the restored store before, and --by is more than any code
    /// reserved since the backup.
    Raise {
        /// How much to add to each next number.
        #[arg(long, value_name = "NUMBERS", value_parser = clap::value_parser!(u64).range(1..=SegmentSpec::LARGEST_NUMBER))]
        by: u64,
        /// The codes; by default all of the namespace.
        #[arg(value_name = "CODE")]
        codes: Vec<String>,
        #[command(flatten)]
        confirmation: Confirmation,
    },
    /// Retire a code for good: no number of it is ever issued again.
    ///
    /// Nodes that have numbers of it in hand stop within 30 s.
    Retire {
        /// The code.
        #[arg(value_parser = code)]
        code: String,
        #[command(flatten)]
        confirmation: Confirmation,
    },
}

pub(super) fn run(overrides: Overrides, arguments: &CodesArguments) -> Result<(), Failure> {
    if arguments.command.is_some() && arguments.rate_over.is_some() {
        return Err(Failure::usage("--rate-over: must be left out with a subcommand"));
    }
    match arguments.remote.client()? {
        Some(client) => block_on(Builder::new_current_thread(), remote::run(&client, arguments)),
        None => run_in_store(&overrides.load()?, arguments),
    }
}

fn run_in_store(config: &Config, arguments: &CodesArguments) -> Result<(), Failure> {
    let CodesArguments { namespace, json, command, .. } = arguments;
    let namespace = namespace.as_deref();
    let Some(command) = command else {
        return with_store(config, async |store, _| list::list(config, store, arguments).await);
    };
    let report = Report::of(*json);
    match command {
        Command::Raise { by, codes, confirmation } => {
            confirmation.check("codes raise")?;
            with_store(config, async |store, _| {
                let raise = change::Raise { config, namespace, by: *by, codes, confirmation };
                change::raise(store, raise, report).await
            })
        }
        Command::Create { code, settings } => {
            let namespace = settings_of(config, namespace)?;
            // Refuse a code that is bound to another namespace: no request could reach it here.
            config.codes.locate(code, Some(&namespace.namespace)).map_err(Failure::usage)?;
            with_store(config, async |store, _| {
                change::create(store, namespace, code, &(*settings).into(), report).await
            })
        }
        Command::Set { code, settings, confirmation } => {
            let namespace = settings_of(config, namespace)?;
            with_store(config, async |store, _| {
                change::set(store, namespace, code, *settings, confirmation, report).await
            })
        }
        Command::Import(arguments) => {
            let namespace = settings_of(config, namespace)?;
            arguments.confirmation.check("codes import")?;
            with_store(config, async |store, _| {
                import::run(config, store, namespace, arguments, report).await
            })
        }
        Command::Retire { code, confirmation } => {
            let namespace = settings_of(config, namespace)?;
            confirmation.check("codes retire")?;
            with_store(config, async |store, _| {
                change::retire(store, namespace, code, confirmation, report).await
            })
        }
    }
}

/// Returns the settings of a segment namespace, or of the only one.
fn settings_of<'a>(
    config: &'a Config,
    namespace: Option<&str>,
) -> Result<&'a SegmentSettings, Failure> {
    if let Some(name) = namespace {
        return match &namespace_of(config, name)?.mode {
            Mode::Segment { keeper } => Ok(keeper),
            Mode::Snowflake { .. } => {
                Err(Failure::Usage(format!("namespace {name:?} is not in segment mode")))
            }
        };
    }
    let mut segments = config.segments();
    match (segments.next(), segments.next()) {
        (Some(only), None) => Ok(only),
        (None, _) => Err(Failure::Usage(
            "no namespace of this configuration is in segment mode: it has no codes".into(),
        )),
        (Some(_), Some(_)) => {
            let names = config.segments().map(|settings| settings.namespace.as_str());
            Err(ambiguous(names.collect()))
        }
    }
}

fn ambiguous(names: BTreeSet<&str>) -> Failure {
    let names = Vec::from_iter(names).join(", ");
    Failure::Usage(format!("--namespace: must be given, one of {names}"))
}
