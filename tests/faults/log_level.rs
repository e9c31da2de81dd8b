//! The level of the log of a running service, changed for a time by an operator.

use std::fs;

use serde_json::Value;

use crate::{
    service::{PATIENCE, Setup, client, run},
    support::{free_port, poll},
};

/// The message of a line that every renewal writes, at the level debug.
const RENEWED: &str = "lease renewed";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn level_goes_up_and_comes_back_by_itself() {
    let operator = tempfile::tempdir().expect("a temporary folder");
    let run = |arguments: &[&str]| run(arguments, &[], operator.path());
    let (_, entry, token) = run(&["token", "boss", "--permissions", "admin"]);
    fs::write(operator.path().join("tokens.toml"), entry).expect("written");
    fs::write(operator.path().join("boss"), token).expect("written");
    let admin = format!("http://127.0.0.1:{}", free_port());
    let node = Setup::new()
        .set("http.admin_listen", admin.trim_start_matches("http://"))
        .set("auth.tokens_file", operator.path().join("tokens.toml").display())
        .set("log.level", "warn")
        .set("lease.renew", "500ms")
        .spawn();
    poll::until(PATIENCE, "the service is ready", async || {
        (run(&["health", "--ready", "--url", &admin]).0 == Some(0)).then_some(())
    })
    .await;
    let log = |more: &[&str]| run(&[&["log", "--server", &admin], more].concat());
    assert_eq!(log(&[]), (Some(0), "warn\n".into(), String::new()), "no token to read");
    let set = ["--level", "debug", "--for", "1h"];
    let (code, _, err) = log(&set);
    assert!(code == Some(2) && err.contains("401"), "{err}");
    assert!(!node.log().contains(RENEWED));

    let (code, out, err) = log(&[&set[..], &["--token-file", "boss"]].concat());
    assert_eq!(code, Some(0), "{err}");
    assert!(out.starts_with("debug until ") && out.ends_with(", then warn\n"), "{out}");
    node.logged("log level changed").await;
    assert!(node.log().contains("level=\"debug\" duration=3600s by=\"boss\""), "{}", node.log());
    node.logged(RENEWED).await;
    let (_, out, _) = log(&["--json"]);
    let shown: Value = serde_json::from_str(&out).expect("JSON");
    assert_eq!((&shown["level"], &shown["configured"]), (&"debug".into(), &"warn".into()));
    assert!(shown["until"].is_string(), "{shown}");

    // A second change replaces the first, with its end.
    let (code, _, err) = log(&["--level", "info", "--for", "2s", "--token-file", "boss"]);
    assert_eq!(code, Some(0), "{err}");
    node.logged("log level is the configured one again").await;
    assert_eq!(log(&[]).1, "warn\n");
    // Lines are written in their order.
    let log_of_node = node.log();
    let (_, after) = log_of_node.split_once("level=\"info\" duration=2s").expect("a line");
    assert!(!after.contains(RENEWED), "{after}");
    node.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn level_is_refused_without_an_end_or_a_right() {
    let port = free_port();
    let admin = format!("http://127.0.0.1:{port}");
    let listen = admin.trim_start_matches("http://");
    let node = Setup::new().set("http.admin_listen", listen).set("http.admin_changes", "true");
    let node = node.start_leased().await;
    let put = async |query: &str| {
        let answer = client().put(format!("{admin}/log{query}")).send().await.expect("an answer");
        let status = answer.status().as_u16();
        let body: Value = answer.json().await.expect("JSON");
        (status, body["detail"].as_str().unwrap_or_default().to_owned())
    };
    for (query, said) in [
        ("?level=debug", "for: must be given, a duration"),
        ("?for=10m", "level: must be given, one of off, error, warn, info, debug, trace"),
        ("?level=loud&for=10m", "level = \"loud\": must be one of off"),
        ("?level=debug&for=25h", "for = \"25h\": must be a duration"),
        ("?level=debug&for=10", "for = \"10\": must be a duration"),
        ("?level=debug&for=0s", "from 1s to 24h"),
        ("?level=debug&for=1m&by=me", "unknown parameter \"by\""),
    ] {
        let (status, detail) = put(query).await;
        assert!(status == 400 && detail.contains(said), "{query}: {status} {detail}");
    }
    let body = client().put(format!("{admin}/log?level=debug&for=1m")).body("{}").send().await;
    assert_eq!(body.expect("an answer").status().as_u16(), 415);
    let (status, _) = put("?level=debug&for=1m").await;
    assert_eq!(status, 200);
    let (code, _, err) = run(&["log"], &[], node.folder());
    assert!(code == Some(2) && err.contains("log: needs --server"), "{err}");
    for arguments in [["--level", "debug"], ["--for", "1m"]] {
        let (code, _, err) = run(&[&["log"], &arguments[..]].concat(), &[], node.folder());
        assert!(code == Some(2) && err.contains("required arguments"), "{err}");
    }
    node.stop().await;
}
