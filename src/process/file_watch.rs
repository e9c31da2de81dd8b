//! Watches files for changes by polling and by SIGHUP, and reads them again.
//!
//! A file counts as changed when its stamp (times, length, inode) differs from that of the last
//! read. The stamps must also be the same at two polls in a row, because a process may still be
//! writing a file. Polls and reads go through [`Reads`], since a file on a network may hang. A read
//! that failed is tried again at the next polls; its reason is returned once.
//!
//! The callers decide what a file holds, and what stays in force when it cannot be used:
//! `auth/mod.rs` and `server/listener/tls/mod.rs`.

use std::{
    fs, io,
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, SystemTime},
};

use super::{reading::Reads, telemetry::log_safely};
#[cfg(unix)]
use tokio::{
    signal::unix::{Signal, SignalKind, signal},
    sync::Mutex,
};

/// The interval between two polls.
const POLL_EVERY: Duration = Duration::from_secs(5);

/// Tells one state of a file from another without reading it.
#[derive(Debug, PartialEq, Eq)]
struct Stamp {
    modified: Option<SystemTime>,
    length: u64,
    /// Device and inode of the file that the symbolic links lead to: Kubernetes replaces a mounted
    /// Secret by changing a link. Then seconds and nanoseconds of the last change of the inode:
    /// `chmod` and `chown` change no other time.
    #[cfg(unix)]
    inode: (u64, u64, i64, i64),
}

impl Stamp {
    /// Returns the present stamp of a file; `None` if there is no such file.
    fn of(file: &Path) -> Option<Self> {
        let metadata = fs::metadata(file).ok()?;
        Some(Self {
            modified: metadata.modified().ok(),
            length: metadata.len(),
            #[cfg(unix)]
            inode: {
                use std::os::unix::fs::MetadataExt;
                (metadata.dev(), metadata.ino(), metadata.ctime(), metadata.ctime_nsec())
            },
        })
    }

    fn of_all(files: &[PathBuf]) -> Arc<[Option<Self>]> {
        files.iter().map(|file| Self::of(file)).collect()
    }
}

/// Watches some files, which are read together.
#[derive(Debug)]
pub(crate) struct FileWatch {
    files: Arc<[PathBuf]>,
    /// The stamps from before the last read; `None` if it failed.
    read: Option<Arc<[Option<Stamp>]>>,
    /// The stamps at the last poll or read; `None` if there was no answer.
    seen: Option<Arc<[Option<Stamp>]>>,
    /// Why the last read failed.
    failure: Option<String>,
    reads: Reads,
}

impl FileWatch {
    /// Watches these files. The caller reads them after this call, so that a change during its read
    /// is noticed.
    pub(crate) fn new(files: impl IntoIterator<Item = PathBuf>) -> Self {
        let files: Arc<[PathBuf]> = files.into_iter().collect();
        let stamps = Stamp::of_all(&files);
        Self {
            files,
            read: Some(Arc::clone(&stamps)),
            seen: Some(stamps),
            failure: None,
            reads: Reads::default(),
        }
    }

    /// Waits for a signal or a change of the files, reads them, and returns what `read` returns.
    ///
    /// # Errors
    ///
    /// The error of `read`, or that the file system does not answer. An error that the last read
    /// had, too, is returned only after a signal.
    pub(crate) async fn next<T: Send + 'static>(
        &mut self,
        hangups: &Hangups,
        read: impl Fn() -> Result<T, String> + Clone + Send + 'static,
    ) -> Result<T, String> {
        loop {
            let is_signal = tokio::select! {
                () = hangups.next() => true,
                () = self.changed() => false,
            };
            let content = self.read(read.clone()).await;
            let failure = content.as_ref().err().cloned();
            let is_told = failure.is_some() && failure == self.failure;
            self.failure = failure;
            if is_signal || !is_told {
                return content;
            }
        }
    }

    /// Resolves when the files have changed since the last read, or it failed, and they were the
    /// same at two polls in a row; also when the file system does not answer a poll.
    async fn changed(&mut self) {
        loop {
            tokio::time::sleep(POLL_EVERY).await;
            let files = Arc::clone(&self.files);
            let present = self.reads.one(move || Stamp::of_all(&files)).await.ok();
            let has_rested = present == self.seen;
            self.seen = present;
            if self.seen.is_none() || (has_rested && self.seen != self.read) {
                return;
            }
        }
    }

    /// Reads the files, and records the stamps from before the read.
    async fn read<T: Send + 'static>(
        &mut self,
        read: impl FnOnce() -> Result<T, String> + Send + 'static,
    ) -> Result<T, String> {
        let files = Arc::clone(&self.files);
        let answer = self.reads.one(move || (Stamp::of_all(&files), read())).await;
        let (seen, content) = match answer {
            Ok((stamps, content)) => (Some(stamps), content),
            Err(reason) => {
                let files: Vec<_> = self.files.iter().map(|it| it.display().to_string()).collect();
                (None, Err(format!("{}: {reason}", files.join(", "))))
            }
        };
        self.read = if content.is_ok() { seen.clone() } else { None };
        self.seen = seen;
        content
    }
}

