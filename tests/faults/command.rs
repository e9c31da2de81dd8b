use std::{collections::HashSet, path::Path, process::Command};

use serde_json::{Value, json};

use crate::service::{Setup, run};

#[test]
fn a_bad_configuration_names_everything_and_touches_nothing() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let settings = [
        ("RAINDROP__LAYOUT__WORKER_BITS", "17"),
        ("RAINDROP__LEASE__TTL", "ninety"),
        ("RAINDROP__HTTP__MAX_BATCH", "0"),
        ("RAINDROP__HTTP__PROT", "80"),
        ("RAINDROP_STORE__URL", "mysql://root@db/ids"),
        ("RAINDROP_SERVICE_HOST", "10.0.0.1"),
    ];
    for arguments in [&[][..], &["serve"], &["config"], &["id", "order"], &["workers"]] {
        let (code, _, err) = run(arguments, &settings, folder.path());
        assert_eq!(code, Some(2), "{arguments:?}: {err}");
        for expected in [
            "layout.worker_bits",
            "17",
            "lease.ttl",
            "ninety",
            "http.max_batch",
            "http.prot",
            "raindrop_store__url: misspelled, must be raindrop__store__url",
        ] {
            assert!(err.to_lowercase().contains(expected), "{expected} is missing in\n{err}");
        }
        assert!(!err.contains("RAINDROP_SERVICE_HOST"), "{err}");
    }
    let left = std::fs::read_dir(folder.path()).expect("readable").count();
    assert_eq!(left, 0, "nothing was touched");
}

#[test]
fn usage_errors_end_with_code_2() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    for (arguments, said) in [
        (&["id"][..], "<CODE>"),
        (&["nonsense"], "nonsense"),
        (&["id", "order", "-n", "x"], "invalid value 'x'"),
        (&["id", "order", "-n", "0"], "0 is not in"),
        (&["id", "bad code"], "must match"),
        (&["id", "order", "--at", "yesterday"], "RFC 3339"),
        (&["parse", "12a"], "position 2"),
        (&["parse", "--layout", "westid-qr", "99999999999"], "bits"),
        (&["workers", "release", "1", "--yes"], "worker 1 has no row"),
        (&["health", "--ready", "--namespace", "a b"], "must match"),
        (&["man", "--out", "nowhere"], "must be an existing folder"),
    ] {
        let (code, _, err) = run(arguments, &[], folder.path());
        assert!(code == Some(2) && err.contains(said), "{arguments:?}: {code:?} {err}");
    }
    let left = std::fs::read_dir(folder.path()).expect("readable").count();
    assert_eq!(left, 0, "no question creates a store");
}

#[test]
fn a_new_store_is_named_once() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (code, _, err) = run(&["id", "order"], &[], folder.path());
    let made = folder.path().canonicalize().expect("there").join("raindrop.db");
    let said = format!("raindrop: created the store {}\n", made.display());
    assert_eq!((code, err), (Some(0), said));
    assert_eq!(run(&["id", "order"], &[], folder.path()).2, "");
}

