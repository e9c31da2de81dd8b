//! Reloads the tokens at SIGHUP, and when their file changes.

use std::{sync::Arc, time::Duration};

use super::{Auth, watch::Watch};
use crate::{core::clock::Clock, process::hangup::Hangups};

/// How long reading the file may take: it may be on a network, or not a file at all.
const PATIENCE: Duration = Duration::from_secs(5);

impl Auth {
    /// Reloads the tokens at each signal and each change of their file.
    pub(crate) async fn follow(self: &Arc<Self>, hangups: &Hangups, clock: &dyn Clock) {
        let mut watch = Watch::new(self.file.clone(), self.stamp.clone());
        loop {
            tokio::select! {
                () = hangups.next() => {}
                () = watch.changed() => {}
            }
            watch.begin_read().await;
            self.reload_and_log(clock).await;
        }
    }

    /// Reads the file again; the tokens stay as they are if that fails.
    async fn reload_and_log(self: &Arc<Self>, clock: &dyn Clock) {
        let reading = Arc::clone(self);
        let read = tokio::task::spawn_blocking(move || reading.read());
        // A result that comes too late is dropped: a later reload may have brought newer tokens.
        let reason = match tokio::time::timeout(PATIENCE, read).await {
            Ok(Ok(Ok(tokens))) => {
                self.tokens.store(tokens.into());
                tracing::info!(tokens = self.count(), "tokens reloaded");
                return self.warn_of_expiry(clock.now_ms());
            }
            Ok(Ok(Err(error))) => error.to_string().replace('\n', "; "),
            Ok(Err(error)) => error.to_string(),
            Err(_) => format!("{} was not read within {PATIENCE:?}", self.file.display()),
        };
        tracing::error!("token reload failed, keeping the previous tokens: {reason}");
    }
}