/// Logs each SIGHUP, in a service that has no file to read again. Otherwise the signal would kill
/// the process while it holds a lease.
///
/// # Errors
///
/// When the signal cannot be listened to.
pub(crate) fn nothing_to_reload() -> io::Result<()> {
    let hangups = Hangups::listen()?;
    tokio::spawn(async move {
        loop {
            hangups.next().await;
            log_safely(|| {
                tracing::info!(
                    "SIGHUP: nothing to reload without auth.tokens_file and http.tls; a changed \
                     configuration needs a restart"
                );
            });
        }
    });
    Ok(())
}

/// The stream of SIGHUPs. A signal that arrives while no task waits is not lost. Systems other than
/// Unix have no SIGHUP.
#[derive(Debug)]
pub(crate) struct Hangups(#[cfg(unix)] Mutex<Signal>);

impl Hangups {
    /// Installs the handler of the signal.
    ///
    /// # Errors
    ///
    /// When the operating system refuses the handler.
    pub(crate) fn listen() -> io::Result<Self> {
        Ok(Self(
            #[cfg(unix)]
            Mutex::new(signal(SignalKind::hangup())?),
        ))
    }

    /// Resolves on the next signal; never on systems without SIGHUP.
    pub(crate) async fn next(&self) {
        #[cfg(unix)]
        if self.0.lock().await.recv().await.is_some() {
            return;
        }
        std::future::pending::<()>().await;
    }
}

#[cfg(all(test, unix))]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use tempfile::TempDir;
    use tokio::time::{Instant, timeout};

    use super::*;
    use crate::process::reading::tests::hang;

    const LONG: Duration = Duration::from_secs(60);

    struct Watched {
        folder: TempDir,
        file: PathBuf,
        hangups: Hangups,
        watch: FileWatch,
    }

    impl Watched {
        /// Watches a file that holds "one".
        fn new() -> Self {
            let folder = tempfile::tempdir().expect("a folder");
            let file = folder.path().join("tokens.toml");
            fs::write(&file, "one").expect("written");
            let hangups = Hangups::listen().expect("a handler");
            let watch = FileWatch::new([file.clone()]);
            Self { folder, file, hangups, watch }
        }
    }

    /// Reads the file at the next signal or change. No test sends a signal.
    async fn next(watch: &mut FileWatch, hangups: &Hangups) -> Result<String, String> {
        let file = watch.files[0].clone();
        let read = move || fs::read_to_string(&file).map_err(|error| error.kind().to_string());
        watch.next(hangups, read).await
    }

    /// Advances the paused clock: tokio does not while a blocking thread hangs.
    async fn advancing<T>(work: impl Future<Output = T>) -> T {
        let advance = async {
            loop {
                tokio::time::advance(Duration::from_secs(1)).await;
            }
        };
        tokio::select! {
            done = work => done,
            never = advance => never,
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_changed_file_is_read_once_and_only_when_it_rests() {
        let Watched { folder, file, hangups, mut watch } = Watched::new();
        assert!(timeout(LONG, next(&mut watch, &hangups)).await.is_err(), "nothing changed");

        let other = folder.path().join("next");
        fs::write(&other, "two").expect("written");
        fs::rename(&other, &file).expect("replaced");
        let began = Instant::now();
        assert_eq!(next(&mut watch, &hangups).await, Ok("two".into()));
        assert!(began.elapsed() >= 2 * POLL_EVERY, "it may be half written at the first poll");
        assert!(timeout(LONG, next(&mut watch, &hangups)).await.is_err(), "read already");

        fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).expect("changed");
        assert_eq!(next(&mut watch, &hangups).await, Ok("two".into()), "its mode changed");
    }

    #[tokio::test(start_paused = true)]
    async fn a_failure_is_told_once_and_tried_again() {
        let Watched { folder: _folder, file, hangups, mut watch } = Watched::new();
        fs::remove_file(&file).expect("removed");
        assert_eq!(next(&mut watch, &hangups).await, Err("entity not found".into()));
        assert!(timeout(LONG, next(&mut watch, &hangups)).await.is_err(), "told already");
        // A read may fail although the stamp is that of a good one.
        fs::write(&file, "three").expect("written");
        let failed: Result<(), _> = watch.next(&hangups, || Err("an I/O error".into())).await;
        assert_eq!(failed, Err("an I/O error".into()));
        assert_eq!(next(&mut watch, &hangups).await, Ok("three".into()));
    }

    #[tokio::test(start_paused = true)]
    async fn a_file_system_that_hangs_is_told_once_and_tried_again() {
        let Watched { folder: _folder, file, hangups, mut watch } = Watched::new();
        let ends = hang(&watch.reads).await;
        let told = advancing(next(&mut watch, &hangups)).await;
        assert_eq!(told, Err(format!("{}: not read within 5s", file.display())));
        let again = timeout(LONG, next(&mut watch, &hangups));
        assert!(advancing(again).await.is_err(), "told already");
        drop(ends);
        assert_eq!(next(&mut watch, &hangups).await, Ok("one".into()));
    }
}
