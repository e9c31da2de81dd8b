//! Tests tokens of a running service that it reloads at SIGHUP, under load.

use std::{
    collections::HashSet,
    fs,
    path::Path,
    process::Command,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
};

use reqwest::StatusCode;
use rustix::process::Signal;
use tokio::task::JoinSet;

use crate::{
    service::{PATIENCE, Service, Setup, client, parse_ids, run},
    support::poll,
};

const CLIENTS: usize = 8;

/// Returns a token and its entry, as the command makes them.
fn made(name: &str) -> (String, String) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (code, entry, token) = run(&["token", name], &[], folder.path());
    assert_eq!(code, Some(0), "{token}");
    let token = token.trim().to_owned();
    assert!(token.len() == 73 && token.starts_with("raindrop_"), "{token}");
    assert!(!entry.contains(&token["raindrop_".len()..]), "{entry}");
    (token, entry)
}

async fn status(node: &Service, token: &str) -> StatusCode {
    let request = client().get(node.url("/id/order")).bearer_auth(token);
    request.send().await.expect("an answer").status()
}

async fn until_status(node: &Service, token: &str, wanted: StatusCode) {
    poll::until(PATIENCE, "the token's change is noticed", async || {
        (status(node, token).await == wanted).then_some(())
    })
    .await;
}

/// Replaces the file by a rename, as operators do who avoid half-written files.
fn replace(path: &Path, text: &str) {
    let next = path.with_extension("next");
    fs::write(&next, text).expect("written");
    fs::rename(next, path).expect("replaced");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tokens_change_under_load_and_no_request_is_dropped() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("tokens.toml");
    let [(kept, kept_entry), (old, old_entry), (new, new_entry)] = ["kept", "old", "new"].map(made);
    replace(&path, &format!("{kept_entry}{old_entry}"));
    let node = Setup::new().set("auth.tokens_file", path.display()).start_leased().await;
    assert_eq!(status(&node, &old).await, 200);
    assert_eq!(status(&node, &new).await, 401);

    let (stop, answered) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
    let mut load = JoinSet::new();
    for _ in 0..CLIENTS {
        let (stop, answered) = (Arc::clone(&stop), Arc::clone(&answered));
        let (url, token, client) = (node.url("/ids/load?n=10"), kept.clone(), client());
        load.spawn(async move {
            let mut ids = Vec::new();
            while !stop.load(Ordering::Relaxed) {
                let answer = client.get(&url).bearer_auth(&token).send().await.expect("an answer");
                assert_eq!(answer.status(), 200);
                ids.extend(parse_ids(&answer.json().await.expect("JSON")));
                answered.fetch_add(1, Ordering::Relaxed);
            }
            ids
        });
    }

    for _ in 0..10 {
        replace(&path, &format!("{kept_entry}{new_entry}"));
        node.signal(Signal::HUP);
        until_status(&node, &new, StatusCode::OK).await;
        assert_eq!(status(&node, &old).await, 401);
        replace(&path, &format!("{kept_entry}{old_entry}"));
        node.signal(Signal::HUP);
        until_status(&node, &old, StatusCode::OK).await;
        assert_eq!(status(&node, &new).await, 401);
    }

    // A file that the service cannot use changes nothing.
    let bad = format!("{new_entry}codes = ['two words']\n");
    for (text, said) in [("", "no [[token]]"), (bad.as_str(), "two words"), ("[[", "TOML")] {
        let told = node.log().matches("ERROR").count();
        replace(&path, text);
        node.signal(Signal::HUP);
        poll::until(PATIENCE, "the failure is told", async || {
            (node.log().matches("ERROR").count() > told).then_some(())
        })
        .await;
        let log = node.log();
        let line = log.lines().rfind(|line| line.contains("ERROR")).expect("told");
        assert!(line.contains("token reload failed, keeping the previous tokens"), "{line}");
        assert!(said == "TOML" || log.contains(said), "{log}");
        assert_eq!(status(&node, &old).await, 200);
        assert_eq!(status(&node, &new).await, 401);
    }
    // The service does not wait without end for a pipe that no process writes to.
    fs::remove_file(&path).expect("there");
    assert!(Command::new("mkfifo").arg(&path).status().expect("coreutils").success());
    node.signal(Signal::HUP);
    poll::until(PATIENCE, "the failure is told", async || {
        node.log().contains("nothing came from it within").then_some(())
    })
    .await;
    assert_eq!(status(&node, &old).await, 200);
    replace(&path, &format!("{kept_entry}{new_entry}"));
    node.signal(Signal::HUP);
    until_status(&node, &new, StatusCode::OK).await;

    poll::until(PATIENCE, "the load was one", async || {
        (answered.load(Ordering::Relaxed) > 100).then_some(())
    })
    .await;
    stop.store(true, Ordering::Relaxed);
    let ids = load.join_all().await.concat();
    assert_eq!(ids.iter().collect::<HashSet<_>>().len(), ids.len(), "no ID came twice");
    let log = node.log();
    for secret in [&kept, &old, &new] {
        assert!(!log.contains(&secret["raindrop_".len()..]), "{log}");
    }
    for entry in [&kept_entry, &old_entry, &new_entry] {
        let hash = entry.split("sha256:").nth(1).expect("a hash");
        assert!(!log.contains(&hash[..64]), "{log}");
    }
    node.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_changed_file_is_read_without_a_signal_and_rotation_refuses_nothing() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("tokens.toml");
    let [(old, old_entry), (new, new_entry)] = [made("shop"), made("shop")];
    replace(&path, &old_entry);
    let node = Setup::new().set("auth.tokens_file", path.display()).start_leased().await;
    let leaving = old_entry.trim_end().to_owned() + "\nexpires = '9999-01-01'\n";
    replace(&path, &(leaving + &new_entry));
    poll::until(PATIENCE, "the change is noticed", async || {
        assert_eq!(status(&node, &old).await, 200);
        (status(&node, &new).await == StatusCode::OK).then_some(())
    })
    .await;
    replace(&path, &new_entry);
    poll::until(PATIENCE, "the change is noticed", async || {
        assert_eq!(status(&node, &new).await, 200);
        (status(&node, &old).await == StatusCode::UNAUTHORIZED).then_some(())
    })
    .await;
    poll::until(PATIENCE, "both reloads are logged", async || {
        (node.log().matches("tokens reloaded").count() == 2).then_some(())
    })
    .await;
    node.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn probes_need_no_token_and_no_readable_file() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("tokens.toml");
    replace(&path, &made("shop").1);
    let node = Setup::new().set("auth.tokens_file", path.display()).start_leased().await;
    replace(&path, "");
    let (listen, file) = (node.address().to_string(), path.display().to_string());
    let settings = [("RAINDROP__HTTP__LISTEN", &*listen), ("RAINDROP__AUTH__TOKENS_FILE", &file)];
    for arguments in [&["health"][..], &["health", "--ready"]] {
        let (code, _, err) = run(arguments, &settings, folder.path());
        assert_eq!(code, Some(0), "{err}");
    }
    assert_eq!(node.get("/health").await.expect("an answer").status(), 401);
    node.stop().await;
}

