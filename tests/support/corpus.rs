//! Corpora of odd inputs, and changes of them. Each input states its outcome: texts in comments
//! (`src/test_corpus.rs`), requests in the names of their files. Add an input that a fuzzer finds to
//! its corpus.

use std::{fs, path::PathBuf};

use proptest::{collection::vec, prelude::*, sample::Index, test_runner::RngSeed};

/// Some bytes from here on are replaced by others.
#[derive(Clone, Debug)]
pub(crate) struct Change {
    pub(crate) at: Index,
    pub(crate) length: usize,
    pub(crate) by: Vec<u8>,
}

/// Returns the files of a folder, in the order of their names, with their bytes.
pub(crate) fn files(folder: &str) -> Vec<(PathBuf, Vec<u8>)> {
    let entries = fs::read_dir(folder).expect(folder);
    let mut paths: Vec<_> = entries.map(|entry| entry.expect("an entry").path()).collect();
    paths.sort();
    let with_bytes = |path: PathBuf| (path.clone(), fs::read(path).expect("a file"));
    paths.into_iter().map(with_bytes).collect()
}

/// Draws up to 30 bytes, which are replaced by a piece of one of these files, or by any bytes.
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
