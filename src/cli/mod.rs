//! The command line: one file per command.
//!
//! Exit codes: 0 fine, 1 failed, 2 usage or configuration.

mod arguments;
mod client;
mod codes;
mod config;
mod confirm;
mod failure;
mod health;
mod id;
mod log;
mod manual;
mod output;
mod parse;
mod plan;
mod serve;
mod store;
#[cfg(test)]
mod tests;
mod token;
mod version;
mod workers;

use std::{ffi::OsString, process::ExitCode};

use clap::{
    Parser, Subcommand,
    error::{ContextKind, ContextValue},
};

use self::{arguments::Overrides, failure::Failure};
use crate::process::shutdown::end_by_signals_as_process_1;

/// Unique, time-ordered 64-bit IDs over HTTP/JSON.
#[derive(Debug, Parser)]
#[command(name = "raindrop", version, about, after_help = manual::EXIT_CODES)]
struct Cli {
    #[command(flatten)]
    overrides: Overrides,
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Serve IDs over HTTP; the default command.
    Serve,
    /// Print IDs, issued with a lease or a block of the command's own.
    Id(id::IdArguments),
    /// Print the fields of IDs.
    Parse(parse::ParseArguments),
    /// Draw the bits of a layout, and show when each field is used up.
    Plan(plan::PlanArguments),
    /// Check the configuration, and print every value with its source.
    Config(config::ConfigArguments),
    /// Ask a running service whether it is alive or ready.
    Health(health::HealthArguments),
    /// Print the version of this program.
    Version(version::VersionArguments),
    /// Create a token for requests, and its entry for auth.tokens_file.
    ///
    /// Prints the entry, which has only the token's hash, to standard output, and the token itself
    /// to standard error. The token is shown this once: raindrop token shop >> tokens.toml
    Token(token::TokenArguments),
    /// List worker ids with their holders and leases, or change what the store records of them.
    Workers(workers::WorkersArguments),
    /// List the codes of segment mode with their next numbers and steps, or create, change, import,
    /// raise or retire them.
    Codes(codes::CodesArguments),
    /// Show the level of a running service's log, or change it for a time.
    ///
    /// raindrop log --level debug --for 10m --server http://10.0.0.7:9090 --token-file token
    Log(log::LogArguments),
    /// Print the completions for a shell.
    ///
    /// For bash: raindrop completions bash > /etc/bash_completion.d/raindrop
    Completions(manual::CompletionsArguments),
    /// Print the manual page, or write those of all commands.
    ///
    /// raindrop man --out /usr/local/share/man/man1
    Man(manual::ManArguments),
}

/// Parses the command line. The error for `--port`, which other services have, names the flag to
/// use.
fn parse(arguments: impl IntoIterator<Item = OsString>) -> Result<Cli, clap::Error> {
    Cli::try_parse_from(arguments).map_err(|mut error| {
        if error.get(ContextKind::InvalidArg) == Some(&ContextValue::String("--port".into())) {
            let tip = "--listen takes the address with the port, such as 0.0.0.0:8080";
            error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![tip.into()]));
        }
        error
    })
}

/// Runs the command that these arguments name, the program's name first.
pub fn run(arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    let cli = match parse(arguments) {
        Ok(cli) => cli,
        Err(error) => {
            let printed = error.print();
            if error.use_stderr() {
                return ExitCode::from(2);
            }
            // Help and version are no errors, and go to standard output.
            let Err(failure) = output::is_written(printed) else { return ExitCode::SUCCESS };
            output::error(failure.text());
            return ExitCode::from(failure.exit_code());
        }
    };
    forbid_core_dumps();
    // The service handles these signals itself, for an orderly stop.
    if !matches!(cli.command, None | Some(Command::Serve))
        && let Err(error) = end_by_signals_as_process_1()
    {
        output::error(&format!("signals cannot be listened to: {error}"));
    }
    let Err(failure) = dispatch(cli) else { return ExitCode::SUCCESS };
    match &failure {
        Failure::Failed(line) | Failure::Usage(line) => output::error(line),
        Failure::Problems(text) => output::error_lines(text),
        Failure::Logged(_) => {}
    }
    ExitCode::from(failure.exit_code())
}

/// Disables core dumps, which would write passwords, tokens and private keys to the disk. The hard
/// limit stays, so that an operator can allow core dumps again with `prlimit`.
#[cfg(unix)]
fn forbid_core_dumps() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

    let forbidden = Rlimit { current: Some(0), ..getrlimit(Resource::Core) };
    if let Err(error) = setrlimit(Resource::Core, forbidden) {
        output::error(&format!("core dumps cannot be switched off: {error}"));
    }
}

#[cfg(not(unix))]
const fn forbid_core_dumps() {}

fn dispatch(Cli { overrides, command }: Cli) -> Result<(), Failure> {
    match command.unwrap_or(Command::Serve) {
        Command::Serve => serve::run(overrides.load()?),
        Command::Id(arguments) => id::run(&overrides.load()?, &arguments),
        Command::Parse(arguments) => parse::run(overrides, &arguments),
        Command::Plan(arguments) => plan::run(overrides, arguments),
        Command::Config(arguments) => config::run(overrides, &arguments),
        Command::Health(arguments) => health::run(overrides, &arguments),
        Command::Version(arguments) => version::run(&arguments),
        Command::Token(arguments) => token::run(&arguments),
        Command::Workers(arguments) => workers::run(overrides, &arguments),
        Command::Codes(arguments) => codes::run(overrides, &arguments),
        Command::Log(arguments) => log::run(&arguments),
        Command::Completions(arguments) => manual::completions(&arguments),
        Command::Man(arguments) => manual::man(&arguments),
    }
}
