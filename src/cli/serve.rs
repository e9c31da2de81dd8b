//! `raindrop serve`: runs the service.

use std::{
    io,
    net::{Ipv4Addr, Ipv6Addr, SocketAddr},
    num::NonZero,
    sync::{Arc, Mutex},
    thread::{self, available_parallelism},
};

use tokio::{net::TcpListener, runtime::Builder};

use super::{failure::Failure, store::block_on};
#[cfg(feature = "otel")]
use crate::process::traces;
use crate::{
    config::{Config, LogFormat},
    process::{RememberingClock, file_watch, service_manager::ServiceManager, shutdown, telemetry},
    server::{Service, most_connections},
    store,
};

/// The number of open files that are not connections of clients: those of operators' connections,
/// the store, the listeners and the runtime.
#[cfg(unix)]
const OTHER_FILES: u64 = 192;

/// The number of threads beside those of the runtime: for SQLite, reads of files, and the end of
/// the log.
const OTHER_THREADS: usize = 8;

pub(super) fn run(config: Config) -> Result<(), Failure> {
    check_threads()?;
    #[cfg(feature = "otel")]
    traces::start().map_err(Failure::usage)?;
    // Dropped last, after the last lines were queued.
    let _logging = telemetry::start(&config.log)?;
    let mut runtime = Builder::new_multi_thread();
    // If more than 256 connections are ready, those beyond a worker's queue wait in the global
    // queue. By default, workers poll that so rarely that some clients wait 30 times as long as
    // others.
    runtime.global_queue_interval(2).event_interval(128);
    let is_json = config.log.format == LogFormat::Json;
    block_on(runtime, serve(config)).map_err(|failure| {
        // What reads the log reads objects; without errors in it, the text is printed.
        if !is_json || !tracing::enabled!(tracing::Level::ERROR) {
            return failure;
        }
        tracing::error!(error = failure.text(), "the service ends");
        Failure::Logged(Box::new(failure))
    })
}

async fn serve(mut config: Config) -> Result<(), Failure> {
    let shutdown = shutdown::signals()?;
    if config.tokens_file.is_none() && config.http.tls.is_none() {
        file_watch::nothing_to_reload()?;
    }
    let listener = bind("http.listen", config.http.listen).await?;
    let admin_listener = match config.http.admin_listen {
        Some(address) => Some(bind("http.admin_listen", address).await?),
        None => None,
    };
    config.http.max_connections = Some(raise_open_files(most_connections(&config.http)));
    let clock = Arc::new(RememberingClock::start());
    let store = store::connect(&config.store, clock.clone())?;
    let manager = ServiceManager::of_environment();
    let service = Service { config, listener, admin_listener, store, clock, manager };
    service.run(shutdown).await.map_err(Failure::from)
}

async fn bind(key: &str, address: SocketAddr) -> Result<TcpListener, Failure> {
    let failed = |error| Failure::Failed(format!("{key} = {address}: {error}"));
    match TcpListener::bind(address).await {
        Err(error) if address.ip() == Ipv6Addr::UNSPECIFIED && is_without_ipv6(&error) => {
            let every = SocketAddr::from((Ipv4Addr::UNSPECIFIED, address.port()));
            tracing::warn!(
                key,
                "this machine has no IPv6: listening on {every} in place of {address}"
            );
            TcpListener::bind(every).await.map_err(failed)
        }
        bound => bound.map_err(failed),
    }
}

/// Returns whether the kernel has no IPv6 (`ipv6.disable=1`).
#[cfg(unix)]
pub(super) fn is_without_ipv6(error: &io::Error) -> bool {
    error.raw_os_error() == Some(rustix::io::Errno::AFNOSUPPORT.raw_os_error())
}

#[cfg(not(unix))]
pub(super) const fn is_without_ipv6(_: &io::Error) -> bool {
    false
}

/// Refuses to start if the process may have fewer threads than the service needs. Otherwise the
/// runtime would panic, or the store fail later.
fn check_threads() -> Result<(), Failure> {
    // The same number that the runtime computes.
    let chosen = std::env::var("TOKIO_WORKER_THREADS").ok().and_then(|count| count.parse().ok());
    let workers = chosen.unwrap_or_else(|| available_parallelism().map_or(1, NonZero::get));
    let needed = workers + OTHER_THREADS;
    let gate = Arc::new(Mutex::new(()));
    let closed = gate.lock();
    let start = |_| {
        let gate = Arc::clone(&gate);
        thread::Builder::new().spawn(move || drop(gate.lock()))
    };
    let (mut started, mut failure) = (Vec::new(), None);
    for thread in (0..needed).map(start) {
        match thread {
            Ok(thread) => started.push(thread),
            Err(error) => failure = Some(error),
        }
    }
    drop(closed);
    let count = started.len();
    // Only now: the threads must exist at the same time to count.
    started.into_iter().for_each(|thread| drop(thread.join()));
    match failure {
        None => Ok(()),
        Some(error) => Err(Failure::Failed(format!(
            "only {count} of the {needed} threads that the service needs can be started: {error}; \
             raise the limit of processes (ulimit -u, or pids.max of the container)"
        ))),
    }
}

/// Raises the limit of open files, which is 1024 on many systems. Returns how many connections fit,
/// which are fewer than configured if the store and operators would have no files left.
#[cfg(unix)]
fn raise_open_files(max_connections: usize) -> usize {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit { current: limit.maximum, ..limit };
    let allowed = setrlimit(Resource::Nofile, raised).map_or(limit.current, |()| limit.maximum);
    let needed = max_connections as u64 + OTHER_FILES;
    let Some(allowed) = allowed.filter(|allowed| *allowed < needed) else {
        return max_connections;
    };
    let connections = allowed.saturating_sub(OTHER_FILES).max(allowed / 2);
    tracing::warn!(
        allowed,
        needed,
        connections,
        "the limit of open files (ulimit -n) is below what http.max_connections needs: accepting \
         fewer connections"
    );
    usize::try_from(connections).unwrap_or(max_connections)
}

#[cfg(not(unix))]
fn raise_open_files(max_connections: usize) -> usize {
    max_connections
}
