//! The `raindrop` command.

use std::process::ExitCode;

const _: () = assert!(
    !raindrop::core::planted::FOR_CHECKERS,
    "the feature `planted` or `loom` is on, which the models alone may use: leave out `--workspace` \
     and `--all-features`, and test the models with `make model-test`"
);

fn main() -> ExitCode {
    raindrop::cli::run(std::env::args_os())
}
