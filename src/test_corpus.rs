//! Corpora of odd files, each of which states its outcome, and changes of them.
//!
//! A file begins with comments such as `# problem: TEXT`, one for each problem that the test must
//! find in it. Add a file that a fuzzer finds to its corpus.

use std::{
    fs,
    path::{Path, PathBuf},
    str::from_utf8,
};

use proptest::sample::Index;

/// Returns the files of a folder, in the order of their names, with their bytes.
pub(crate) fn files(folder: &str) -> Vec<(PathBuf, Vec<u8>)> {
    let entries = fs::read_dir(folder).expect(folder);
    let mut paths: Vec<_> = entries.map(|entry| entry.expect("an entry").path()).collect();
    paths.sort();
    let with_bytes = |path: PathBuf| (path.clone(), fs::read(path).expect("a file"));
    paths.into_iter().map(with_bytes).collect()
}

/// Returns what a file states after each `# NAME: ` of the comments with which it begins.
pub(crate) fn stated<'a>(bytes: &'a [u8], name: &str) -> Vec<&'a str> {
    let lines = bytes.split(|byte| *byte == b'\n').map_while(|line| from_utf8(line).ok());
    let comments = lines.map_while(|line| line.trim_start_matches('\u{feff}').strip_prefix("# "));
    let named = comments.filter_map(|line| line.strip_prefix(name)?.strip_prefix(": "));
    named.map(str::trim_end).collect()
}

/// Checks that each problem that a file states was found, and no other.
pub(crate) fn check_problems(file: &Path, bytes: &[u8], found: &[String]) {
    let (file, problems) = (file.display(), stated(bytes, "problem"));
    assert_eq!(found.len(), problems.len(), "{file}: {found:#?}");
    for problem in problems {
        let is_found = found.iter().any(|found| found.contains(problem));
        assert!(is_found, "{file}: {problem} in {found:#?}");
    }
}

/// Replaces some bytes at some places by others.
pub(crate) fn changed(bytes: &[u8], changes: Vec<(Index, usize, Vec<u8>)>) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    for (at, length, fragment) in changes {
        let begin = at.index(bytes.len() + 1);
        let end = (begin + length).min(bytes.len());
        bytes.splice(begin..end, fragment);
    }
    bytes
}
