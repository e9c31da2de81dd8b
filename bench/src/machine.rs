//! The machine, the compiler and the versions behind the figures.

use std::{fs, io, thread::available_parallelism};

/// Returns the processor, the number of cores that this process may use, and the compiler.
pub fn describe() -> String {
    let info = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = info
        .lines()
        .find_map(|line| line.strip_prefix("model name")?.split_once(':'))
        .map_or("unknown processor", |(_, model)| model.trim());
    let cores = available_parallelism().map_or(1, usize::from);
    format!("{model}, {cores} cores, {}, {}", std::env::consts::ARCH, env!("RUSTC_VERSION"))
}

/// Returns the version of a crate in this build, from the lock file.
///
/// # Panics
///
/// If the lock file does not have exactly one version of it.
pub fn version_of(name: &str) -> &'static str {
    const LOCK: &str = include_str!("../Cargo.lock");
    let entry = format!("name = \"{name}\"\nversion = \"");
    let mut found = LOCK.split(&entry).skip(1).filter_map(|rest| rest.split('"').next());
    let version = found.next().unwrap_or_else(|| panic!("{name} is not in Cargo.lock"));
    assert!(found.next().is_none(), "Cargo.lock has several versions of {name}");
    version
}

/// Formats a number of bytes as MiB.
pub fn mebibytes(bytes: u64) -> f64 {
    bytes as f64 / f64::from(1 << 20)
}

/// Returns the resident memory of a process in bytes; `process` is its number or `self`.
///
/// # Errors
///
/// If the kernel does not report it.
pub fn resident_memory(process: &str) -> io::Result<u64> {
    let status = fs::read_to_string(format!("/proc/{process}/status"))?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib = line.and_then(|line| line.trim().strip_suffix(" kB")?.parse::<u64>().ok());
    kib.map(|kib| kib * 1024).ok_or_else(|| io::Error::other("no VmRSS in /proc"))
}
