use std::os::unix::fs::PermissionsExt as _;

use raindrop_core::lease::{Epoch, SavedLease, Token};

use super::*;

fn entry(local_mark: u64) -> Entry {
    let marks = "10,90".parse().expect("marks");
    let lease = SavedLease {
        worker: 5,
        lane: 1,
        token: Token::from_bits(7),
        epoch: Epoch { token: Token::from_bits(8), ordinal: 3 },
        marks,
        local_mark,
    };
    Entry { layout: "a layout".to_owned(), reserved_key: "0:0".to_owned(), lease }
}

async fn keep(file: &StateFile, namespace: &str, entry: Option<Entry>) {
    let change = file.set(namespace, entry);
    file.durable(change).await.expect("the disk works");
}

/// Opens a dropped file again, once its writer has released the lock.
async fn reopen(path: &Path, store: &str) -> StateFile {
    loop {
        match StateFile::open(path, store) {
            Err(StateFileError::InUse { .. }) => tokio::task::yield_now().await,
            opened => return opened.expect("our file"),
        }
    }
}

#[tokio::test]
async fn saved_lease_is_found_by_the_next_process_and_no_other() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("state");
    let file = StateFile::open(&path, "store").expect("a new file");
    let mode = std::fs::metadata(&path).expect("there").permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    assert_eq!(file.found("a"), Ok(None));
    keep(&file, "a", Some(entry(20))).await;
    keep(&file, "b", Some(entry(30))).await;
    keep(&file, "a", Some(entry(40))).await;
    assert!(matches!(StateFile::open(&path, "store"), Err(StateFileError::InUse { .. })));
    drop(file);

    let file = reopen(&path, "store").await;
    assert_eq!(file.found("a"), Ok(Some(entry(40))));
    assert_eq!(file.found("a"), Ok(None), "one keeper resumes it");
    // The entry of another namespace stays until its keeper has asked for it.
    keep(&file, "a", None).await;
    drop(file);
    let file = reopen(&path, "store").await;
    assert_eq!((file.found("a"), file.found("b")), (Ok(None), Ok(Some(entry(30)))));
    drop(file);

    let file = reopen(&path, "another store").await;
    let Err(Refused(reason)) = file.found("b") else { panic!("it was kept for another store") };
    assert!(reason.starts_with("store was "), "{reason}");
    keep(&file, "a", Some(entry(50))).await;
    drop(file);
    let file = reopen(&path, "another store").await;
    assert_eq!((file.found("a"), file.found("b")), (Ok(Some(entry(50))), Ok(None)));
}

#[tokio::test]
async fn foreign_file_is_left_as_it_is() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("notes");
    std::fs::write(&path, "remember the milk").expect("writes");
    assert!(matches!(StateFile::open(&path, "store"), Err(StateFileError::Foreign { .. })));
    assert_eq!(std::fs::read(&path).expect("there"), b"remember the milk");
    let missing = folder.path().join("no/folder");
    for unusable in [missing.as_path(), folder.path()] {
        let opened = StateFile::open(unusable, "store");
        assert!(matches!(opened, Err(StateFileError::Unusable { .. })), "{opened:?}");
    }
}
