//! The `raindrop` command.

use std::process::ExitCode;

fn main() -> ExitCode {
    raindrop::cli::run(std::env::args_os())
}
