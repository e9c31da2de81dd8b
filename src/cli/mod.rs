//! The command line: one file per command.
//!
//! Exit codes: 0 fine, 1 failed, 2 usage or configuration.

mod codes;
mod config;
mod health;
mod id;
mod output;
mod parse;
mod plan;
mod serve;
mod table;
mod token;
mod workers;

use std::{ffi::OsString, path::PathBuf, process::ExitCode, sync::Arc, time::Duration};

use clap::{Parser, Subcommand};

use crate::{
    config::{
        Config, ConfigError, DURATION_FORM, FlagValue, Inputs, Mode, NamespaceConfig,
        parse_duration as config_duration,
    },
    core::clock::SystemClock,
    keeper::{KeeperError, KeeperSettings},
    server::{NoFields, unknown_namespace},
    store::{self, Store, StoreError, with_sources},
};

/// Unique, time-ordered 64-bit IDs over HTTP/JSON.
#[derive(Debug, Parser)]
#[command(name = "raindrop", version, about)]
struct Cli {
    #[command(flatten)]
    overrides: Overrides,
    #[command(subcommand)]
    command: Option<Command>,
}

/// Apart from a command's own options in its help.
const GLOBAL: &str = "Global options";

/// Flags that every command knows, since each reads the configuration.
#[derive(Debug, clap::Args)]
struct Overrides {
    /// The configuration file (TOML).
    #[arg(long, global = true, help_heading = GLOBAL, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Address and port of the service.
    #[arg(long, global = true, help_heading = GLOBAL, value_name = "ADDRESS:PORT")]
    listen: Option<String>,
    /// Where worker ids are leased and numbers reserved.
    #[arg(long, global = true, help_heading = GLOBAL, value_name = "URL")]
    store_url: Option<String>,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Serve IDs over HTTP; the default command.
    Serve,
    /// Print IDs, one per line, issued with a lease or a block of this command's own.
    Id(id::IdArguments),
    /// Print the fields of an ID.
    Parse(parse::ParseArguments),
    /// Draw the bits of a layout, and tell when each field is used up.
    Plan(plan::PlanArguments),
    /// Check the configuration and print every value with its source.
    Config(config::ConfigArguments),
    /// Ask a running service whether it is alive, or ready.
    Health(health::HealthArguments),
    /// Make a token for requests, and its entry for auth.tokens_file.
    ///
    /// The entry, which has only the token's hash, goes to standard output, and the token itself,
    /// which is shown this once, to standard error: raindrop token shop >> tokens.toml
    Token(token::TokenArguments),
    /// List worker ids: who holds what, and until when; or change what the store says of them.
    Workers(workers::WorkersArguments),
    /// List the codes of segment mode: their next numbers, steps and what is left; or raise them.
    Codes(codes::CodesArguments),
}

/// Why a command failed.
#[derive(Debug)]
enum Failure {
    /// Exit code 1.
    Failed(String),
    /// Exit code 2: the usage, configuration or tables must change first.
    Usage(String),
}

impl From<ConfigError> for Failure {
    fn from(error: ConfigError) -> Self {
        Self::Usage(format!("the configuration cannot be used:\n{error}"))
    }
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        let is_permanent = error.is_permanent();
        let text = with_sources(&error);
        if is_permanent { Self::Usage(text) } else { Self::Failed(text) }
    }
}

impl From<KeeperError> for Failure {
    fn from(error: KeeperError) -> Self {
        match error {
            KeeperError::Store(error) => error.into(),
            error @ KeeperError::TaskFailed { .. } => Self::Failed(error.to_string()),
            error @ (KeeperError::LayoutConflict { .. }
            | KeeperError::Moving { .. }
            | KeeperError::Settings(_)) => Self::Usage(error.to_string()),
        }
    }
}

impl From<std::io::Error> for Failure {
    fn from(error: std::io::Error) -> Self {
        Self::Failed(error.to_string())
    }
}

/// Runs the command that these arguments name, the program's name first.
pub fn run(arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    let cli = match Cli::try_parse_from(arguments) {
        Ok(cli) => cli,
        Err(error) => {
            // Help and version are asked for and go to standard output.
            let _ = error.print();
            return ExitCode::from(if error.use_stderr() { 2 } else { 0 });
        }
    };
    match dispatch(cli) {
        Ok(()) => ExitCode::SUCCESS,
        Err(Failure::Failed(text)) => fail(1, &text),
        Err(Failure::Usage(text)) => fail(2, &text),
    }
}

