//! Notices when a file was replaced or written.

use std::{
    fs,
    path::{Path, PathBuf},
    time::{Duration, SystemTime},
};

use crate::process::reading::Reads;

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
    pub(super) reads: Reads,
}

impl Watch {
    /// Watches a file that had this stamp when it was read.
    pub(super) fn new(file: PathBuf, read: Option<Stamp>) -> Self {
        Self { file, seen: read.clone(), read, reads: Reads::default() }
    }

    /// Reads the file, and takes it as it was just before for read. If there was no answer, it is as
    /// if nobody had tried, so that a change is not missed.
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

    /// Resolves when the file is another than the one that was read, and has rested since the
    /// look before: it may be written at this moment. A file that is missing is waited for.
    pub(super) async fn changed(&mut self) {
        loop {
            tokio::time::sleep(LOOK_EVERY).await;
            let file = self.file.clone();
            let Ok(present) = self.reads.one(move || Stamp::of(&file)).await else { continue };
            let has_rested = present == self.seen;
            self.seen = present;
            if has_rested && self.seen.is_some() && self.seen != self.read {
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
        assert!(timeout(LONG, watch.changed()).await.is_err(), "there is nothing to read");
        fs::write(&file, "three").expect("written");
        watch.changed().await;
    }
}