#[test]
fn a_lease_of_the_command_is_labelled_as_its_own() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let named = [("RAINDROP__WORKER__HOLDER", "shop-1")];
    assert_eq!(run(&["id", "order"], &named, folder.path()).0, Some(0));
    let listed = run(&["workers"], &named, folder.path()).1;
    assert!(listed.contains("  cli ") && !listed.contains("shop-1"), "{listed}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ids_from_the_command_line_are_distinct_from_the_services() {
    let node = Setup::new().start_leased().await;
    let mut ids: HashSet<u64> = node.ids("order", 100).await.into_iter().collect();
    for _ in 0..3 {
        let (code, out, err) = run(&["id", "order", "-n", "100"], &[], node.folder());
        assert_eq!(code, Some(0), "{err}");
        ids.extend(out.lines().map(|line| line.parse::<u64>().expect("decimal")));
    }
    ids.extend(node.ids("order", 100).await);
    assert_eq!(ids.len(), 500);
    let some = ids.iter().next().expect("five hundred").to_string();
    let (code, out, _) = run(&["parse", &some], &[], node.folder());
    assert_eq!(code, Some(0));
    assert!(out.contains("\"worker_id\"") && out.contains("\"timestamp\""), "{out}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_probe_and_the_list_of_workers_tell_what_is_so() {
    let node = Setup::new().start_leased().await;
    let listen = node.address().to_string();
    let settings = [("RAINDROP__HTTP__LISTEN", listen.as_str())];
    for arguments in [&["health"][..], &["health", "--ready"]] {
        let (code, _, err) = run(arguments, &settings, node.folder());
        assert_eq!(code, Some(0), "{arguments:?}: {err}");
    }
    let worker = node.worker().await.to_string();
    let (code, out, err) = run(&["workers"], &settings, node.folder());
    assert_eq!(code, Some(0), "{err}");
    let line = out.lines().find(|line| line.contains("held")).expect("a held worker");
    assert!(line.contains(&worker) && line.contains("default"), "{out}");
    let counts = "default: 1 held, 0 free, 0 not free before an instant, 510 never used; --all lists \
                  them\n";
    assert!(out.ends_with(counts), "{out}");
    let (code, out, err) = run(&["workers", "--json", "--held"], &settings, node.folder());
    assert_eq!(code, Some(0), "{err}");
    let document: serde_json::Value = serde_json::from_str(&out).expect("JSON");
    let default = &document["namespaces"]["default"];
    assert_eq!((&default["held"], &default["unused"]), (&1.into(), &510.into()), "{out}");
    assert_eq!(default["workers"][0]["worker_id"].to_string(), worker, "{out}");
    let (code, _, err) = run(&["workers", "--held", "release", "7"], &settings, node.folder());
    assert_eq!(code, Some(2), "{err}");
    let (code, out, err) = run(&["health", "--json"], &settings, node.folder());
    let (_, health) = node.json("/health").await;
    let health = health["namespaces"]["default"]["worker_id"].clone();
    let said: serde_json::Value = serde_json::from_str(&out).expect("JSON");
    assert_eq!((code, &said["namespaces"]["default"]["worker_id"]), (Some(0), &health), "{err}");
    let of = ["health", "--json", "--namespace", "none"];
    let (code, out, err) = run(&of, &settings, node.folder());
    assert!(code == Some(1) && out.is_empty() && err.contains("404"), "{code:?} {out}{err}");
    let (code, out, err) = run(&["workers", "--all"], &settings, node.folder());
    assert_eq!((code, out.lines().count()), (Some(0), 2 + 512), "{out}{err}");
    let folder = node.folder().to_owned();
    let kept = tempfile::tempdir().expect("a temporary folder");
    node.stop().await;
    drop(folder);
    let (code, _, _) = run(&["health"], &settings, kept.path());
    assert_eq!(code, Some(1));
}

#[test]
fn ids_are_parsed_as_they_are_written_and_by_any_layout() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let parse = |arguments: &[&str]| run(&[&["parse"], arguments].concat(), &[], folder.path());
    for (text, encoding) in [
        ("1415384785396004", "decimal"),
        ("6tUDRbHbS", "base62"),
        ("006TudrBhBs", "base62-sorted"),
        ("AAUHSPNaoSQ=", "base64url"),
        ("20170328T064857.735Z-0-426-0-292-0", "friendly"),
    ] {
        let (code, out, err) = parse(&[text, "--layout", "westid", "--encoding", encoding]);
        assert_eq!(code, Some(0), "{err}");
        let parsed: serde_json::Value = serde_json::from_str(&out).expect("JSON");
        assert_eq!(parsed["id"], "1415384785396004");
        assert_eq!(parsed["timestamp"], "2017-03-28T06:48:57.735Z");
        assert_eq!((&parsed["worker_id"], &parsed["sequence"]), (&426.into(), &292.into()));
    }
    let file = folder.path().join("layouts.toml");
    let old = "layouts.old.layout = 'time:39@10ms,sequence:8,worker:16'";
    std::fs::write(&file, old).expect("written");
    let file = file.to_str().expect("UTF-8");
    let epoch = "2014-09-01T00:00:00Z";
    let by_name = ["133591991580950539", "--config", file, "--layout", "old", "--epoch", epoch];
    let (code, out, err) = parse(&by_name);
    assert!(code == Some(0) && out.contains("2017-03-10T14:37:12.030Z"), "{out}{err}");
    let (code, out, err) = parse(&["7", "--layout", "mastodon"]);
    assert_eq!(code, Some(0));
    assert!(err.starts_with("raindrop: ID \"7\": the timestamp 1970-"), "{err}");
    assert!(out.contains("\"warning\""), "{out}");
    let (code, out, _) = parse(&["3B216E00F000000", "--layout", "cosid", "--encoding", "hex"]);
    assert!(code == Some(0) && out.contains("2021-12-28T12:23:01.948Z"), "{out}");
    for (arguments, said) in [
        (&["1U", "--encoding", "base32"][..], "position 1: 'U' is not a base32 digit"),
        (&["1", "--encoding", "base58"], "possible values: decimal, hex"),
        (&["1", "--layout", "snowflake"], "must be one of raindrop, js-safe"),
        (
            &["x", "--layout", "discord", "--encoding", "friendly"],
            "a layout that Raindrop can issue",
        ),
    ] {
        let (code, _, err) = parse(arguments);
        assert!(code == Some(2) && err.contains(said), "{arguments:?}: {code:?} {err}");
    }
}

