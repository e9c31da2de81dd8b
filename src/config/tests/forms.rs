//! What the key table says of values is what loading takes.

use super::*;

/// The problem that a value of a key causes, or of another key beside it.
fn problem_of(key: &str, value: &str) -> Option<String> {
    let error = Config::load(&environment(&[(key, value)])).err()?;
    error.0.iter().map(ToString::to_string).find(|problem| problem.starts_with(key))
}

#[test]
fn the_words_of_the_table_are_those_that_loading_takes() {
    let mut checked = 0;
    for key in KEYS {
        let (Form::Words(words) | Form::NumberedWords { words, .. }) = key.form else { continue };
        let unknown = "no-such-word";
        let refused = problem_of(key.name, unknown).expect(key.name);
        let (_, allowed) = refused.split_once("must be ").expect("what is allowed");
        for word in words() {
            assert!(allowed.contains(word), "{}: {word} in {allowed}", key.name);
            let problem = problem_of(key.name, word);
            assert_ne!(problem, Some(refused.replace(unknown, word)), "{} = {word}", key.name);
            checked += 1;
        }
        let listed = allowed.trim_start_matches("one of ").replace(" or ", ", ");
        let listed = listed.split(", ").filter(|word| !word.contains("1 to ")).count();
        assert_eq!(listed, words().len(), "{}: {allowed}", key.name);
    }
    assert!(checked > 40, "{checked}");
}

#[test]
fn numbers_out_of_the_range_of_the_table_are_refused() {
    let mut checked = 0;
    for key in KEYS {
        let (low, high) = match key.form {
            Form::Number { least, most } => (least.checked_sub(1), most + 1),
            Form::NumberedWords { most, .. } => (Some(0), most + 1),
            _ => continue,
        };
        for value in low.into_iter().chain([high]) {
            let problem = problem_of(key.name, &value.to_string());
            assert!(problem.is_some(), "{} = {value} is taken", key.name);
            checked += 1;
        }
    }
    assert!(checked > 30, "{checked}");
}
