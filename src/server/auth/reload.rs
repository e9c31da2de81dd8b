//! Reads the tokens again when the process is told to.

use std::{io, sync::Arc};

use super::Auth;

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
            // The file may be far away.
            let read = tokio::task::spawn_blocking(move || reading.reload()).await;
            match read {
                Ok(Ok(())) => tracing::info!(tokens = auth.count(), "the tokens were read again"),
                Ok(Err(error)) => {
                    let problems = error.to_string().replace('\n', "; ");
                    tracing::error!("the tokens stay as they were: {problems}");
                }
                Err(error) => tracing::error!(%error, "the tokens stay as they were"),
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
