//! The signal SIGHUP, on which the service reads files again.

use std::io;

#[cfg(unix)]
use tokio::{
    signal::unix::{Signal, SignalKind, signal},
    sync::Mutex,
};

use super::telemetry::log_safely;

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
