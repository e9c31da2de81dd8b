//! Reads the tokens again when the process is told to.

use std::{io, sync::Arc, time::Duration};

use super::Auth;

/// How long reading the file may take: it may be far away, and no file at all.
const PATIENCE: Duration = Duration::from_secs(5);

/// Reads the tokens again at every SIGHUP, as long as it is polled.
///
/// # Errors
///
/// When the signal cannot be listened to.
#[cfg(unix)]
pub(in crate::server) fn on_hangup(auth: Arc<Auth>) -> io::Result<impl Future<Output = ()> + Send> {
    use tokio::signal::unix::{SignalKind, signal};

    let mut hangup = signal(SignalKind::hangup())?;
    Ok(async move {
        while hangup.recv().await.is_some() {
            let reading = Arc::clone(&auth);
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
    })
}

/// Nothing tells this system's processes to read again.
///
/// # Errors
///
/// Never here.
#[cfg(not(unix))]
pub(in crate::server) fn on_hangup(_: Arc<Auth>) -> io::Result<impl Future<Output = ()> + Send> {
    Ok(std::future::ready(()))
}
