//! Odd layouts, each with its outcome, and changes of them.
//!
//! A file of the corpus begins with lines that state its outcome. A valid file states `# layout:`
//! and the canonical text of each namespace's layout. An invalid one states `# problem:` and a part
//! of each problem, where FILE is the path. Add a file that a fuzzer finds to the corpus.

use proptest::{collection::vec, prelude::*, sample::Index};

use super::{
    properties::{change, check, config},
    *,
};
use crate::test_corpus::{changed, check_problems, files, inserted_line, stated};

const CORPUS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/src/config/tests/corpus");

#[test]
fn each_file_has_the_outcome_that_it_states() {
    let corpus = files(CORPUS);
    assert!(corpus.len() > 60, "{}", corpus.len());
    for (file, bytes) in corpus {
        let inputs = Inputs { file: Some(file.clone()), ..Inputs::default() };
        match Config::load(&inputs) {
            Ok(config) => {
                let layouts: Vec<String> =
                    config.keepers().map(|keeper| keeper.layout.canonical()).collect();
                assert_eq!(layouts, stated(&bytes, "layout"), "{}", file.display());
            }
            Err(ConfigError(problems)) => {
                let path = file.display().to_string();
                let texts =
                    problems.iter().map(|problem| problem.to_string().replace(&path, "FILE"));
                check_problems(&file, &bytes, &texts.collect::<Vec<_>>());
            }
        }
    }
}

#[test]
fn any_change_of_a_file_is_a_layout_or_reported() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("raindrop.toml");
    let inputs = Inputs { file: Some(path.clone()), ..Inputs::default() };
    let corpus: Vec<Vec<u8>> = files(CORPUS).into_iter().map(|(_, bytes)| bytes).collect();
    let change = prop_oneof![inserted_line(corpus.clone()), change()];
    proptest!(config(1_000), |(file in any::<Index>(), changes in vec(change, 0..4))| {
        let original: &Vec<u8> = file.get(&corpus);
        fs::write(&path, changed(original, changes)).expect("written");
        check(&inputs)?;
    });
}
