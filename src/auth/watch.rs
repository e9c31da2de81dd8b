//! Notices when a file was replaced or written.

use std::{
    fs,
    path::{Path, PathBuf},
    time::{Duration, SystemTime},
};

/// How often the file is looked at.
const LOOK_EVERY: Duration = Duration::from_secs(5);

/// What tells one state of a file from another without reading it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Stamp {
    modified: Option<SystemTime>,
    length: u64,
    /// Device and number of the file itself, behind every symbolic link: Kubernetes changes a
    /// mounted Secret by a link.
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
    /// Of what was read last, or tried to be.
    read: Option<Stamp>,
    /// As it was at the last look.
    seen: Option<Stamp>,
}

impl Watch {
    /// Watches a file that had this stamp when it was read.
    pub(super) fn new(file: PathBuf, read: Option<Stamp>) -> Self {
        Self { file, seen: read.clone(), read }
    }

    /// Takes the file as it is now for read: to be called before it is.
    pub(super) async fn begin_read(&mut self) {
        self.seen = self.look().await;
        self.read.clone_from(&self.seen);
    }

    /// Resolves when the file is another than the one that was read, and has rested since the
    /// look before: it may be written at this moment. A file that is missing is waited for.
    pub(super) async fn changed(&mut self) {
        loop {
            tokio::time::sleep(LOOK_EVERY).await;
            let present = self.look().await;
            let has_rested = present == self.seen;
            self.seen = present;
            if has_rested && self.seen.is_some() && self.seen != self.read {
                return;
            }
        }
    }

    /// The file may be on a network, so another thread looks.
    async fn look(&self) -> Option<Stamp> {
        let file = self.file.clone();
        tokio::task::spawn_blocking(move || Stamp::of(&file)).await.unwrap_or_default()
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
        watch.begin_read().await;
        assert!(timeout(LONG, watch.changed()).await.is_err(), "noticed already");

        fs::remove_file(&file).expect("removed");
        assert!(timeout(LONG, watch.changed()).await.is_err(), "there is nothing to read");
        fs::write(&file, "three").expect("written");
        watch.changed().await;
    }
}
