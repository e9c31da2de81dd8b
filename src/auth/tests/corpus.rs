//! Odd token files, each with its outcome, and changes of them.
//!
//! A file of the corpus begins with lines that say what becomes of it: `# entries: 2`, or for each
//! problem `# problem:` and a part of it. Files that a fuzzer finds are added to it.

use std::path::PathBuf;

use proptest::{collection::vec, prelude::*, sample::Index};

use super::*;
use crate::test_corpus::{changed, check_problems, files, repeatable, replaced_piece, stated};

const CORPUS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/src/auth/tests/corpus");

/// A secret in the place of a hash or certificate, where an operator may paste it by mistake.
const PASTED: &str = "raindrop_5ec3e7";

/// Opens a file of these bytes, and returns the number of entries or all problems.
fn outcome(path: &PathBuf, bytes: &[u8]) -> Result<usize, Vec<String>> {
    fs::write(path, bytes).expect("written");
    let opened = Auth::open(path, ["default", "web"]);
    opened
        .map(|auth| auth.count())
        .map_err(|error| error.0.iter().map(ToString::to_string).collect())
}

#[test]
fn each_file_has_the_outcome_that_it_states() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("tokens.toml");
    let corpus = files(CORPUS);
    assert!(corpus.len() > 20, "{}", corpus.len());
    for (file, bytes) in corpus {
        match outcome(&path, &bytes) {
            Ok(count) => {
                assert_eq!(stated(&bytes, "entries"), [count.to_string()], "{}", file.display());
            }
            Err(found) => {
                check_problems(&file, &bytes, &found);
                assert!(!found.concat().contains(PASTED), "{}: {found:#?}", file.display());
            }
        }
    }
}

#[test]
fn any_change_of_a_file_is_read_or_refused_with_reasons() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("tokens.toml");
    let corpus: Vec<Vec<u8>> = files(CORPUS).into_iter().map(|(_, bytes)| bytes).collect();
    let change = replaced_piece(corpus.clone());
    proptest!(repeatable(1_000, 20_261_124), |(file in any::<Index>(), changes in vec(change, 0..4))| {
        let original: &Vec<u8> = file.get(&corpus);
        match outcome(&path, &changed(original, changes)) {
            Ok(count) => prop_assert!(count > 0),
            Err(problems) => {
                prop_assert!(!problems.is_empty());
                prop_assert!(problems.iter().all(|problem| problem.contains("tokens.toml")));
            }
        }
    });
}

#[test]
fn a_long_file_is_read_and_problems_are_limited() {
    let count = 20_000;
    let good: String =
        (0..count).map(|index| entry(&format!("client-{index}"), &index.to_string())).collect();
    let auth = open(&good).expect("valid");
    assert_eq!(auth.count(), count);
    for index in [0, 1, count / 2, count - 1] {
        let rights = found(&auth, &index.to_string()).expect("known");
        assert_eq!(rights.name, format!("client-{index}"));
    }
    assert!(found(&auth, &count.to_string()).is_none());

    let bad = good.replace("client-", "a client ");
    let problems = open(&bad).expect_err("bad names");
    assert_eq!(problems.len(), 101);
    assert_eq!(problems[100], "FILE: 19900 more problems");
}
