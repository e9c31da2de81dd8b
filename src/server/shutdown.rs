//! Signals that stop the service.

use std::{future::Future, time::Duration};

/// Signals that follow the first within this time belong to it.
const ECHO: Duration = Duration::from_millis(300);

/// Resolves at the first SIGTERM or SIGINT. A second one ends the process at once, with 1; one
/// within 300 ms of the first belongs to it.
///
/// # Errors
///
/// When the signals cannot be listened to.
#[cfg(unix)]
pub fn signals() -> std::io::Result<impl Future<Output = ()> + Send> {
    use tokio::signal::unix::{SignalKind, signal};

    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut next = async move || {
        tokio::select! {
            _ = terminate.recv() => "SIGTERM",
            _ = interrupt.recv() => "SIGINT",
        }
    };
    let (first, stopping) = tokio::sync::oneshot::channel();
    tokio::spawn(async move {
        let signal = next().await;
        tracing::info!(signal, "stopping");
        if first.send(()).is_err() {
            return;
        }
        // Some tools signal a process and then its group: that is one order to stop.
        let echo = tokio::time::Instant::now() + ECHO;
        while tokio::time::timeout_at(echo, next()).await.is_ok() {}
        let signal = next().await;
        tracing::warn!(signal, "stopped at once; the worker id comes free after its ttl");
        std::process::exit(1);
    });
    Ok(async move {
        // The sender lives as long as the runtime, and nobody waits longer than that.
        if stopping.await.is_err() {
            std::future::pending::<()>().await;
        }
    })
}

/// Resolves at the first Ctrl-C. A second one ends the process at once, with 1.
///
/// # Errors
///
/// Never here.
#[cfg(not(unix))]
pub fn signals() -> std::io::Result<impl Future<Output = ()> + Send> {
    Ok(async {
        if tokio::signal::ctrl_c().await.is_err() {
            std::future::pending::<()>().await;
        }
        tokio::spawn(async {
            if tokio::signal::ctrl_c().await.is_ok() {
                std::process::exit(1);
            }
        });
    })
}
