//! Signals that stop the service.

use std::{future::Future, time::Duration};

#[cfg(unix)]
use tokio::{
    signal::unix::{Signal, SignalKind, signal},
    sync::oneshot,
};

#[cfg(unix)]
use super::telemetry::{flush, log_safely};

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
    let (terminate, interrupt) =
        (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    let (first, stopping) = oneshot::channel();
    let task = tokio::spawn(watch(terminate, interrupt, first, || std::process::exit(1)));
    Ok(async move {
        if stopping.await.is_ok() {
            return;
        }
        // Nobody else would learn that signals are not seen any more.
        if let Err(error) = task.await
            && let Ok(panic) = error.try_into_panic()
        {
            std::panic::resume_unwind(panic);
        }
        // The runtime is ending.
        std::future::pending::<()>().await;
    })
}

/// Passes the first signal on, and calls `exit` at the second.
#[cfg(unix)]
async fn watch(
    mut terminate: Signal,
    mut interrupt: Signal,
    first: oneshot::Sender<()>,
    exit: impl FnOnce(),
) {
    let mut next = async || {
        tokio::select! {
            _ = terminate.recv() => "SIGTERM",
            _ = interrupt.recv() => "SIGINT",
        }
    };
    let signal = next().await;
    // A service that is ending by itself does not wait for it.
    let _ = first.send(());
    log_safely(|| tracing::info!(signal, "stopping"));
    // Some tools signal a process and then its group: that is one order to stop.
    let echo = tokio::time::Instant::now() + ECHO;
    while tokio::time::timeout_at(echo, next()).await.is_ok() {}
    let signal = next().await;
    log_safely(|| {
        tracing::warn!(signal, "stopped at once, worker id not released; it is free after its ttl");
    });
    flush();
    exit();
}

/// Resolves at the first Ctrl-C. A second one ends the process at once, with 1. Never fails here.
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

#[cfg(all(test, unix))]
mod tests {
    use rustix::process::{Signal as Kill, getpid, kill_process};
    use tracing::{Event, Metadata, Subscriber, span};

    use super::*;

    /// As one whose standard error cannot be written.
    struct Panicking;

    impl Subscriber for Panicking {
        fn enabled(&self, _: &Metadata<'_>) -> bool {
            true
        }

        fn new_span(&self, _: &span::Attributes<'_>) -> span::Id {
            span::Id::from_u64(1)
        }

        fn record(&self, _: &span::Id, _: &span::Record<'_>) {}

        fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}

        fn event(&self, _: &Event<'_>) {
            panic!("planted by a test")
        }

        fn enter(&self, _: &span::Id) {}

        fn exit(&self, _: &span::Id) {}
    }

    #[tokio::test]
    async fn both_signals_are_obeyed_although_logging_panics() {
        let _panicking = tracing::subscriber::set_default(Panicking);
        // Stand for SIGTERM and SIGINT, which other tests may use.
        let one = signal(SignalKind::user_defined1()).expect("a signal");
        let other = signal(SignalKind::user_defined2()).expect("a signal");
        let (first, stopping) = oneshot::channel();
        let (exit, exiting) = oneshot::channel();
        let task = tokio::spawn(watch(one, other, first, || exit.send(()).expect("listening")));

        kill_process(getpid(), Kill::USR1).expect("this process runs");
        stopping.await.expect("the first signal is passed on");
        // Those that follow at once belong to the first.
        let raise = async {
            loop {
                kill_process(getpid(), Kill::USR2).expect("this process runs");
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        tokio::select! {
            exited = exiting => exited.expect("the second signal ends the process"),
            () = raise => {}
        }
        task.await.expect("no panic");
    }
}
