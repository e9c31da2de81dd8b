//! Reloads the tokens at SIGHUP.

use std::{io, sync::Arc, time::Duration};

#[cfg(unix)]
use tokio::{
    signal::unix::{Signal, SignalKind, signal},
    sync::Mutex,
};

use super::Auth;

/// How long reading the file may take: it may be on a network, or not a file at all.
const PATIENCE: Duration = Duration::from_secs(5);

/// The stream of SIGHUPs; none is lost while no task waits.
#[derive(Debug)]
pub(in crate::server) struct Hangups(#[cfg(unix)] Mutex<Signal>);

#[cfg(unix)]
impl Hangups {
    /// Begins to listen; fails when the signal cannot be listened to.
    pub(in crate::server) fn listen() -> io::Result<Self> {
        Ok(Self(Mutex::new(signal(SignalKind::hangup())?)))
    }

    /// Reloads the tokens at each signal.
    pub(in crate::server) async fn reload(&self, auth: &Arc<Auth>) {
        let mut hangups = self.0.lock().await;
        while hangups.recv().await.is_some() {
            let reading = Arc::clone(auth);
            let read = tokio::task::spawn_blocking(move || reading.read());
            // A result that comes too late is dropped: a later reload may have brought newer tokens.
            let reason = match tokio::time::timeout(PATIENCE, read).await {
                Ok(Ok(Ok(tokens))) => {
                    auth.tokens.store(tokens.into());
                    tracing::info!(tokens = auth.count(), "tokens reloaded");
                    continue;
                }
                Ok(Ok(Err(error))) => error.to_string().replace('\n', "; "),
                Ok(Err(error)) => error.to_string(),
                Err(_) => format!("{} was not read within {PATIENCE:?}", auth.file.display()),
            };
            tracing::error!("token reload failed, keeping the previous tokens: {reason}");
        }
    }
}

/// Other systems have no such signal.
#[cfg(not(unix))]
impl Hangups {
    pub(in crate::server) fn listen() -> io::Result<Self> {
        Ok(Self())
    }

    pub(in crate::server) async fn reload(&self, _: &Arc<Auth>) {}
}
