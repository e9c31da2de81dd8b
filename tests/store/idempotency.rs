//! Tests the promises of [`raindrop::store::IdempotencyStore`], on every engine that keeps keys.

use std::{sync::Arc, time::Duration};

use raindrop::store::{KEYS_AT_ONCE, KeyState, KeyText, Store};
use tokio::{task::JoinSet, time::sleep};

use crate::{
    backend::{Backend, HOUR, token},
    conformance::on_every_engine,
};

on_every_engine! {
    a_key_is_claimed_once_and_its_text_never_changes
    keys_of_other_codes_are_others
    an_unfinished_key_is_taken_over_after_its_time
    a_late_text_changes_nothing
    a_repeated_text_is_written_again
    of_concurrent_claims_of_keys_one_owns_each
    old_keys_are_deleted_in_pieces
}

/// Opens a store. On Kubernetes, which keeps no keys, checks that it says so, and returns `None`.
async fn with_keys(backend: &Backend) -> Option<Arc<dyn Store>> {
    let store = backend.store().await;
    store.prepare_segments().await.expect("the tables are made");
    let claimed = store.claim_keys("numbers", "order", &["probe"], token(99), HOUR).await;
    if let Backend::Kubernetes(_) = backend {
        let error = claimed.expect_err("no keys").to_string();
        assert!(error.contains("keeps no idempotency keys"), "{error}");
        assert!(!store.keeps_keys());
        return None;
    }
    assert_eq!(claimed.expect("an answer"), [KeyState::Owned]);
    assert!(store.keeps_keys());
    Some(store)
}

async fn claim(store: &Arc<dyn Store>, keys: &[&str], owner: u128) -> Vec<KeyState> {
    let states = store.claim_keys("numbers", "order", keys, token(owner), HOUR).await;
    states.expect("an answer")
}

async fn finish(store: &Arc<dyn Store>, texts: &[(&str, &str)], owner: u128) -> Vec<KeyState> {
    let text =
        |(key, text): &(&str, &str)| KeyText { key: (*key).to_owned(), text: (*text).to_owned() };
    let texts: Vec<_> = texts.iter().map(text).collect();
    let states = store.finish_keys("numbers", "order", token(owner), &texts).await;
    states.expect("an answer")
}

fn finished(text: &str) -> KeyState {
    KeyState::Finished(text.to_owned())
}

