//! Watches a file for changes, by polling.
//!
//! A file counts as changed when its stamp (time, length, inode) differs from that of the last
//! read. The stamp must also be the same at two polls in a row, because a process may still be
//! writing the file. Reads go through [`Reads`], since a file on a network may hang. The caller
//! must read the file by [`Watch::read`], which records the stamp from *before* the read: so the
//! next poll notices a change during the read.

use std::{
    fs,
    path::{Path, PathBuf},
    time::{Duration, SystemTime},
};

use crate::process::reading::Reads;

/// The interval between two polls.
const LOOK_EVERY: Duration = Duration::from_secs(5);

/// Tells one state of a file from another without reading it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Stamp {
    modified: Option<SystemTime>,
    length: u64,
    /// Device and inode of the file that the symbolic links lead to: Kubernetes replaces a mounted
    /// Secret by changing a link.
    #[cfg(unix)]
    identity: (u64, u64),
}

impl Stamp {
    /// Returns the present stamp of a file; `None` if there is no such file.
    pub(super) fn of(file: &Path) -> Option<Self> {
        let metadata = fs::metadata(file).ok()?;
        Some(Self {
            modified: metadata.modified().ok(),
            length: metadata.len(),
            #[cfg(unix)]
            identity: {
                use std::os::unix::fs::MetadataExt;
                (metadata.dev(), metadata.ino())
            },
        })
    }
}

/// Watches one file.
#[derive(Debug)]
pub(super) struct Watch {
    file: PathBuf,
    /// The stamp at the last read, successful or not.
    read: Option<Stamp>,
    /// The stamp at the last poll or read.
    seen: Option<Stamp>,
    pub(super) reads: Reads,
}

impl Watch {
    /// Watches a file that had the stamp `read` when the caller read it.
    pub(super) fn new(file: PathBuf, read: Option<Stamp>) -> Self {
        Self { file, seen: read.clone(), read, reads: Reads::default() }
    }

    /// Reads the file and records the stamp from before the read, so that a change during the read
    /// is noticed.
    ///
    /// # Errors
    ///
    /// When the file system does not answer in time. The stamp is unchanged then, so that the next
    /// poll tries again.
    pub(super) async fn read<T: Send + 'static>(
        &mut self,
        read: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, String> {
        let file = self.file.clone();
        let (present, content) = self.reads.one(move || (Stamp::of(&file), read())).await?;
        self.seen = present;
        self.read.clone_from(&self.seen);
        Ok(content)
    }

    /// Resolves when the file has changed since the last read and was the same at two polls in a
    /// row; also when it was removed, once.
    pub(super) async fn changed(&mut self) {
        loop {
            tokio::time::sleep(LOOK_EVERY).await;
            let file = self.file.clone();
            let Ok(present) = self.reads.one(move || Stamp::of(&file)).await else { continue };
            let has_rested = present == self.seen;
            self.seen = present;
            if has_rested && self.seen != self.read {
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::{Instant, timeout};

    use super::*;

    const LONG: Duration = Duration::from_secs(60);

    #[tokio::test(start_paused = true)]
    async fn a_changed_file_is_noticed_once_and_only_when_it_rests() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("tokens.toml");
        fs::write(&file, "one").expect("written");
        let mut watch = Watch::new(file.clone(), Stamp::of(&file));
        assert!(timeout(LONG, watch.changed()).await.is_err(), "nothing changed");

        let next = folder.path().join("next");
        fs::write(&next, "two").expect("written");
        fs::rename(&next, &file).expect("replaced");
        let began = Instant::now();
        watch.changed().await;
        assert!(began.elapsed() >= 2 * LOOK_EVERY, "it may be half written at the first look");
        watch.read(|| ()).await.expect("an answer");
        assert!(timeout(LONG, watch.changed()).await.is_err(), "noticed already");

        fs::remove_file(&file).expect("removed");
        watch.changed().await;
        watch.read(|| ()).await.expect("an answer");
        assert!(timeout(LONG, watch.changed()).await.is_err(), "noticed already");
        fs::write(&file, "three").expect("written");
        watch.changed().await;
    }
}
