//! Asks for confirmation before a command makes a change that cannot be undone.

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
    /// Refuses to continue without `--yes` or `--dry-run` if standard input is no terminal.
    pub(super) fn check(&self, command: &str) -> Result<(), Failure> {
        if self.yes || self.dry_run || io::stdin().is_terminal() {
            return Ok(());
        }
        Err(Failure::Usage(format!(
            "{command}: nobody can be asked whether to proceed, because standard input is no \
             terminal: --yes proceeds without asking, --dry-run only says what would be done"
        )))
    }

    /// Returns whether the command only says what it would do.
    pub(super) const fn is_dry_run(&self) -> bool {
        self.dry_run
    }

    /// Returns whether to make the change: `false` with `--dry-run`.
    ///
    /// # Errors
    ///
    /// When the operator does not confirm.
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
