//! Reloads the tokens on SIGHUP, and when their file changes.

use std::sync::{Arc, atomic::Ordering};

use super::{Auth, watch::Watch};
use crate::{core::clock::Clock, process::hangup::Hangups};

impl Auth {
    /// Reloads the tokens on each signal and each change of their file. Never returns.
    pub(crate) async fn follow(self: &Arc<Self>, hangups: &Hangups, clock: &dyn Clock) {
        let mut watch = Watch::new(self.file.clone(), self.stamp.clone());
        loop {
            tokio::select! {
                () = hangups.next() => {}
                () = watch.changed() => {}
            }
            let read = self.read_again(&mut watch).await;
            self.is_stale.store(read.is_err(), Ordering::Relaxed);
            match read {
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

    /// Reads the file again. If that fails, the previous tokens stay in force.
    async fn read_again(self: &Arc<Self>, watch: &mut Watch) -> Result<(), String> {
        let reading = Arc::clone(self);
        let read = watch.read(move || reading.read()).await;
        let read = read.map_err(|reason| format!("{}: {reason}", self.file.display()))?;
        let tokens = read.map_err(|error| error.to_string().replace('\n', "; "))?;
        self.tokens.store(tokens.into());
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::{
        auth::tests::entry,
        process::reading::tests::{hang, late},
    };

    #[tokio::test(start_paused = true)]
    async fn a_file_that_never_answers_is_told_in_time() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("tokens.toml");
        fs::write(&path, entry("old", "old")).expect("written");
        let auth = Arc::new(Auth::open(&path, ["default"]).expect("valid"));
        let mut watch = Watch::new(auth.file.clone(), auth.stamp.clone());
        fs::write(&path, entry("one", "1") + &entry("two", "2")).expect("written");
        let mut ends = hang(&watch.reads).await;
        let told = late(auth.read_again(&mut watch)).await;
        assert_eq!(told, Err(format!("{}: not read within 5s", path.display())));
        ends.pop();
        assert_eq!(auth.read_again(&mut watch).await, Ok(()));
        assert_eq!(auth.count(), 2);
    }
}
