use std::path::Path;

use crate::{
    collected::Collected,
    service::{PATIENCE, Service, Setup, parse_ids, run},
    support::poll,
};

/// A 63-bit, a JS-safe and a 31-bit namespace over one file.
fn three(folder: &Path) -> Setup {
    Setup::new()
        .folder(folder)
        .set("namespaces.js.layout.preset", "js-safe")
        .set("namespaces.qr.layout.preset", "westid-qr")
}

async fn ids(node: &Service, namespace: &str, count: u32) -> Vec<u64> {
    let (status, body) = node.json(&format!("/ids/a?n={count}&namespace={namespace}")).await;
    assert_eq!(status, 200, "{body}\n{}", node.log());
    parse_ids(&body)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn namespaces_go_on_above_their_own_marks_after_a_crash_and_are_listed() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let setup = three(folder.path());
    let namespaces =
        [("default", 1_u64 << 63, 1_000), ("js", 1 << 53, 1_000), ("qr", 1 << 31, 100)];
    let collected = [(); 3].map(|()| Collected::default());
    for restart in 0..4 {
        let node = setup.clone().start_leased().await;
        for ((namespace, end, count), collected) in namespaces.iter().zip(&collected) {
            let ids = ids(&node, namespace, *count).await;
            assert!(ids.iter().all(|id| (1..*end).contains(id)), "{namespace}");
            collected.add(&ids);
        }
        if restart % 2 == 0 {
            node.kill9().await;
        } else {
            node.stop().await;
        }
    }
    for ((namespace, _, count), collected) in namespaces.iter().zip(&collected) {
        let expected = 4 * usize::try_from(*count).expect("fits");
        assert_eq!((collected.count(), collected.duplicates()), (expected, 0), "{namespace}");
    }

    let settings = [
        ("RAINDROP__NAMESPACES__JS__LAYOUT__PRESET", "js-safe"),
        ("RAINDROP__NAMESPACES__QR__LAYOUT__PRESET", "westid-qr"),
    ];
    let (code, out, err) = run(&["workers"], &settings, folder.path());
    assert_eq!(code, Some(0), "{err}");
    for namespace in ["default ", "js ", "qr "] {
        assert!(out.lines().any(|line| line.starts_with(namespace)), "{out}");
    }
    let (code, out, err) = run(&["id", "a", "--namespace", "js"], &settings, folder.path());
    assert_eq!(code, Some(0), "{err}");
    assert!(out.trim().parse::<u64>().expect("decimal") < 1 << 53, "{out}");
    let (code, _, err) = run(&["id", "a", "--namespace", "no"], &settings, folder.path());
    assert_eq!(code, Some(2));
    assert!(err.contains("default, js, qr"), "{err}");
}

#[test]
fn the_command_line_knows_the_configured_codes() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let file = "[namespaces.js.layout]\npreset = 'js-safe'\n\
                [[code]]\nname = 'order'\nnamespace = 'js'\nprefix = 'ORD-'\n";
    std::fs::write(folder.path().join("raindrop.toml"), file).expect("written");
    let raindrop = |arguments: &[&str]| {
        run(&[&["--config", "raindrop.toml"], arguments].concat(), &[], folder.path())
    };
    let (code, out, err) = raindrop(&["id", "order", "--encoding", "hex"]);
    assert_eq!(code, Some(0), "{err}");
    let id = out.trim();
    assert!(id.starts_with("ORD-") && id.len() == 20, "{out}");
    let (code, out, err) = raindrop(&["parse", id, "--encoding", "hex"]);
    assert_eq!(code, Some(0), "{err}");
    assert!(out.contains("\"namespace\": \"js\""), "{out}");
    for arguments in
        [&["id", "order", "--namespace", "default"][..], &["parse", id, "--namespace", "default"]]
    {
        let (code, _, err) = raindrop(arguments);
        assert_eq!(code, Some(2), "{err}");
        assert!(err.contains("\"js\"") && err.contains("\"default\""), "{err}");
    }
    let (code, out, _) = raindrop(&["config"]);
    assert_eq!(code, Some(0));
    for line in ["namespaces.js.layout.worker_bits", "[[code]] order: prefix"] {
        assert!(out.lines().any(|found| found.starts_with(line)), "{out}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_namespace_without_a_free_row_does_not_stop_the_others() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let setup = three(folder.path()).set("namespaces.qr.worker.id", 7);
    let first = setup.clone().start_leased().await;
    let second = setup.start().await;
    poll::until(PATIENCE, "the other namespaces issue", async || {
        let (_, health) = second.json("/health").await;
        let issues = |namespace: &str| health["namespaces"][namespace]["issuing"] == true;
        (issues("default") && issues("js")).then_some(())
    })
    .await;
    let (status, health) = second.json("/health").await;
    assert_eq!((status.as_u16(), &health["namespaces"]["qr"]["issuing"]), (503, &false.into()));
    for (code, namespace) in [(200, "default"), (200, "js"), (503, "qr")] {
        let (status, body) = second.json(&format!("/id/a?namespace={namespace}")).await;
        assert_eq!(status, code, "{namespace}: {body}");
    }
    // The second process waits for the row that the first one releases.
    first.stop().await;
    second.until_ready().await;
    assert_eq!(ids(&second, "qr", 1).await.len(), 1);
    second.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_namespace_with_another_layout_is_named_and_the_rest_is_given_back() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    three(folder.path()).start_leased().await.stop().await;
    let mut other = three(folder.path())
        .set("namespaces.js.layout.preset", "twitter")
        .set("namespaces.qr.layout.preset", "raindrop")
        .spawn();
    let status = other.ended().await;
    let log = other.log();
    assert_eq!(status.code(), Some(2), "{log}");
    for said in ["namespace js: ", "namespace qr: ", "timestamp=50", "timestamp=21"] {
        assert!(log.contains(said), "{said} is missing in\n{log}");
    }
    let (_, rows, err) = run(&["workers"], &[], folder.path());
    for counts in ["default: 0 held, 2 free", "js: 0 held, 1 free", "qr: 0 held, 1 free"] {
        assert!(rows.contains(counts), "{rows}{err}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_given_worker_id_says_what_it_rests_on() {
    let node = Setup::new().set("store.url", "memory:").set("worker.id", 5).start_leased().await;
    assert_eq!(node.worker().await, 5);
    node.logged("no other process is given worker id 5").await;
    node.stop().await;

    let node = Setup::new().set("worker.id", 5).start_leased().await;
    node.logged("leasing exactly its row").await;
    node.stop().await;
}
