//! The signal SIGHUP, at which files are read again.

use std::io;

#[cfg(unix)]
use tokio::{
    signal::unix::{Signal, SignalKind, signal},
    sync::Mutex,
};

use super::telemetry::log_safely;

/// Logs each SIGHUP, at a service without anything to read again: the signal would end it, with its
/// lease held.
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

/// The stream of SIGHUPs; none is lost while no task waits. Other systems have no such signal.
#[derive(Debug)]
pub(crate) struct Hangups(#[cfg(unix)] Mutex<Signal>);

impl Hangups {
    /// Begins to listen; fails when the signal cannot be listened to.
    pub(crate) fn listen() -> io::Result<Self> {
        Ok(Self(
            #[cfg(unix)]
            Mutex::new(signal(SignalKind::hangup())?),
        ))
    }

    /// Resolves at the next signal; pending where there is none.
    pub(crate) async fn next(&self) {
        #[cfg(unix)]
        if self.0.lock().await.recv().await.is_some() {
            return;
        }
        std::future::pending::<()>().await;
    }
}
