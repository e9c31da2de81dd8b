//! Reloads the tokens at SIGHUP, and when their file changes.

use std::{io, sync::Arc, time::Duration};

#[cfg(unix)]
use tokio::{
    signal::unix::{Signal, SignalKind, signal},
    sync::Mutex,
};

use super::{Auth, watch::Watch};
use crate::core::clock::Clock;

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

    /// Reloads the tokens at each signal and each change of their file.
    pub(in crate::server) async fn reload(&self, auth: &Arc<Auth>, clock: &dyn Clock) {
        let mut hangups = self.0.lock().await;
        let mut watch = Watch::new(auth.file.clone(), auth.stamp.clone());
        loop {
            tokio::select! {
                Some(()) = hangups.recv() => {}
                () = watch.changed() => {}
            }
            watch.begin_read().await;
            auth.reload_and_log(clock).await;
        }
    }
}

/// Other systems have no such signal.
#[cfg(not(unix))]
impl Hangups {
    pub(in crate::server) fn listen() -> io::Result<Self> {
        Ok(Self())
    }

    pub(in crate::server) async fn reload(&self, auth: &Arc<Auth>, clock: &dyn Clock) {
        let mut watch = Watch::new(auth.file.clone(), auth.stamp.clone());
        loop {
            watch.changed().await;
            watch.begin_read().await;
            auth.reload_and_log(clock).await;
        }
    }
}

impl Auth {
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