#[test]
fn ids_are_printed_in_the_encoding_that_is_asked_for() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let id = |arguments: &[&str]| run(&[&["id", "order"], arguments].concat(), &[], folder.path());
    let (code, out, err) = id(&["-n", "3", "--encoding", "base32", "--padded"]);
    assert_eq!(code, Some(0), "{err}");
    let lines: Vec<&str> = out.lines().collect();
    assert!(lines.len() == 3 && lines.iter().all(|line| line.len() == 13), "{out}");
    assert!(lines.is_sorted(), "{out}");
    let (code, out, err) = id(&["--encoding", "friendly"]);
    assert_eq!(code, Some(0), "{err}");
    let read = run(&["parse", out.trim(), "--encoding", "friendly"], &[], folder.path());
    assert_eq!(read.0, Some(0), "{}", read.2);
    let (code, _, err) = id(&["--encoding", "base62", "--padded"]);
    assert!(code == Some(2) && err.contains("base62 cannot be padded"), "{code:?} {err}");
}

#[test]
fn the_plan_is_of_the_configured_layout_unless_flags_name_another() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let seconds = [("RAINDROP__LAYOUT__TIME_UNIT", "second"), ("RAINDROP__WORKER__MAX_ID", "20")];
    let plan = |arguments: &[&str]| {
        let (code, out, err) = run(&[&["plan"], arguments].concat(), &seconds, folder.path());
        assert_eq!(code, Some(0), "{err}");
        out
    };
    let text = plan(&[]);
    assert!(text.starts_with("Layout as configured: 63 bits, a tick each second"), "{text}");
    assert!(!text.contains('\u{1b}'), "no colours where there is no terminal");
    let json: serde_json::Value = serde_json::from_str(&plan(&["--json"])).expect("JSON");
    assert_eq!((&json["nodes"], &json["preset"]), (&20.into(), &serde_json::Value::Null));
    assert!(plan(&["--preset", "westid-qr"]).starts_with("Layout westid-qr: 31 bits"));
    assert_eq!(run(&["plan", "--worker-bits", "2"], &[], folder.path()).0, Some(2));
    let retired = [("RAINDROP__LAYOUT__PRESET", "lingdu")];
    let (code, _, err) = run(&["id", "order"], &retired, folder.path());
    assert!(code == Some(2) && err.contains("2026-09-06T02:58:26.943Z"), "{code:?} {err}");
    assert_eq!(std::fs::read_dir(folder.path()).expect("readable").count(), 0);
}

