//! `raindrop completions` and `raindrop man`, generated from the definition of the command line.

use std::{
    fs,
    path::{Path, PathBuf},
};

use clap::{Command, CommandFactory};
use clap_complete::Shell;
use clap_mangen::Man;

use super::{Cli, failure::Failure, output};

/// The text after the help of the program.
pub(super) const EXIT_CODES: &str = "\
Exit codes:
  0  it worked
  1  it failed, and may work later: the store does not answer, or nobody confirmed
  2  the usage, the configuration or the store's tables must change first";

/// The heading that the library gives to the text after the help.
const EXTRA: &str = ".SH EXTRA";

#[derive(Debug, clap::Args)]
pub(super) struct CompletionsArguments {
    /// The shell.
    shell: Shell,
}

#[derive(Debug, clap::Args)]
pub(super) struct ManArguments {
    /// An existing folder for the pages of all commands; without it, the page raindrop(1) is
    /// printed.
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
}

pub(super) fn completions(arguments: &CompletionsArguments) -> Result<(), Failure> {
    let mut script = Vec::new();
    clap_complete::generate(arguments.shell, &mut Cli::command(), "raindrop", &mut script);
    output::print(&String::from_utf8_lossy(&script))
}

pub(super) fn man(arguments: &ManArguments) -> Result<(), Failure> {
    let mut command = Cli::command().disable_help_subcommand(true);
    command.build();
    match &arguments.out {
        None => output::print(&page(&command)?.1),
        Some(folder) if !folder.is_dir() => {
            Err(Failure::Usage(format!("--out {}: must be an existing folder", folder.display())))
        }
        Some(folder) => write_pages(&command, folder),
    }
}

/// Writes the pages of a command and its subcommands.
fn write_pages(command: &Command, folder: &Path) -> Result<(), Failure> {
    let (name, text) = page(command)?;
    let path = folder.join(name);
    let failed = |error| Failure::Failed(format!("{}: {error}", path.display()));
    fs::write(&path, text).map_err(failed)?;
    command.get_subcommands().try_for_each(|command| write_pages(command, folder))
}

/// Returns the file name and the text of a page.
fn page(command: &Command) -> Result<(String, String), Failure> {
    let man = Man::new(command.clone()).manual("Raindrop");
    let mut text = Vec::new();
    man.render(&mut text)?;
    let text = String::from_utf8_lossy(&text).replace(EXTRA, ".SH \"EXIT STATUS\"");
    Ok((man.get_filename(), text))
}

#[cfg(test)]
mod tests {
    use clap::ValueEnum;

    use super::*;

    #[test]
    fn every_shell_gets_completions_of_every_command() {
        for shell in Shell::value_variants() {
            let mut script = Vec::new();
            clap_complete::generate(*shell, &mut Cli::command(), "raindrop", &mut script);
            let script = String::from_utf8(script).expect("UTF-8");
            for name in ["relayout", "completions", "rate-over"] {
                assert!(script.contains(name), "{shell}: {name}");
            }
        }
    }

    #[test]
    fn every_command_has_a_page() {
        let folder = tempfile::tempdir().expect("a folder");
        let out = Some(folder.path().to_owned());
        man(&ManArguments { out }).expect("written");
        let read = |name: &str| fs::read_to_string(folder.path().join(name)).expect(name);
        let page = read("raindrop.1");
        for text in [".TH raindrop 1", "EXIT STATUS", "must change first", "raindrop\\-workers"] {
            assert!(page.contains(text), "{text} is missing in\n{page}");
        }
        assert!(!page.contains(EXTRA));
        assert!(read("raindrop-workers-raise.1").contains("\\-\\-dry\\-run"));
        for command in Cli::command().get_subcommands() {
            let page = read(&format!("raindrop-{}.1", command.get_name()));
            assert!(page.contains("SYNOPSIS"), "{page}");
        }
        let nowhere = Some(folder.path().join("nowhere"));
        let error = man(&ManArguments { out: nowhere }).expect_err("no such folder");
        let Failure::Usage(text) = &error else { panic!("{error:?}") };
        assert!(text.ends_with("nowhere: must be an existing folder"), "{text}");
    }
}
