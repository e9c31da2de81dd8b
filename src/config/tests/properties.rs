//! Any input is a valid configuration, or every problem is reported once with its key or place.

use proptest::{collection::vec, prelude::*, sample::select};

use super::*;
use crate::{
    store,
    test_corpus::{Change, changed, repeatable, replaced_by},
};

/// Loads the inputs and checks the result.
pub(super) fn check(inputs: &Inputs) -> Result<(), TestCaseError> {
    match Config::load(inputs) {
        Ok(config) => {
            prop_assert!(!config.effective.is_empty());
            for keeper in config.keepers() {
                prop_assert_eq!(keeper.check(), Ok(()));
            }
            if let Err(error) = store::check(&config.store) {
                prop_assert!(false, "{}: {}", config.store.url, error);
            }
        }
        Err(ConfigError(problems)) => {
            prop_assert!(!problems.is_empty());
            for problem in &problems {
                let (place, said) = match problem {
                    ConfigProblem::Value { key, allowed, .. } => (key.clone(), !allowed.is_empty()),
                    ConfigProblem::UnknownKey { key, known, .. } => {
                        (key.clone(), !known.is_empty())
                    }
                    ConfigProblem::Misspelled { source, right }
                    | ConfigProblem::GivenTwice { source, other: right } => {
                        (source.to_string(), problem.to_string().contains(right))
                    }
                    ConfigProblem::NotUtf8 { source } => (source.to_string(), true),
                    ConfigProblem::File { path, reason } => {
                        (path.display().to_string(), !reason.is_empty())
                    }
                };
                prop_assert!(said && problem.to_string().contains(&place), "{:?}", problem);
                let said = problems.iter().filter(|other| *other == problem).count();
                prop_assert_eq!(said, 1, "reported once: {}", problem);
            }
        }
    }
    Ok(())
}

/// Values of every kind, most of them of some other key.
fn value() -> impl Strategy<Value = String> {
    let given = [
        "segment",
        "second",
        "day",
        "5",
        "js-safe",
        "westid-qr",
        "yitter",
        "0",
        "1",
        "-1",
        "63",
        "64",
        "4294967296",
        "18446744073709551615",
        "99999999999999999999",
        "1e3",
        "0.5",
        "true",
        "2025-01-01T00:00:00Z",
        "-009999-01-02T01:59:59Z",
        "9999-12-31T23:59:59Z",
        "500ms",
        "5m",
        "1h30m",
        "292y",
        "-5s",
        "9999999999999h",
        "rotate",
        "swap",
        "wait",
        "ip",
        "hostname",
        "order,user",
        "[::]:8080",
        "*",
        "https://a.example",
        "memory:",
        "sqlite://a.db",
        "mysql://u@db/ids",
        "postgres://u@db",
        "redis://db/words",
        "sqlite:///",
        "json",
    ];
    let defaults: Vec<&str> = KEYS.iter().filter_map(|key| key.default).collect();
    prop_oneof![
        3 => select(given.to_vec()).prop_map(str::to_owned),
        2 => select(defaults).prop_map(str::to_owned),
        1 => any::<u64>().prop_map(|number| number.to_string()),
        1 => (0..200_u32).prop_map(|number| number.to_string()),
        1 => any::<String>(),
    ]
}

fn key() -> impl Strategy<Value = String> {
    let known = select(KEYS).prop_map(|key| key.name.to_owned());
    let inner = select(KEYS).prop_map(|key| format!("namespaces.orders.{}", key.name));
    prop_oneof![8 => known, 3 => inner, 1 => "[a-z_.]{0,20}", 1 => any::<String>()]
}

/// The valid files of the documentation.
fn valid_file() -> impl Strategy<Value = String> {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/examples");
    let paths = fs::read_dir(folder).expect(folder).map(|entry| entry.expect("an entry").path());
    let mut paths: Vec<_> = paths.collect();
    paths.sort();
    let mut texts: Vec<String> =
        paths.iter().map(|path| fs::read_to_string(path).expect("a text")).collect();
    texts.push(
        "mode = 'snowflake'\nlayout = { preset = 'js-safe' }\ncodes.allow = ['order', 'user']\n\
         [namespaces.numbers]\nmode = 'segment'\nsegment.auto_create = true\n\
         [[code]]\nname = 'order'\nprefix = 'ORD-'\n\
         [[code]]\nname = 'invoice'\nnamespace = 'numbers'\nstart = 7\nincrement = 2\nremainder = 1\n"
            .to_owned(),
    );
    select(texts)
}

/// A change of a file: a span and its replacement.
pub(super) fn change() -> impl Strategy<Value = Change> {
    let fragment = prop_oneof![
        value(),
        value().prop_map(|value| format!("'{value}'")),
        key().prop_map(|key| format!("\n{key} = ")),
        key().prop_map(|key| format!("\n[{key}]\n")),
        Just("\n[[code]]\n".to_owned()),
        Just(String::new()),
    ];
    replaced_by(prop_oneof![
        9 => fragment.prop_map(String::into_bytes),
        1 => vec(any::<u8>(), 0..20),
    ])
}

pub(super) fn config(cases: u32) -> ProptestConfig {
    repeatable(cases, 20_261_123)
}

#[test]
fn any_keys_and_values_of_the_environment() {
    proptest!(config(1_000), |(pairs in vec((key(), value()), 0..8))| {
        let pairs: Vec<(&str, &str)> =
            pairs.iter().map(|(key, value)| (key.as_str(), value.as_str())).collect();
        check(&environment(&pairs))?;
    });
}

#[test]
fn any_change_of_a_valid_file() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("raindrop.toml");
    let inputs = Inputs { file: Some(path.clone()), ..Inputs::default() };
    proptest!(config(1_000), |(text in valid_file(), changes in vec(change(), 0..4))| {
        fs::write(&path, changed(text.as_bytes(), changes)).expect("written");
        check(&inputs)?;
    });
}

#[test]
fn any_bytes_as_a_file() {
    let folder = tempfile::tempdir().expect("a folder");
    let paths = ["raindrop.toml", ".env"].map(|name| folder.path().join(name));
    let [file, dot_env] = paths.clone().map(Some);
    let inputs = Inputs { file, dot_env, ..Inputs::default() };
    proptest!(config(500), |(bytes in [vec(any::<u8>(), 0..60), vec(any::<u8>(), 0..60)])| {
        for (path, bytes) in paths.iter().zip(&bytes) {
            fs::write(path, bytes).expect("written");
        }
        check(&inputs)?;
    });
}
