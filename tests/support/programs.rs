//! Finds and runs the programs that servers need.

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::Command,
};

use rustix::process::geteuid;

/// Returns the first of these programs, on the path, in the usual folders, or in `more`.
pub(crate) fn find(names: &[&str], more: &[PathBuf]) -> Option<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    let usual = ["/usr/sbin", "/usr/bin", "/usr/local/sbin", "/usr/local/bin", "/opt/homebrew/bin"];
    env::split_paths(&path)
        .chain(usual.map(PathBuf::from))
        .chain(more.iter().cloned())
        .flat_map(|folder| names.iter().map(move |name| folder.join(name)))
        .find(|candidate| candidate.is_file())
}

/// Returns a fresh data folder, made once for each version and kept beside the build's files;
/// `make` fills the folder.
pub(crate) fn initialised(program: &Path, name: &str, make: impl FnOnce(&Path)) -> PathBuf {
    let version = Command::new(program).arg("--version").output().expect("it runs").stdout;
    let version: String = String::from_utf8_lossy(&version)
        .chars()
        .filter(|character| character.is_ascii_alphanumeric() || *character == '.')
        .collect();
    let user = geteuid().as_raw();
    let kept = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let data = kept.join(format!("{name}-{user}-{version}"));
    if data.is_dir() {
        return data;
    }
    fs::create_dir_all(kept).expect("a folder for the build's files");
    let fresh = tempfile::tempdir().expect("a temporary folder");
    make(&fresh.path().join("data"));
    // Moved in one step, so that no process finds half of it.
    let copy = tempfile::tempdir_in(kept).expect("a temporary folder");
    let copied = copy.path().join("data");
    copy_folder(&fresh.path().join("data"), &copied);
    // Another process may have been faster; its folder is as good.
    if fs::rename(&copied, &data).is_err() {
        assert!(data.is_dir(), "{} cannot be written", data.display());
    }
    data
}

pub(crate) fn copy_folder(from: &Path, to: &Path) {
    succeed(Command::new("cp").arg("-R").arg(from).arg(to));
}

pub(crate) fn succeed(command: &mut Command) {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {}\n{said}", output.status);
}
