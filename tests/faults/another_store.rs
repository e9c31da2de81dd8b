//! Tests that a service which is told the id of its store refuses every other store.

use std::path::Path;

use crate::service::{Setup, run};

/// Returns the id that the command prints, which creates it at the first time.
fn store_id(url: &str, folder: &Path) -> String {
    let settings = [("RAINDROP__STORE__URL", url), ("RAINDROP__STORE__ID", &"f".repeat(32))];
    let (code, out, err) = run(&["config", "--store-id"], &settings, folder);
    assert_eq!(code, Some(0), "{err}");
    out.trim().to_owned()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn service_that_knows_the_id_of_its_store_refuses_another_one() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (own, other) = ("sqlite://own.db", "sqlite://other.db");
    let setup = |url: &str| Setup::new().folder(folder.path()).set("store.url", url);
    // Used before it got an id, as in an installation that turns this on.
    let node = setup(own).start_leased().await;
    node.stop().await;
    let id = store_id(own, folder.path());
    assert_eq!(store_id(own, folder.path()), id);
    let node = setup(own).set("store.id", &id).start_leased().await;
    node.stop().await;

    for mode in ["snowflake", "segment"] {
        let mut node = setup(other).set("mode", mode).set("store.id", &id).spawn();
        assert_eq!(node.ended().await.code(), Some(2), "{}", node.log());
        let log = node.log();
        assert!(log.contains(&format!("store.id = {id}, but the store at")), "{log}");
        assert!(log.contains("has no id"), "{log}");
        assert!(!folder.path().join("other.db").exists(), "nothing was created");
    }
    let second = store_id(other, folder.path());
    assert_ne!(second, id);
    let mut node = setup(other).set("store.id", &id).spawn();
    assert_eq!(node.ended().await.code(), Some(2), "{}", node.log());
    assert!(node.log().contains(&format!("has the id {second}")), "{}", node.log());
    let settings = [("RAINDROP__STORE__URL", other), ("RAINDROP__STORE__ID", &id)];
    for command in [
        &["workers"][..],
        &["workers", "release", "1", "--yes"],
        &["workers", "raise", "--yes"],
        &["workers", "relayout", "--yes"],
        &["codes"],
        &["id", "order"],
    ] {
        let (code, out, err) = run(command, &settings, folder.path());
        assert_eq!(code, Some(2), "{command:?}: {out}{err}");
        assert!(err.contains(&format!("has the id {second}")), "{command:?}: {err}");
    }
    let (code, _, err) = run(&["config"], &[("RAINDROP__STORE__ID", "own")], folder.path());
    assert!(code == Some(2) && err.contains("raindrop config --store-id"), "{code:?} {err}");
}
