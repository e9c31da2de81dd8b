//! Corpora of odd texts, each of which states its outcome.
//!
//! A file begins with comments such as `# problem: TEXT`, one for each problem that the test must
//! find in it.

use std::{path::Path, str::from_utf8};

use proptest::{prelude::*, sample::Index};

#[path = "../tests/support/corpus.rs"]
mod shared;

pub(crate) use shared::{Change, changed, files, repeatable, replaced_by, replaced_piece};

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

/// Draws a line of one of these files, which is inserted.
pub(crate) fn inserted_line(files: Vec<Vec<u8>>) -> impl Strategy<Value = Change> {
    (any::<Index>(), any::<Index>(), any::<Index>()).prop_map(move |(at, file, line)| {
        let lines: Vec<&[u8]> = file.get(&files).split_inclusive(|byte| *byte == b'\n').collect();
        let by = if lines.is_empty() { Vec::new() } else { line.get(&lines).to_vec() };
        Change { at, length: 0, by }
    })
}
