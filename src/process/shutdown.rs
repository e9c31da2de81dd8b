//! Signals that stop the service, and signals that must not kill it.
//!
//! The first SIGTERM, SIGINT or SIGQUIT starts an orderly stop, and a second one ends the process
//! at once. Tools that signal a process and then its group send two signals for one order, so
//! signals within 300 ms of the first count as the same. Signals such as SIGUSR1, whose default
//! would kill the process while it holds a lease, do nothing.

use std::{future::Future, time::Duration};

#[cfg(unix)]
use rustix::process::Signal as Kind;
#[cfg(unix)]
use tokio::{
    signal::unix::{Signal, SignalKind, signal},
    sync::oneshot,
};

#[cfg(unix)]
use super::telemetry::{flush, log_safely};

/// Signals that follow the first one within this time count as the same order.
const ECHO: Duration = Duration::from_millis(300);

/// Signals that would kill the process by default while it holds a lease. Programs that rotate
/// logs, measure a process or limit the size of files send them. With SIGXFSZ ignored, a write
/// beyond that size fails.
#[cfg(unix)]
const IGNORED: [Kind; 6] =
    [Kind::USR1, Kind::USR2, Kind::ALARM, Kind::VTALARM, Kind::PROF, Kind::XFSZ];

/// Resolves on the first SIGTERM, SIGINT or SIGQUIT. A second one, more than 300 ms later, ends the
/// process at once with exit code 1. From this call on, signals such as SIGUSR1 do nothing.
///
/// # Errors
///
/// When the operating system refuses a handler.
#[cfg(unix)]
pub fn signals() -> std::io::Result<impl Future<Output = ()> + Send> {
    for ignored in IGNORED {
        // The handler stays installed when its stream is dropped.
        drop(signal(SignalKind::from_raw(ignored.as_raw()))?);
    }
    let stops = Stops {
        terminate: signal(SignalKind::terminate())?,
        interrupt: signal(SignalKind::interrupt())?,
        quit: signal(SignalKind::quit())?,
    };
    let (first, stopping) = oneshot::channel();
    let task = tokio::spawn(watch(stops, first, || std::process::exit(1)));
    Ok(async move {
        if stopping.await.is_ok() {
            return;
        }
        // Pass a panic on: no other task waits for this one, and signals would no longer stop the
        // service.
        if let Err(error) = task.await
            && let Ok(panic) = error.try_into_panic()
        {
            std::panic::resume_unwind(panic);
        }
        // The runtime is ending.
        std::future::pending::<()>().await;
    })
}

/// The streams of the signals that stop the service.
#[cfg(unix)]
struct Stops {
    terminate: Signal,
    interrupt: Signal,
    quit: Signal,
}

#[cfg(unix)]
impl Stops {
    /// Waits for the next signal, and returns its name.
    async fn next(&mut self) -> &'static str {
        tokio::select! {
            _ = self.terminate.recv() => "SIGTERM",
            _ = self.interrupt.recv() => "SIGINT",
            _ = self.quit.recv() => "SIGQUIT",
        }
    }
}

/// Makes SIGTERM, SIGINT, SIGQUIT and SIGHUP end this process if it is process 1, as in a
/// container: the kernel applies the default action to all other processes only. The exit code is
/// 128 plus the number of the signal, as in a shell.
///
/// # Errors
///
/// When the operating system refuses a handler or a thread.
#[cfg(unix)]
pub fn end_by_signals_as_process_1() -> std::io::Result<()> {
    if std::process::id() != 1 {
        return Ok(());
    }
    let kinds = [
        SignalKind::terminate(),
        SignalKind::interrupt(),
        SignalKind::quit(),
        SignalKind::hangup(),
    ];
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build()?;
    let entered = runtime.enter();
    let mut listened = Vec::new();
    for kind in kinds {
        listened.push((128 + kind.as_raw_value(), signal(kind)?));
    }
    drop(entered);
    // In a thread: the command may be waiting for a person or a file system.
    std::thread::Builder::new().name("signals".to_owned()).spawn(move || {
        runtime.block_on(std::future::poll_fn(|context| {
            for (code, signal) in &mut listened {
                if signal.poll_recv(context).is_ready() {
                    std::process::exit(*code);
                }
            }
            std::task::Poll::<()>::Pending
        }));
    })?;
    Ok(())
}

/// Does nothing: on other systems the signals end every process.
#[cfg(not(unix))]
pub fn end_by_signals_as_process_1() -> std::io::Result<()> {
    Ok(())
}

/// Reports the first signal to `first`, and calls `exit` on the second.
#[cfg(unix)]
async fn watch(mut stops: Stops, first: oneshot::Sender<()>, exit: impl FnOnce()) {
    let signal = stops.next().await;
    // This fails if the service is already ending for another reason.
    let _ = first.send(());
    log_safely(|| tracing::info!(signal, "stopping"));
    // Ignore echoes: some tools signal a process and then its group.
    let echo = tokio::time::Instant::now() + ECHO;
    while tokio::time::timeout_at(echo, stops.next()).await.is_ok() {}
    let signal = stops.next().await;
    log_safely(|| {
        tracing::warn!(signal, "stopped at once, worker id not released; it is free after its ttl");
    });
    flush();
    exit();
}

/// Resolves on the first Ctrl-C. A second one ends the process at once with exit code 1. Never
/// fails.
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
    use rustix::process::{getpid, kill_process};
    use tracing::{Event, Metadata, Subscriber, span};

    use super::*;

    /// Panics, as a process does whose standard error cannot be written.
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
        // Stand for those that stop, which other tests may use.
        let stops = Stops {
            terminate: signal(SignalKind::user_defined1()).expect("a signal"),
            interrupt: signal(SignalKind::user_defined2()).expect("a signal"),
            quit: signal(SignalKind::window_change()).expect("a signal"),
        };
        let (first, stopping) = oneshot::channel();
        let (exit, exiting) = oneshot::channel();
        let task = tokio::spawn(watch(stops, first, || exit.send(()).expect("listening")));

        kill_process(getpid(), Kind::USR1).expect("this process runs");
        stopping.await.expect("the first signal is passed on");
        // Those that follow at once belong to the first.
        let raise = async {
            loop {
                kill_process(getpid(), Kind::USR2).expect("this process runs");
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
