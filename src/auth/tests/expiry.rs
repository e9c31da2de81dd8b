//! Expiry, last use and rotation.

use std::{
    sync::atomic::{AtomicBool, Ordering},
    thread,
};

use super::*;

/// 2027-01-31T00:00:00Z.
const LAST_MS: i64 = 1_801_353_600_000;

/// Returns the last use and the expiry of each name.
fn names(auth: &Auth) -> Vec<(String, f64, Option<f64>)> {
    let mut names = Vec::new();
    auth.each_name(|name, used_s, expires_s| names.push((name.to_owned(), used_s, expires_s)));
    names
}

#[test]
fn a_token_is_refused_from_its_expiry_on() {
    for expires in [
        "'2027-01-31T00:00:00Z'",
        "2027-01-31T00:00:00Z",
        "'2027-01-31'",
        "2027-01-31",
        "'2027-01-31T08:00:00+08:00'",
    ] {
        let text = format!("{}expires = {expires}\n", entry("shop", "abc"));
        let auth = open(&text).expect("valid");
        assert!(at(&auth, "abc", LAST_MS - 1).is_ok(), "{expires}");
        for now_ms in [LAST_MS, LAST_MS + 1, i64::MAX] {
            assert_eq!(at(&auth, "abc", now_ms).expect_err("expired"), Refusal::Expired);
        }
        // The error differs from that of an unknown token, but only the bearer of the token sees
        // it.
        assert_eq!(at(&auth, "abd", LAST_MS).expect_err("unknown"), Refusal::UnknownToken);
    }
}

#[test]
fn the_last_use_is_noted_by_name_and_survives_a_reload() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("tokens.toml");
    let old = format!("{}expires = '2027-01-31'\n", entry("shop", "old"));
    fs::write(&path, format!("{old}{}", entry("idle", "idle"))).expect("written");
    let auth = Auth::open(&path, ["default"]).expect("valid");
    let expiry = Some(1_801_353_600.0);
    let idle = ("idle".to_owned(), 0.0, None);
    assert_eq!(names(&auth), [idle.clone(), ("shop".to_owned(), 0.0, expiry)]);

    at(&auth, "old", 5_999).expect("valid");
    assert_eq!(names(&auth), [idle.clone(), ("shop".to_owned(), 5.0, expiry)]);
    // A refused request does not count as a use.
    at(&auth, "old", LAST_MS).expect_err("expired");
    at(&auth, "other", 9_000).expect_err("unknown");
    assert_eq!(names(&auth)[1].1, 5.0);

    let new = format!("{}expires = '2027-02-01'\n", entry("shop", "new"));
    fs::write(&path, format!("{new}{old}")).expect("written");
    auth.reload().expect("valid");
    let later = Some(1_801_440_000.0);
    assert_eq!(names(&auth), [("shop".to_owned(), 5.0, later)], "idle has left");
    at(&auth, "new", 7_000).expect("valid");
    assert_eq!(names(&auth), [("shop".to_owned(), 7.0, later)]);
    // A name does not expire while one of its entries never expires.
    fs::write(&path, format!("{old}{}", entry("shop", "new"))).expect("written");
    auth.reload().expect("valid");
    assert_eq!(names(&auth), [("shop".to_owned(), 7.0, None)]);
}

#[test]
fn a_name_is_repeated_only_by_entries_that_expire() {
    let lasting = |token: &str| entry("shop", token);
    let expiring = |token: &str| entry("shop", token) + "expires = '2027-01-31'\n";
    for text in [
        lasting("a") + &expiring("b"),
        expiring("a") + &lasting("b"),
        expiring("a") + &expiring("b") + &lasting("c"),
    ] {
        let auth = open(&text).expect("valid");
        assert!(found(&auth, "a").is_some() && found(&auth, "b").is_some());
    }
    let problems = open(&(lasting("a") + &expiring("b") + &lasting("c"))).expect_err("repeated");
    assert_eq!(
        problems,
        [
            "[[token]] #3: name = shop (FILE): must be used by one entry only, or by others that have \
          expires"
        ]
    );
}

#[test]
fn rotation_refuses_no_request() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("tokens.toml");
    let (old, new) = (entry("shop", "old"), entry("shop", "new"));
    let leaving = format!("{old}expires = '2027-01-31'\n");
    fs::write(&path, &old).expect("written");
    let auth = Auth::open(&path, ["default"]).expect("valid");
    let (is_switched, has_stopped) = (AtomicBool::new(false), AtomicBool::new(false));
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                while !has_stopped.load(Ordering::SeqCst) {
                    let token = if is_switched.load(Ordering::SeqCst) { "new" } else { "old" };
                    // Both are known from before the switch until the expiry.
                    assert!(found(&auth, token).is_some(), "{token}");
                }
            });
        }
        for _ in 0..100 {
            fs::write(&path, format!("{leaving}{new}")).expect("written");
            auth.reload().expect("valid");
            is_switched.store(true, Ordering::SeqCst);
            is_switched.store(false, Ordering::SeqCst);
        }
        is_switched.store(true, Ordering::SeqCst);
        has_stopped.store(true, Ordering::SeqCst);
    });
    assert!(at(&auth, "old", LAST_MS).is_err() && at(&auth, "new", LAST_MS).is_ok());
    fs::write(&path, new).expect("written");
    auth.reload().expect("valid");
    assert_eq!(at(&auth, "old", NOW_MS).expect_err("gone"), Refusal::UnknownToken);
}