#[test]
fn a_configuration_of_raindrop_go_becomes_one_that_can_be_used() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let theirs = folder.path().join("raindrop.json");
    let written = r#"{"idMode": "Snowflake",
        "dbConfig": {"dbType": "mysql", "dbUrl": "ids:s3cret@tcp(db:3306)/ids?parseTime=True"},
        "timeUnit": 2, "startTimeStamp": "2023-03-01T00:00:00+08:00", "timeStampLength": 31,
        "workIdLength": 4, "serviceMinWorkId": 1, "serviceMaxWorkId": 15}"#;
    std::fs::write(&theirs, written).expect("written");
    let theirs = theirs.to_str().expect("UTF-8");
    let (code, toml, err) = run(&["config", "--from-raindrop", theirs], &[], folder.path());
    assert_eq!(code, Some(0), "{err}");
    assert!(err.contains("store.password_file") && err.contains("store.worker_table"), "{err}");
    assert!(!err.contains("s3cret"), "{err}");

    std::fs::write(folder.path().join("raindrop.toml"), toml).expect("written");
    let (code, out, err) = run(&["--config", "raindrop.toml", "config"], &[], folder.path());
    assert_eq!(code, Some(0), "{err}");
    for (key, value) in [
        ("layout.time_unit", "second"),
        ("layout.epoch", "2023-02-28T16:00:00Z"),
        ("worker.max_id", "15"),
        ("store.url", "mysql://ids:***@db:3306/ids"),
    ] {
        let line = out.lines().find(|line| line.starts_with(key)).expect(key);
        assert!(line.contains(&format!("= {value}  (raindrop.toml)")), "{line}");
    }

    std::fs::write(theirs, written.replace("\"workIdLength\": 4", "\"workIdLength\": 2"))
        .expect("written");
    let (code, out, err) = run(&["config", "--from-raindrop", theirs], &[], folder.path());
    assert!(code == Some(2) && out.is_empty(), "{code:?} {out}");
    assert!(err.contains("WorkIdLength = 2: must be 3 to 16"), "{err}");
    let (code, _, err) = run(&["config", "--from-raindrop", "nowhere"], &[], folder.path());
    assert!(code == Some(2) && err.contains("nowhere: "), "{code:?} {err}");
}

/// Runs a command in a shell that redirects its standard output; gives code and standard error.
fn redirected(arguments: &[&str], to: &str, folder: &Path) -> (Option<i32>, String) {
    let mut shell = Command::new("/bin/sh");
    shell.args(["-c", &format!("exec \"$0\" \"$@\" {to}"), env!("CARGO_BIN_EXE_raindrop")]);
    let output = shell.args(arguments).env_clear().current_dir(folder).output().expect("it runs");
    (output.status.code(), String::from_utf8(output.stderr).expect("UTF-8"))
}

#[test]
fn output_that_cannot_be_written_is_an_error() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let closed = |arguments: &[&str]| redirected(arguments, ">&-", folder.path());
    for arguments in [&["id", "order", "-n", "1000"][..], &["token", "shop"]] {
        let (code, err) = closed(arguments);
        assert!(code == Some(1) && err.contains("standard output is closed"), "{code:?} {err}");
        assert!(!err.contains("raindrop_"), "no token was created: {err}");
    }
    let left = std::fs::read_dir(folder.path()).expect("readable").count();
    assert_eq!(left, 0, "nothing was leased");
    for arguments in [
        &["id", "order"][..],
        &["token", "shop"],
        &["workers", "--json"],
        &["codes", "--json"],
        &["config"],
        &["config", "--json"],
        &["plan"],
        &["version"],
        &["man"],
        &["completions", "bash"],
        &["--help"],
        &["--version"],
    ] {
        assert_eq!(redirected(arguments, ">/dev/null", folder.path()).0, Some(0), "{arguments:?}");
        let (code, err) = redirected(arguments, ">/dev/full", folder.path());
        let said = "standard output cannot be written: No space left on device";
        assert!(code == Some(1) && err.contains(said), "{arguments:?}: {code:?} {err}");
    }
}

