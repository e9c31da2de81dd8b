//! Reloads the tokens at SIGHUP, and when their file changes.

use std::sync::Arc;

use super::{Auth, watch::Watch};
use crate::{core::clock::Clock, process::hangup::Hangups};

impl Auth {
    /// Reloads the tokens at each signal and each change of their file.
    pub(crate) async fn follow(self: &Arc<Self>, hangups: &Hangups, clock: &dyn Clock) {
        let mut watch = Watch::new(self.file.clone(), self.stamp.clone());
        loop {
            tokio::select! {
                () = hangups.next() => {}
                () = watch.changed() => {}
            }
            match self.read_again(&mut watch).await {
                Ok(()) => {
                    tracing::info!(tokens = self.count(), "tokens reloaded");
                    self.warn_of_expiry(clock.now_ms());
                }
                Err(reason) => {
                    tracing::error!("token reload failed, keeping the previous tokens: {reason}");
                }
            }
        }
    }

    /// Reads the file again; the tokens stay as they are if that fails.
    async fn read_again(self: &Arc<Self>, watch: &mut Watch) -> Result<(), String> {
        let reading = Arc::clone(self);
        let read = watch.read(move || reading.read()).await;
        let read = read.map_err(|reason| format!("{}: {reason}", self.file.display()))?;
        let tokens = read.map_err(|error| error.to_string().replace('\n', "; "))?;
        self.tokens.store(tokens.into());
        Ok(())
    }
}

#[cfg(all(test, unix))]
mod tests {
    use std::fs;

    use super::*;
    use crate::{auth::tests::entry, process::reading::tests::late};

    #[tokio::test(start_paused = true)]
    async fn a_file_that_never_answers_is_told_in_time_and_keeps_one_thread() {
        let folder = tempfile::tempdir().expect("a folder");
        let [path, next] = ["tokens.toml", "next"].map(|name| folder.path().join(name));
        fs::write(&path, entry("old", "old")).expect("written");
        let auth = Arc::new(Auth::open(&path, ["default"]).expect("valid"));
        let mut watch = Watch::new(auth.file.clone(), auth.stamp.clone());
        fs::write(&next, entry("one", "1") + &entry("two", "2")).expect("written");
        fs::remove_file(&path).expect("removed");
        rustix::fs::mkfifoat(rustix::fs::CWD, &path, 0o600.into()).expect("a FIFO");
        let first = late(auth.read_again(&mut watch)).await;
        let second = late(auth.read_again(&mut watch)).await;
        let held = Arc::strong_count(&auth);
        // A thread that waits in the end would be waited for, so nothing fails before it ends.
        drop(fs::OpenOptions::new().write(true).open(&path).expect("there is a reader"));
        fs::rename(&next, &path).expect("replaced");
        assert_eq!(first, Err(format!("{}: not read within 5s", path.display())));
        assert_eq!(second, first);
        assert_eq!(held, 2, "the test and one thread");
        assert_eq!(auth.read_again(&mut watch).await, Ok(()));
        assert_eq!(auth.count(), 2);
    }
}
