//! Tests mistakes that only SQLite allows.

use raindrop::store::{StoreError, StoreSettings};
use sqlx::{Connection as _, SqliteConnection};

use crate::{
    backend::{Backend, birth, open, scope, with_rows, write},
    corrupt_rows::{OddTime, rows_with_odd_times_are_used},
    outage::{MARGIN, PATIENCE, TIMEOUT, settings},
    support::poll,
};

#[tokio::test]
async fn the_file_is_durable_or_refused() {
    let backend = Backend::sqlite().await;
    with_rows(&backend, &scope(1, 1)).await;
    assert_eq!(backend.texts("PRAGMA journal_mode").await, ["wal"]);

    // This kind of locking cannot do WAL, as a network file system cannot.
    let Backend::Sqlite(folder) = &backend else { unreachable!() };
    let path = folder.path().join("other.db");
    let url = format!("sqlite://{}?vfs=unix-dotfile", path.display());
    let error = open(&StoreSettings::new(url)).await.prepare().await.expect_err("not durable");
    assert!(error.is_permanent(), "{error}");
    assert!(error.to_string().contains("cannot be made durable"), "{error}");
}

#[tokio::test]
async fn a_file_that_cannot_be_opened_is_refused_with_the_reason_and_the_way_out() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let file = folder.path().join("file");
    std::fs::write(&file, "").expect("a file");
    let below_file = format!("{}/raindrop.db", file.display());
    let mut cases = vec![
        ("/nowhere/raindrop.db", "create or mount it first"),
        ("~/raindrop.db", "write the whole path"),
        (&below_file, "a part of the path is a file"),
    ];
    if cfg!(target_os = "linux") {
        // No user, not even root, may create a file there.
        cases.push(("/sys/raindrop.db", "must be writable for this user"));
    }
    for (path, way_out) in cases {
        let error = open(&StoreSettings::new(format!("sqlite://{path}"))).await.prepare().await;
        let error = error.expect_err(path);
        let said = error.to_string();
        assert!(error.is_permanent() && said.contains(path) && said.contains(way_out), "{error:?}");
    }
}

#[tokio::test]
async fn a_folder_is_refused() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let url = format!("sqlite://{}", folder.path().display());
    let error = open(&StoreSettings::new(url)).await.prepare().await.expect_err("a folder");
    assert!(error.is_permanent() && error.to_string().contains("is a folder"), "{error}");
}

#[cfg(unix)]
#[tokio::test]
async fn a_file_that_was_removed_or_replaced_is_another_store() {
    let backend = Backend::sqlite().await;
    let path = backend.url().replace("sqlite://", "");
    let scope = scope(1, 2);
    let store = with_rows(&backend, &scope).await;
    assert_eq!(store.survey(&scope).await.expect("rows").free, 2);
    for suffix in ["", "-wal", "-shm"] {
        // The last two exist only while a connection does.
        let _ = std::fs::remove_file(format!("{path}{suffix}"));
    }
    let error = store.survey(&scope).await.expect_err("removed");
    assert!(matches!(error, StoreError::Vanished(_)), "{error}");
    let other = with_rows(&backend, &scope).await;
    assert_eq!(other.survey(&scope).await.expect("rows").free, 2);
    let error = store.survey(&scope).await.expect_err("replaced");
    assert!(matches!(error, StoreError::Vanished(_)), "{error}");
}

#[tokio::test]
async fn a_store_that_was_never_prepared_is_not_created_by_asking() {
    let backend = Backend::sqlite().await;
    let path = backend.url().replace("sqlite://", "");
    let error = backend.unprepared().await.list_rows().await.expect_err("no file");
    assert!(matches!(error, StoreError::Vanished(_)), "{error}");
    assert!(!std::path::Path::new(&path).exists());
}

#[tokio::test]
async fn a_file_of_something_else_is_refused() {
    let backend = Backend::sqlite().await;
    let path = backend.url().replace("sqlite://", "");
    std::fs::write(&path, "not a database, but a text of some length".repeat(100)).expect("a file");
    let error = backend.unprepared().await.prepare().await.expect_err("not a database");
    assert!(error.is_permanent() && error.to_string().contains("not a SQLite database"), "{error}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn locked_file_fails_within_the_timeout_on_every_call() {
    let backend = Backend::sqlite().await;
    with_rows(&backend, &scope(1, 3)).await;
    let store = open(&settings(backend.url())).await;
    let mut other = SqliteConnection::connect(&backend.url()).await.expect("the file");
    let transaction = other.begin_with("BEGIN IMMEDIATE").await.expect("the write lock");

    poll::within(TIMEOUT + MARGIN, "a swap in a locked file", async || {
        let swapped = store.swap_row(&scope(1, 3), 1, birth(1), &write(1)).await;
        let error = swapped.expect_err("locked");
        assert!(matches!(error, StoreError::TimedOut { .. }), "{error:?}");
    })
    .await;
    poll::until(PATIENCE, "reading goes on", async || store.survey(&scope(1, 3)).await.ok()).await;

    transaction.rollback().await.expect("the end of it");
    // The swap that timed out may still arrive.
    let patient = open(&backend.settings()).await;
    poll::until(PATIENCE, "a swap takes place", async || {
        let row = patient.read_row(&scope(1, 3), 1).await.expect("an answer").expect("the row");
        let swapped = patient.swap_row(&scope(1, 3), 1, row.token, &write(2)).await;
        swapped.expect("an answer").then_some(())
    })
    .await;
}

#[tokio::test]
async fn rows_survive_the_process() {
    let backend = Backend::sqlite().await;
    let store = with_rows(&backend, &scope(1, 5)).await;
    store.close().await;
    assert!(matches!(store.survey(&scope(1, 5)).await, Err(StoreError::Unavailable(_))));
    assert!(backend.store().await.clock_is_local());
    assert_eq!(backend.store().await.survey(&scope(1, 5)).await.expect("a survey").free, 5);
}

/// A release writes 1970 and no other time, so an earlier one does not release a row.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn expiry_before_1970_releases_no_row() {
    let backend = Backend::sqlite().await;
    let odd = OddTime { column: "expires_at", value: "-1", reads_ms: -1, is_free: true };
    rows_with_odd_times_are_used(&backend, odd).await;
}
