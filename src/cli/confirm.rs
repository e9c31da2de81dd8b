//! Asks before a command changes what cannot be changed back.

use std::io::{self, BufRead, IsTerminal};

use super::{failure::Failure, output};

#[derive(Debug, clap::Args)]
pub(super) struct Confirmation {
    /// Do it without asking.
    #[arg(long, short)]
    yes: bool,
    /// Only say what would be done.
    #[arg(long, conflicts_with = "yes")]
    dry_run: bool,
}

impl Confirmation {
    /// Refuses to go on where nobody can be asked.
    pub(super) fn check(&self, command: &str) -> Result<(), Failure> {
        if self.yes || self.dry_run || io::stdin().is_terminal() {
            return Ok(());
        }
        Err(Failure::Usage(format!(
            "{command}: nobody can be asked whether to proceed, because standard input is no \
             terminal: --yes proceeds without asking, --dry-run only says what would be done"
        )))
    }

    /// Whether to go on. `false` with --dry-run; a person who does not agree is a failure.
    pub(super) fn is_given(&self) -> Result<bool, Failure> {
        if self.yes || self.dry_run {
            return Ok(self.yes);
        }
        output::ask("Proceed? [y/N] ");
        let mut answer = String::new();
        io::stdin().lock().read_line(&mut answer)?;
        match &*answer.trim().to_lowercase() {
            "y" | "yes" => Ok(true),
            _ => Err(Failure::Failed("not confirmed: nothing was changed".into())),
        }
    }
}