async fn a_key_is_claimed_once_and_its_text_never_changes(backend: &Backend) {
    let Some(store) = with_keys(backend).await else { return };
    let longest = "~".repeat(KeyText::LONGEST_KEY);
    let longest_text = "T".repeat(KeyText::LONGEST_TEXT);
    let keys = ["b", "a", r#"{"quoted \\ 'key' %_*}"#, &longest];
    assert_eq!(claim(&store, &keys, 1).await, vec![KeyState::Owned; 4]);
    // A process that got no answer claims again.
    assert_eq!(claim(&store, &keys, 1).await, vec![KeyState::Owned; 4]);
    assert_eq!(claim(&store, &["a", "A"], 2).await, [KeyState::Busy, KeyState::Owned]);
    assert_eq!(finish(&store, &[("a", "X-9")], 2).await, [KeyState::Busy], "another's key");
    let texts = [(keys[2], "INV/3"), ("a", "INV/2"), (keys[3], &longest_text)];
    let done = [finished("INV/3"), finished("INV/2"), finished(&longest_text)];
    assert_eq!(finish(&store, &texts, 1).await, done);
    assert_eq!(
        finish(&store, &[("a", "INV/7"), ("b", "INV/1")], 1).await,
        [finished("INV/2"), finished("INV/1")]
    );
    for owner in [1, 2] {
        let states = claim(&store, &keys, owner).await;
        let [two, three, longest] = &done[..] else { panic!("three") };
        assert_eq!(states, [finished("INV/1"), three.clone(), two.clone(), longest.clone()]);
    }
}

async fn keys_of_other_codes_are_others(backend: &Backend) {
    let Some(store) = with_keys(backend).await else { return };
    assert_eq!(claim(&store, &["a"], 1).await, [KeyState::Owned]);
    for (namespace, code) in [("numbers", "Order"), ("Numbers", "order"), ("number", "s order")] {
        let states = store.claim_keys(namespace, code, &["a"], token(2), HOUR).await;
        assert_eq!(states.expect("an answer"), [KeyState::Owned], "{namespace} {code}");
    }
    assert_eq!(finish(&store, &[("a", "1")], 1).await, [finished("1")]);
    let states = store.claim_keys("numbers", "Order", &["a"], token(2), HOUR).await;
    assert_eq!(states.expect("an answer"), [KeyState::Owned]);
}

async fn an_unfinished_key_is_taken_over_after_its_time(backend: &Backend) {
    let Some(store) = with_keys(backend).await else { return };
    assert_eq!(claim(&store, &["a", "b"], 1).await, vec![KeyState::Owned; 2]);
    assert_eq!(finish(&store, &[("b", "1")], 1).await, [finished("1")]);
    let patience = Duration::from_millis(50);
    sleep(2 * patience).await;
    let taken = store.claim_keys("numbers", "order", &["a", "b"], token(2), patience).await;
    assert_eq!(taken.expect("an answer"), [KeyState::Owned, finished("1")]);
    assert_eq!(claim(&store, &["a"], 1).await, [KeyState::Busy], "its time begins anew");
    assert_eq!(finish(&store, &[("a", "2")], 1).await, [KeyState::Busy]);
    assert_eq!(finish(&store, &[("a", "3")], 2).await, [finished("3")]);
    assert_eq!(finish(&store, &[("a", "2")], 1).await, [finished("3")]);
}

async fn a_late_text_changes_nothing(backend: &Backend) {
    let Some(store) = with_keys(backend).await else { return };
    assert_eq!(finish(&store, &[("a", "1")], 1).await, [KeyState::Busy], "no such key");
    assert_eq!(claim(&store, &["a"], 2).await, [KeyState::Owned]);
    assert_eq!(finish(&store, &[("a", "2")], 2).await, [finished("2")]);
    assert_eq!(finish(&store, &[("a", "1")], 1).await, [finished("2")]);
}

/// The first try may have had no answer, so a text that can be read is not known to be durable.
async fn a_repeated_text_is_written_again(backend: &Backend) {
    let Some(store) = with_keys(backend).await else { return };
    let [old, before] = match backend {
        Backend::Sqlite(..) => ["0", "1"],
        Backend::Mariadb(_) | Backend::Postgres(_) => ["'2000-01-01'", "'2001-01-01'"],
        // The answer of each script says it.
        _ => return,
    };
    assert_eq!(claim(&store, &["a"], 1).await, [KeyState::Owned]);
    let texts = [("a", "1")];
    assert_eq!(finish(&store, &texts, 1).await, [finished("1")]);
    let table = "soc_raindrop_segment_keys";
    backend.run(&format!("UPDATE {table} SET updated_at = {old}")).await;
    assert_eq!(finish(&store, &texts, 1).await, [finished("1")]);
    backend.run(&format!("DELETE FROM {table} WHERE updated_at < {before}")).await;
    assert_eq!(claim(&store, &["a"], 2).await, [finished("1")], "the row was written again");
}

async fn of_concurrent_claims_of_keys_one_owns_each(backend: &Backend) {
    let Some(store) = with_keys(backend).await else { return };
    let names: Vec<String> = (0..20).map(|number| format!("doc-{number}")).collect();
    let mut claims = JoinSet::new();
    for owner in 1..=6 {
        let store = match owner % 2 {
            0 => store.clone(),
            _ => backend.store().await,
        };
        let mut names = names.clone();
        names.rotate_left(owner);
        claims.spawn(async move {
            let keys: Vec<_> = names.iter().map(String::as_str).collect();
            let states = claim(&store, &keys, owner as u128).await;
            let owned = names.iter().zip(states).filter(|(_, state)| *state == KeyState::Owned);
            owned.map(|(name, _)| name.clone()).collect::<Vec<_>>()
        });
    }
    let mut owned: Vec<String> = claims.join_all().await.concat();
    owned.sort_unstable();
    let mut expected = names;
    expected.sort_unstable();
    assert_eq!(owned, expected);
}

async fn old_keys_are_deleted_in_pieces(backend: &Backend) {
    let Some(store) = with_keys(backend).await else { return };
    if let Backend::Redis(_) = backend {
        // The server deletes them; tests/store/redis.rs reads when.
        assert_eq!(store.delete_old_keys(Duration::ZERO).await.expect("an answer"), 0);
        return;
    }
    let names: Vec<String> = (0..KEYS_AT_ONCE + 4).map(|number| number.to_string()).collect();
    let keys: Vec<_> = names.iter().map(String::as_str).collect();
    claim(&store, &keys, 1).await;
    assert_eq!(store.delete_old_keys(HOUR).await.expect("an answer"), 0, "they are young");
    sleep(Duration::from_millis(20)).await;
    let mut deleted = Vec::new();
    for _ in 0..3 {
        deleted.push(store.delete_old_keys(Duration::ZERO).await.expect("an answer"));
    }
    // With the key of `with_keys`.
    assert_eq!(deleted, [KEYS_AT_ONCE, 5, 0]);
    assert_eq!(claim(&store, &["7"], 2).await, [KeyState::Owned], "as if never seen");
}
