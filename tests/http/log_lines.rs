//! Log lines, as the source has them.

use std::{fs, path::Path};

/// One process keeps many namespaces, and each has its worker ids.
#[test]
fn log_lines_of_a_namespace_name_it() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    for (folder, says, least) in
        [("crates/keeper/src", "", 30), ("crates/store/src", "", 1), ("src", "worker", 3)]
    {
        let checked = check_folder(&root.join(folder), says);
        assert!(checked >= least, "{folder}: only {checked} lines");
    }
}

fn check_folder(folder: &Path, says: &str) -> usize {
    let paths = fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("one").path());
    let check = |path: &Path| match path.is_dir() {
        true => check_folder(path, says),
        false => check_file(path, says),
    };
    paths.map(|path| check(&path)).sum()
}

/// Checks the log lines of a file whose fields say this, and counts them.
fn check_file(path: &Path, says: &str) -> usize {
    // The console's pictures are no text.
    let source = fs::read_to_string(path).unwrap_or_default();
    let macros = ["debug!(", "info!(", "warn!(", "error!("];
    let lines = source.split("tracing::").skip(1);
    let lines = lines.filter(|text| macros.iter().any(|name| text.starts_with(name)));
    let fields = lines.map(|line| line.split('"').next().unwrap_or_default());
    let check = |fields: &str| {
        assert!(fields.contains("namespace"), "{}: tracing::{fields}", path.display());
    };
    fields.filter(|fields| fields.contains(says)).map(check).count()
}
