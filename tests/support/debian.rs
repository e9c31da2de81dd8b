//! Installing what the tests need.

use std::{
    process::{Command, Stdio},
    sync::{Mutex, PoisonError},
};

use rustix::process::geteuid;

/// Installs a package where that is possible: as root, on Debian or Ubuntu.
pub(crate) fn install(package: &str) -> bool {
    // `apt-get update` waits for nobody's lock.
    static ONE: Mutex<()> = Mutex::new(());
    let _one = ONE.lock().unwrap_or_else(PoisonError::into_inner);
    let apt_get = |arguments: &[&str]| {
        let mut command = Command::new("apt-get");
        // Another test binary may be installing something else.
        command.args(["-o", "DPkg::Lock::Timeout=300"]).args(arguments);
        command.env("DEBIAN_FRONTEND", "noninteractive").stdout(Stdio::null());
        command.status().is_ok_and(|status| status.success())
    };
    geteuid().is_root()
        && apt_get(&["update"])
        && apt_get(&["install", "-y", "--no-install-recommends", package])
}
