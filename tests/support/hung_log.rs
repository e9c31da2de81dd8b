//! A server whose log device can hang: nothing it writes to its log reaches the disk.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use super::programs::succeed;

/// Makes a server's writes to files whose path contains `log` wait while the device hangs;
/// `folder` must be the server's own.
pub(crate) fn environment(folder: &Path, log: &str) -> [(&'static str, PathBuf); 3] {
    let library = folder.join("hung_log.so");
    if !library.exists() {
        let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/support/hung_log.c");
        let mut compiler = Command::new("cc");
        compiler.args(["-shared", "-fPIC", "-O1", "-Wall", "-Werror", "-o"]).arg(&library);
        succeed(compiler.arg(source).arg("-ldl"));
    }
    [("LD_PRELOAD", library), ("HANG_WHILE", marker(folder)), ("HANG_ON", log.into())]
}

/// No write to the log begins from now on.
pub(crate) fn hang(folder: &Path) {
    fs::write(marker(folder), "").expect("a writable folder");
}

/// Writes to the log go on.
pub(crate) fn resume(folder: &Path) {
    fs::remove_file(marker(folder)).expect("the device hung");
}

fn marker(folder: &Path) -> PathBuf {
    folder.join("the-log-hangs")
}
