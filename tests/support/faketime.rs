//! Gives one process a separate wall clock, which tests can move while it runs (libfaketime).

use std::{
    fs,
    path::{Path, PathBuf},
    sync::OnceLock,
};

/// Returns the environment that makes a process read the clock that [`shift`] moves. Its monotonic
/// clock stays true.
pub(crate) fn environment(clock: &Path) -> [(&'static str, PathBuf); 4] {
    shift(clock, 0.0);
    [
        ("LD_PRELOAD", library().to_owned()),
        ("FAKETIME_TIMESTAMP_FILE", clock.to_owned()),
        ("FAKETIME_NO_CACHE", "1".into()),
        ("FAKETIME_DONT_FAKE_MONOTONIC", "1".into()),
    ]
}

/// Shifts the clock against the machine's, by seconds.
pub(crate) fn shift(clock: &Path, seconds: f64) {
    // Renamed into place, so that no process reads half a file.
    let next = clock.with_extension("next");
    fs::write(&next, format!("{seconds:+.3}")).expect("a writable folder");
    fs::rename(&next, clock).expect("the same folder");
}

fn library() -> &'static Path {
    static LIBRARY: OnceLock<PathBuf> = OnceLock::new();
    LIBRARY.get_or_init(|| {
        find().expect("these tests need libfaketime: `make deps` names the package")
    })
}

fn find() -> Option<PathBuf> {
    let folders =
        ["/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/lib", "/usr/local/lib"];
    folders
        .iter()
        .map(|folder| Path::new(folder).join("faketime/libfaketimeMT.so.1"))
        .find(|library| library.is_file())
}