fn fail(code: u8, text: &str) -> ExitCode {
    output::error(text);
    ExitCode::from(code)
}

fn dispatch(cli: Cli) -> Result<(), Failure> {
    let load = || Config::load(&inputs(cli.overrides));
    match cli.command.unwrap_or(Command::Serve) {
        Command::Serve => serve::run(load()?),
        Command::Id(arguments) => id::run(&load()?, &arguments),
        Command::Parse(arguments) => parse::run(load, &arguments),
        Command::Plan(arguments) => plan::run(load, arguments),
        Command::Config(arguments) => config::run(load, arguments),
        Command::Health(arguments) => health::run(load, arguments),
        Command::Token(arguments) => token::run(&arguments),
        Command::Workers(arguments) => workers::run(&load()?, &arguments),
        Command::Codes(arguments) => codes::run(&load()?, &arguments),
    }
}

fn inputs(overrides: Overrides) -> Inputs {
    let flag = |flag, key, value: Option<String>| value.map(|value| FlagValue { flag, key, value });
    let flags = [
        flag("--listen", "http.listen", overrides.listen),
        flag("--store-url", "store.url", overrides.store_url),
    ];
    Inputs {
        file: overrides.config,
        flags: flags.into_iter().flatten().collect(),
        ..Inputs::of_process()
    }
}

fn namespace_of<'a>(config: &'a Config, name: &str) -> Result<&'a NamespaceConfig, Failure> {
    config.namespace(name).ok_or_else(|| {
        let known = config.namespaces.iter().map(|namespace| &namespace.name);
        Failure::Usage(unknown_namespace(name, known))
    })
}

/// Runs a command's work to its end, and nothing beyond: a frozen store must not hold up the end
/// of the process.
fn block_on<T>(work: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let result = runtime.block_on(work);
    runtime.shutdown_background();
    result
}

/// Runs a command's work with the configured store, and closes the store.
fn with_store(
    config: &Config,
    work: impl AsyncFnOnce(Arc<dyn Store>, Arc<SystemClock>) -> Result<(), Failure>,
) -> Result<(), Failure> {
    block_on(async {
        let clock = Arc::new(SystemClock::default());
        let store = store::connect(&config.store, clock.clone()).await?;
        let result = work(Arc::clone(&store), clock).await;
        store.close().await;
        result
    })
}

/// Reads a duration above zero, such as 5m.
fn parse_duration(text: &str) -> Result<Duration, String> {
    let duration = config_duration(text).filter(|duration| !duration.is_zero());
    duration.ok_or_else(|| format!("must be {DURATION_FORM}"))
}

/// Returns what the store lists: nothing where nobody used it yet, since a list must not be what
/// creates its tables.
fn listed<T>(listed: Result<Vec<T>, StoreError>) -> Result<Vec<T>, Failure> {
    match listed {
        Err(StoreError::Vanished(what)) => {
            output::error(&format!("the store has not been used yet: {what}"));
            Ok(Vec::new())
        }
        listed => Ok(listed?),
    }
}

/// Returns the lease settings of a namespace.
fn keeper_of<'a>(config: &'a Config, namespace: &str) -> Result<&'a KeeperSettings, Failure> {
    match &namespace_of(config, namespace)?.mode {
        Mode::Snowflake { keeper, .. } => Ok(keeper),
        Mode::Segment { .. } => Err(Failure::Usage(NoFields(namespace).to_string())),
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_arguments_are_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn a_commands_help_has_its_own_options_apart_from_the_global_ones() {
        let mut cli = Cli::command();
        cli.build();
        let command = cli.find_subcommand_mut("id").expect("a command");
        let help = command.render_help().to_string();
        let (own, global) = help.split_once("Global options:").expect("a heading");
        for (part, flags) in [(own, ["--namespace", "--at"]), (global, ["--config", "--listen"])] {
            assert!(flags.iter().all(|flag| part.contains(flag)), "{help}");
        }
        assert!(!own.contains("--config") && !global.contains("--at"), "{help}");
    }

    #[test]
    fn without_a_word_the_service_is_meant() {
        let cli = Cli::try_parse_from(["raindrop", "--listen", "[::]:80"]).expect("valid");
        assert!(cli.command.is_none() && cli.overrides.listen.as_deref() == Some("[::]:80"));
        let cli = Cli::try_parse_from(["raindrop", "serve", "--store-url", "memory:"]);
        assert_eq!(cli.expect("valid").overrides.store_url.as_deref(), Some("memory:"));
    }
}