#[test]
fn missing_code_is_an_error_as_json() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let token = format!("raindrop_{}", "0123456789abcdef".repeat(4));
    let settings = [("RAINDROP__WORKER__HOLDER", token.as_str())];
    let json = |arguments: &[&str]| {
        let (code, out, err) = run(arguments, &settings, folder.path());
        assert_eq!((code, err.as_str()), (Some(0), ""));
        serde_json::from_str::<Value>(&out).expect("JSON")
    };
    let config = json(&["config", "--json"]);
    let settings = config["settings"].as_array().expect("settings");
    let setting = |key: &str| settings.iter().find(|setting| setting["key"] == key).expect(key);
    let (key, source) = ("worker.holder", "environment variable RAINDROP__WORKER__HOLDER");
    assert_eq!(setting(key), &json!({ "key": key, "value": "raindrop_***", "source": source }));
    assert_eq!(setting("store.state_file")["value"], Value::Null);
    assert_eq!(config["notes"], json!([]));
    let version = json(&["version", "--json"]);
    assert_eq!(version["version"], env!("CARGO_PKG_VERSION"));
    assert!(version["commit"].is_string(), "{version}");
}

#[test]
fn every_change_is_reported_as_json() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let settings = [("RAINDROP__NAMESPACES__NUMBERS__MODE", "segment")];
    let json = |words: &str, said: &str| {
        let arguments: Vec<&str> = words.split(' ').chain(["--json"]).collect();
        let (code, out, err) = run(&arguments, &settings, folder.path());
        assert!(code == Some(0) && err.contains(said), "{words}: {code:?} {out}{err}");
        serde_json::from_str::<Value>(&out).unwrap_or_else(|error| panic!("{error}: {out}"))
    };
    let code = |document: &Value, code: &str| {
        let codes = document["codes"].as_array().expect("codes");
        codes.iter().find(|listed| listed["code"] == code).expect("the code").clone()
    };
    let first = json("workers raise --dry-run", "the store has not been used yet");
    let unknown =
        json!({ "done": false, "namespace": "default", "held": null, "issued_from": null });
    assert_eq!(first, unknown);

    let created = json("codes create order --start 100", "the next number is 100");
    let order = code(&created, "order");
    assert_eq!((&created["done"], &order["next"]), (&true.into(), &"100".into()), "{created}");
    assert_eq!(order, code(&json("codes", ""), "order"), "as it is listed");
    json("codes create user", "");
    let set = json("codes set order --max 5000", "the next number is 100");
    assert_eq!(code(&set, "order")["max"], "5000");
    let tried = json("codes raise --by 10 --dry-run", "raises 2 next numbers by 10");
    assert_eq!((&tried["done"], &code(&tried, "order")["next"]), (&false.into(), &"100".into()));
    let raised = json("codes raise --by 10 --yes", "numbers order: the next number is 110");
    assert_eq!((&raised["done"], &code(&raised, "user")["next"]), (&true.into(), &"11".into()));
    let retired = json("codes retire user --yes", "user: retired");
    assert_eq!(
        (&retired["done"], &code(&retired, "user")["kind"]),
        (&true.into(), &"retired".into())
    );

    assert_eq!(run(&["id", "order"], &settings, folder.path()).0, Some(0));
    let workers = json("workers", "");
    let worker = workers["namespaces"]["default"]["workers"][0]["worker_id"].clone();
    let released = json(&format!("workers release {worker}"), "was free already");
    let already = json!([{ "worker_id": worker, "released": false }]);
    let document = json!({ "done": true, "namespace": "default", "workers": already });
    assert_eq!(released, document);
    let relayout = json("workers relayout --yes", "nothing to do");
    assert_eq!((&relayout["done"], &relayout["effect"]), (&true.into(), &"none".into()));
    let raised = json("workers raise --yes", "begins a new epoch");
    assert_eq!((&raised["done"], &raised["held"]), (&true.into(), &0.into()), "{raised}");
    assert!(
        raised["issued_from"].as_str().is_some_and(|instant| instant.ends_with('Z')),
        "{raised}"
    );
}
