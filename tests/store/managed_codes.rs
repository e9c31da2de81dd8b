//! Tests the promises of a store about the settings of managed codes, on every engine.

use std::sync::Arc;

use raindrop::store::{ManagedCode, Store};
use tokio::task::JoinSet;

use crate::{
    backend::{Backend, token},
    conformance::on_every_engine,
};

on_every_engine! {
    settings_are_written_once_and_then_swapped_by_token
    settings_are_kept_byte_for_byte
    managed_codes_are_listed_by_namespace_and_name
    of_concurrent_writers_of_settings_exactly_one_is_first
}

async fn prepared(backend: &Backend) -> Arc<dyn Store> {
    let store = backend.store().await;
    store.prepare_segments().await.expect("the tables are made");
    store
}

fn managed(code: &str, settings: &str, number: u128) -> ManagedCode {
    ManagedCode { code: code.into(), settings: settings.into(), token: token(number) }
}

async fn settings_are_written_once_and_then_swapped_by_token(backend: &Backend) {
    let store = prepared(backend).await;
    let write = async |expected: Option<u128>, code: &ManagedCode| {
        let written = store.write_managed_code("numbers", expected.map(token), code).await;
        written.expect("an answer")
    };
    let listed = async || store.list_managed_codes("numbers").await.expect("a list");
    let [first, second, third] =
        [(1, "start=1"), (2, "start=2"), (3, "start=3")].map(|(n, text)| managed("order", text, n));
    assert!(!write(Some(1), &first).await, "there is nothing to change");
    assert!(listed().await.is_empty());
    assert!(write(None, &first).await);
    assert!(!write(None, &second).await, "there is one");
    assert_eq!(listed().await, std::slice::from_ref(&first));
    assert!(!write(Some(2), &second).await, "another token");
    assert!(write(Some(1), &second).await);
    assert!(!write(Some(1), &third).await, "the token was replaced");
    assert_eq!(listed().await, [second]);
    store.prepare_segments().await.expect("safe to repeat");
    assert_eq!(listed().await.len(), 1);
}

async fn settings_are_kept_byte_for_byte(backend: &Backend) {
    let store = prepared(backend).await;
    let longest = "x".repeat(255);
    for (number, settings) in (1..).zip([longest.as_str(), "a b  c ", "ä=1"]) {
        let code = managed(&format!("code-{number}"), settings, number);
        assert!(store.write_managed_code("numbers", None, &code).await.expect("an answer"));
        assert!(store.list_managed_codes("numbers").await.expect("a list").contains(&code));
    }
}

async fn managed_codes_are_listed_by_namespace_and_name(backend: &Backend) {
    let store = prepared(backend).await;
    for (number, code) in (1..).zip(["b", "a", "A", "a.b", "a-b"]) {
        let code = managed(code, "start=1", number);
        assert!(store.write_managed_code("numbers", None, &code).await.expect("an answer"));
    }
    let other = managed("z", "start=1", 9);
    assert!(store.write_managed_code("Numbers", None, &other).await.expect("an answer"));
    let listed = store.list_managed_codes("numbers").await.expect("a list");
    let names: Vec<&str> = listed.iter().map(|managed| managed.code.as_str()).collect();
    assert_eq!(names, ["A", "a", "a-b", "a.b", "b"]);
    for code in &listed {
        let found = store.managed_code("numbers", &code.code).await.expect("an answer");
        assert_eq!(found.as_ref(), Some(code));
    }
    for (namespace, code) in [("numbers", "z"), ("Numbers", "a"), ("numbers", "B")] {
        assert_eq!(store.managed_code(namespace, code).await.expect("an answer"), None);
    }
    assert_eq!(store.list_managed_codes("Numbers").await.expect("a list"), [other]);
    assert!(store.list_managed_codes("number").await.expect("a list").is_empty());
    // Settings are no codes: only a reservation makes a code.
    assert!(store.list_segments().await.expect("a list").is_empty());
}

async fn of_concurrent_writers_of_settings_exactly_one_is_first(backend: &Backend) {
    prepared(backend).await;
    let mut expected = None;
    for round in 1..=2 {
        let mut tasks = JoinSet::new();
        for writer in 0..10 {
            let store = backend.unprepared().await;
            let fresh = token(100 * round + writer);
            tasks.spawn(async move {
                let settings = format!("start={writer}");
                let code = ManagedCode { code: "order".into(), settings, token: fresh };
                let written = store.write_managed_code("numbers", expected, &code).await;
                written.expect("an answer").then_some(fresh)
            });
        }
        let won: Vec<_> = tasks.join_all().await.into_iter().flatten().collect();
        assert_eq!(won.len(), 1, "{won:?}");
        expected = Some(won[0]);
    }
}
