//! Odd layouts, each with its outcome, and changes of them.
//!
//! A file of the corpus begins with lines that state its outcome. A valid file states `# layout:`
//! and the canonical text of each namespace's layout. An invalid one states `# problem:` and a part
//! of each problem, where FILE is the path. Add a file that a fuzzer finds to the corpus.

use std::{path::PathBuf, str::from_utf8};

use proptest::{collection::vec, prelude::*, sample::Index};

use super::{
    properties::{change, check, config},
    *,
};

const CORPUS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/src/config/tests/corpus");

fn corpus() -> Vec<(PathBuf, Vec<u8>)> {
    let paths = fs::read_dir(CORPUS).expect(CORPUS).map(|entry| entry.expect("an entry").path());
    let mut paths: Vec<_> = paths.collect();
    paths.sort();
    let read = |path: PathBuf| (path.clone(), fs::read(path).expect("a file"));
    paths.into_iter().map(read).collect()
}

/// Returns what a file states after each `# NAME: `.
fn stated<'a>(bytes: &'a [u8], name: &str) -> Vec<&'a str> {
    let lines = bytes.split(|byte| *byte == b'\n').map_while(|line| from_utf8(line).ok());
    let comments = lines.map_while(|line| line.trim_start_matches('\u{feff}').strip_prefix("# "));
    let named = comments.filter_map(|line| line.strip_prefix(name)?.strip_prefix(": "));
    named.map(str::trim_end).collect()
}

#[test]
fn each_file_has_the_outcome_that_it_states() {
    let corpus = corpus();
    assert!(corpus.len() > 60, "{}", corpus.len());
    for (file, bytes) in corpus {
        let inputs = Inputs { file: Some(file.clone()), ..Inputs::default() };
        let file = file.display().to_string();
        match Config::load(&inputs) {
            Ok(config) => {
                let layouts: Vec<String> =
                    config.keepers().map(|keeper| keeper.layout.canonical()).collect();
                assert_eq!(layouts, stated(&bytes, "layout"), "{file}");
            }
            Err(ConfigError(problems)) => {
                let found: Vec<String> = problems
                    .iter()
                    .map(|problem| problem.to_string().replace(&file, "FILE"))
                    .collect();
                let problems = stated(&bytes, "problem");
                assert_eq!(found.len(), problems.len(), "{file}: {found:#?}");
                for problem in problems {
                    let is_found = found.iter().any(|found| found.contains(problem));
                    assert!(is_found, "{file}: {problem} in {found:#?}");
                }
            }
        }
    }
}

#[test]
fn any_change_of_a_file_is_a_layout_or_reported() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("raindrop.toml");
    let inputs = Inputs { file: Some(path.clone()), ..Inputs::default() };
    let corpus: Vec<Vec<u8>> = corpus().into_iter().map(|(_, bytes)| bytes).collect();
    let fragments = corpus.clone();
    // A line of another file.
    let line = (any::<Index>(), any::<Index>()).prop_map(move |(file, line)| {
        let lines: Vec<&[u8]> =
            file.get(&fragments).split_inclusive(|byte| *byte == b'\n').collect();
        let line = if lines.is_empty() { &[][..] } else { line.get(&lines) };
        line.to_vec()
    });
    let line = (any::<Index>(), Just(0), line);
    let change = prop_oneof![line, change()];
    proptest!(config(1_000), |(file in any::<Index>(), changes in vec(change, 0..4))| {
        let mut bytes = file.get(&corpus).clone();
        for (at, length, fragment) in changes {
            let begin = at.index(bytes.len() + 1);
            let end = (begin + length).min(bytes.len());
            bytes.splice(begin..end, fragment);
        }
        fs::write(&path, &bytes).expect("written");
        check(&inputs)?;
    });
}