#[test]
fn a_start_without_usable_tokens_ends_with_code_2() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("tokens.toml");
    let file = path.display().to_string();
    let settings =
        [("RAINDROP__AUTH__TOKENS_FILE", &*file), ("RAINDROP__HTTP__LISTEN", "127.0.0.1:0")];
    let secret = "raindrop_5ec3e7";
    let bad = format!("[[token]]\nname = 'shop'\nhash = '{secret}'\n");
    for (text, said) in [
        (None, "No such file"),
        (Some(""), "no [[token]]"),
        (Some("nonsense"), "tokens.toml: "),
        (Some(bad.as_str()), "[[token]] shop: hash = *** ("),
        (Some("[token]\n"), "[[token]]"),
    ] {
        if let Some(text) = text {
            replace(&path, text);
        }
        for arguments in ["serve", "config"] {
            let (code, _, err) = run(&[arguments], &settings, folder.path());
            assert_eq!(code, Some(2), "{text:?}: {err}");
            assert!(err.contains(said) && err.contains(&file), "{text:?}: {err}");
            assert!(!err.contains(secret), "{err}");
        }
    }
    let right = "misspelled, must be RAINDROP__AUTH__TOKENS_FILE";
    for (name, said) in [
        ("RAINDROP__AUTH__TOKENS_FILE", "auth.tokens_file = nothing"),
        ("RAINDROP_AUTH_TOKENS_FILE", "auth.tokens_file = nothing"),
        ("RAINDROP_AUTH__TOKENS_FILE", right),
        ("RAINDROP_AUTH_TOKEN_FILE", right),
    ] {
        let (code, _, err) = run(&["serve"], &[(name, ""), settings[1]], folder.path());
        assert!(code == Some(2) && err.contains(said), "{name}: {err}");
    }
    let (code, _, err) = run(&["token", "two words"], &[], folder.path());
    assert!(code == Some(2) && err.contains("two words"), "{err}");
    for (flag, value, said) in [
        ("--expires", "soon", "must be"),
        ("--permissions", "owner", "values: ids, metrics, admin"),
    ] {
        let (code, _, err) = run(&["token", "shop", flag, value], &[], folder.path());
        assert!(code == Some(2) && err.contains(value) && err.contains(said), "{err}");
    }
    let limited = [
        "token",
        "shop",
        "--namespaces",
        "web",
        "--codes",
        "order,invoice:*",
        "--permissions",
        "ids",
        "--expires",
        "2027-01-31",
    ];
    let (_, entry, _) = run(&limited, &[], folder.path());
    let limits = "expires = \"2027-01-31\"\npermissions = [\"ids\"]\nnamespaces = [\"web\"]\n\
                  codes = [\"order\", \"invoice:*\"]\n";
    assert!(entry.contains(limits), "{entry}");
    replace(&path, &entry);
    let (code, _, err) = run(&["config"], &settings, folder.path());
    assert!(code == Some(2) && err.contains("namespaces = [web]"), "{err}");
}
