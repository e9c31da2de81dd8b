//! The signal SIGHUP, at which files are read again.

use std::io;

#[cfg(unix)]
use tokio::{
    signal::unix::{Signal, SignalKind, signal},
    sync::Mutex,
};

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
