//! What the figures were taken on and with.

use std::{fs, thread::available_parallelism};

/// The processor, the number of its cores that this process may use, and the compiler.
pub fn describe() -> String {
    let info = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = info
        .lines()
        .find_map(|line| line.strip_prefix("model name")?.split_once(':'))
        .map_or("unknown processor", |(_, model)| model.trim());
    let cores = available_parallelism().map_or(1, usize::from);
    format!("{model}, {cores} cores, {}, {}", std::env::consts::ARCH, env!("RUSTC_VERSION"))
}

/// The version of a crate that was built in, from the lock file.
///
/// # Panics
///
/// If it is not there exactly once.
pub fn version_of(name: &str) -> &'static str {
    const LOCK: &str = include_str!("../Cargo.lock");
    let entry = format!("name = \"{name}\"\nversion = \"");
    let mut found = LOCK.split(&entry).skip(1).filter_map(|rest| rest.split('"').next());
    let version = found.next().unwrap_or_else(|| panic!("{name} is not in Cargo.lock"));
    assert!(found.next().is_none(), "Cargo.lock has several versions of {name}");
    version
}
