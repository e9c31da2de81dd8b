//! The `raindrop` command.

use std::process::ExitCode;

const _: () = assert!(
    !raindrop::core::planted::FOR_CHECKERS,
    "the feature `planted` or `loom` is on, which the models alone may use: leave out \
     `--workspace` and `--all-features`, and test the models with `make model-test`"
);

#[cfg(all(feature = "jemalloc", target_os = "linux"))]
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

fn main() -> ExitCode {
    raindrop::cli::run(std::env::args_os())
}
