//! Corpora of odd inputs, each of which states its outcome, and changes of them.
//!
//! A text begins with comments such as `# problem: TEXT`, one for each problem that the test must
//! find in it; a request states its outcome in the name of its file. Add an input that a fuzzer
//! finds to its corpus.

use std::{
    fs,
    path::{Path, PathBuf},
    str::from_utf8,
};

use proptest::{collection::vec, prelude::*, sample::Index, test_runner::RngSeed};

/// Some bytes from here on are replaced by others.
#[derive(Clone, Debug)]
pub(crate) struct Change {
    at: Index,
    length: usize,
    by: Vec<u8>,
}

/// Returns the files of a folder, in the order of their names, with their bytes.
pub(crate) fn files(folder: &str) -> Vec<(PathBuf, Vec<u8>)> {
    let entries = fs::read_dir(folder).expect(folder);
    let mut paths: Vec<_> = entries.map(|entry| entry.expect("an entry").path()).collect();
    paths.sort();
    let with_bytes = |path: PathBuf| (path.clone(), fs::read(path).expect("a file"));
    paths.into_iter().map(with_bytes).collect()
}

/// Returns what a file states after each `# NAME: ` of the comments with which it begins.
#[allow(dead_code, reason = "the tests of HTTP state outcomes in the names of files")]
pub(crate) fn stated<'a>(bytes: &'a [u8], name: &str) -> Vec<&'a str> {
    let lines = bytes.split(|byte| *byte == b'\n').map_while(|line| from_utf8(line).ok());
    let comments = lines.map_while(|line| line.trim_start_matches('\u{feff}').strip_prefix("# "));
    let named = comments.filter_map(|line| line.strip_prefix(name)?.strip_prefix(": "));
    named.map(str::trim_end).collect()
}

/// Checks that each problem that a file states was found, and no other.
#[allow(dead_code, reason = "the tests of HTTP state outcomes in the names of files")]
pub(crate) fn check_problems(file: &Path, bytes: &[u8], found: &[String]) {
    let (file, problems) = (file.display(), stated(bytes, "problem"));
    assert_eq!(found.len(), problems.len(), "{file}: {found:#?}");
    for problem in problems {
        let is_found = found.iter().any(|found| found.contains(problem));
        assert!(is_found, "{file}: {problem} in {found:#?}");
    }
}

/// Draws a line of one of these files, which is inserted.
#[allow(dead_code, reason = "only the configuration is read by lines")]
pub(crate) fn inserted_line(files: Vec<Vec<u8>>) -> impl Strategy<Value = Change> {
    (any::<Index>(), any::<Index>(), any::<Index>()).prop_map(move |(at, file, line)| {
        let lines: Vec<&[u8]> = file.get(&files).split_inclusive(|byte| *byte == b'\n').collect();
        let by = if lines.is_empty() { Vec::new() } else { line.get(&lines).to_vec() };
        Change { at, length: 0, by }
    })
}

/// Draws up to 30 bytes, which are replaced by a piece of one of these files, or by any bytes.
#[allow(dead_code, reason = "the configuration has changes of its own")]
pub(crate) fn replaced_piece(files: Vec<Vec<u8>>) -> impl Strategy<Value = Change> {
    let piece =
        (any::<Index>(), any::<Index>(), 0..60_usize).prop_map(move |(file, at, length)| {
            let file = file.get(&files);
            let begin = at.index(file.len() + 1);
            file[begin..(begin + length).min(file.len())].to_vec()
        });
    replaced_by(prop_oneof![4 => piece, 1 => vec(any::<u8>(), 0..20)])
}

/// Draws up to 30 bytes, often none, which are replaced by what the strategy draws.
pub(crate) fn replaced_by(bytes: impl Strategy<Value = Vec<u8>>) -> impl Strategy<Value = Change> {
    let length = prop_oneof![Just(0), 0..30_usize];
    (any::<Index>(), length, bytes).prop_map(|(at, length, by)| Change { at, length, by })
}

/// Returns the bytes after these changes.
pub(crate) fn changed(bytes: &[u8], changes: Vec<Change>) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    for Change { at, length, by } in changes {
        let begin = at.index(bytes.len() + 1);
        let end = (begin + length).min(bytes.len());
        bytes.splice(begin..end, by);
    }
    bytes
}

/// Tries so many inputs, always the same: PROPTEST_RNG_SEED sets another seed.
pub(crate) fn repeatable(cases: u32, seed: u64) -> ProptestConfig {
    ProptestConfig { cases, rng_seed: RngSeed::Fixed(seed), ..ProptestConfig::default() }
}
