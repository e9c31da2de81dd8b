//! Passes the version of the compiler to the report.

use std::process::Command;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let rustc = std::env::var("RUSTC").expect("cargo names the compiler");
    let version = Command::new(rustc).arg("--version").output().expect("the compiler runs");
    let version = String::from_utf8(version.stdout).expect("a version in UTF-8");
    println!("cargo::rustc-env=RUSTC_VERSION={}", version.trim());
}
