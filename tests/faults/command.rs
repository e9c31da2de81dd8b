use std::collections::HashSet;

use crate::service::{Setup, run};

#[test]
fn a_bad_configuration_names_everything_and_touches_nothing() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let settings = [
        ("RAINDROP__LAYOUT__WORKER_BITS", "11"),
        ("RAINDROP__LEASE__TTL", "ninety"),
        ("RAINDROP__HTTP__MAX_BATCH", "0"),
        ("RAINDROP__HTTP__PROT", "80"),
    ];
    for arguments in [&[][..], &["serve"], &["config"], &["id", "order"], &["workers"]] {
        let (code, _, err) = run(arguments, &settings, folder.path());
        assert_eq!(code, Some(2), "{arguments:?}: {err}");
        for expected in
            ["layout.worker_bits", "11", "lease.ttl", "ninety", "http.max_batch", "http.prot"]
        {
            assert!(err.to_lowercase().contains(expected), "{expected} is missing in\n{err}");
        }
    }
    let left = std::fs::read_dir(folder.path()).expect("readable").count();
    assert_eq!(left, 0, "nothing was touched");
}

#[test]
fn usage_errors_end_with_code_2() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    for arguments in [&["id"][..], &["nonsense"], &["id", "order", "-n", "x"], &["id", "bad code"]]
    {
        let (code, _, err) = run(arguments, &[], folder.path());
        assert_eq!(code, Some(2), "{arguments:?}: {err}");
    }
    let (code, _, err) = run(&["parse", "12a"], &[], folder.path());
    assert!(code != Some(0) && err.contains("position 2"), "{code:?} {err}");
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
    let listen = node.url("").replace("http://", "");
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
    let folder = node.folder().to_owned();
    let kept = tempfile::tempdir().expect("a temporary folder");
    node.stop().await;
    drop(folder);
    let (code, _, _) = run(&["health"], &settings, kept.path());
    assert_eq!(code, Some(1));
}
