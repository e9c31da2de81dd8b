//! Reads the tokens again when the process is told to.

use std::{io, sync::Arc, time::Duration};

#[cfg(unix)]
use tokio::{
    signal::unix::{Signal, SignalKind, signal},
    sync::Mutex,
};

use super::Auth;

/// How long reading the file may take: it may be far away, and no file at all.
const PATIENCE: Duration = Duration::from_secs(5);

/// Every SIGHUP, also those that come while nobody waits.
#[derive(Debug)]
pub(in crate::server) struct Hangups(#[cfg(unix)] Mutex<Signal>);

#[cfg(unix)]
impl Hangups {
    /// Listens from now on.
    ///
    /// # Errors
    ///
    /// When the signal cannot be listened to.
    pub(in crate::server) fn listen() -> io::Result<Self> {
        Ok(Self(Mutex::new(signal(SignalKind::hangup())?)))
    }

    /// Reads the tokens again at each, as long as it is polled.
    pub(in crate::server) async fn reload(&self, auth: &Arc<Auth>) {
        let mut hangups = self.0.lock().await;
        while hangups.recv().await.is_some() {
            let reading = Arc::clone(auth);
            let read = tokio::task::spawn_blocking(move || reading.read());
            // What is read too late is dropped: a later reading may have brought newer tokens.
            match tokio::time::timeout(PATIENCE, read).await {
                Ok(Ok(Ok(tokens))) => {
                    auth.replace(tokens);
                    tracing::info!(tokens = auth.count(), "the tokens were read again");
                }
                Ok(Ok(Err(error))) => {
                    let problems = error.to_string().replace('\n', "; ");
                    tracing::error!("the tokens stay as they were: {problems}");
                }
                Ok(Err(error)) => tracing::error!(%error, "the tokens stay as they were"),
                Err(_) => tracing::error!(
                    "the tokens stay as they were: {} was not read within {PATIENCE:?}",
                    auth.file().display()
                ),
            }
        }
    }
}

/// Nothing tells this system's processes to read again.
#[cfg(not(unix))]
impl Hangups {
    pub(in crate::server) fn listen() -> io::Result<Self> {
        Ok(Self())
    }

    pub(in crate::server) async fn reload(&self, _: &Arc<Auth>) {}
}
