//! Makes a server's log device hang: no write of the server to its log reaches the disk.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use super::programs::succeed;

/// Returns the environment that makes a server's writes to files whose path contains `log` wait
/// while the device hangs; `folder` must be the server's own.
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

/// Lets no write to the log begin from now on.
pub(crate) fn hang(folder: &Path) {
    fs::write(marker(folder), "").expect("a writable folder");
}

/// Lets writes to the log continue.
pub(crate) fn resume(folder: &Path) {
    fs::remove_file(marker(folder)).expect("the device hung");
}

fn marker(folder: &Path) -> PathBuf {
    folder.join("the-log-hangs")
}
