//! `raindrop serve`: runs the service.

use std::{net::SocketAddr, sync::Arc};

use tokio::{net::TcpListener, runtime::Builder};

use super::{failure::Failure, store::block_on};
use crate::{
    config::Config,
    process::{clock::RememberingClock, shutdown, telemetry},
    server::{ServeError, Service, most_connections},
    store::{self, with_sources},
};

/// Open files that are not client connections: those of operators on either listener, the store's,
/// the listeners', the runtime's.
#[cfg(unix)]
const OTHER_FILES: u64 = 192;

pub(super) fn run(config: Config) -> Result<(), Failure> {
    // Dropped last, when the last lines are queued.
    let _logging = telemetry::start(&config.log)?;
    forbid_core_dumps();
    let mut runtime = Builder::new_multi_thread();
    // With more connections ready than a worker's queue holds, 256, the rest wait in a queue that
    // all workers share. By default that is looked at so seldom that some clients wait 30 times as
    // long as others.
    runtime.global_queue_interval(2).event_interval(128);
    block_on(runtime, serve(config))
}

async fn serve(mut config: Config) -> Result<(), Failure> {
    let shutdown = shutdown::signals()?;
    let listener = bind("http.listen", config.http.listen).await?;
    let admin_listener = match config.http.admin_listen {
        Some(address) => Some(bind("http.admin_listen", address).await?),
        None => None,
    };
    config.http.max_connections = Some(raise_open_files(most_connections(&config.http)));
    let clock = Arc::new(RememberingClock::start());
    let store = store::connect(&config.store, clock.clone())?;
    let service = Service { config, listener, admin_listener, store, clock };
    service.run(shutdown).await.map_err(|error| match error {
        error @ (ServeError::Keepers(_) | ServeError::Tls(_)) => Failure::usage(error),
        ServeError::Tokens(error) => error.into(),
        ServeError::StateFile(error) => error.into(),
        error => Failure::Failed(with_sources(&error)),
    })
}

async fn bind(key: &str, address: SocketAddr) -> Result<TcpListener, Failure> {
    let bound = TcpListener::bind(address).await;
    bound.map_err(|error| Failure::Failed(format!("{key} = {address}: {error}")))
}

/// Keeps passwords and private keys, which are in memory, off the disk. The hard limit stays, so that
/// an operator can allow core dumps again with `prlimit`.
#[cfg(unix)]
fn forbid_core_dumps() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

    let forbidden = Rlimit { current: Some(0), ..getrlimit(Resource::Core) };
    if let Err(error) = setrlimit(Resource::Core, forbidden) {
        tracing::warn!(%error, "core dumps cannot be switched off");
    }
}

#[cfg(not(unix))]
fn forbid_core_dumps() {}

/// Raises the limit of open files, which is 1024 on many systems, and returns how many connections
/// fit: fewer than configured where no files would be left for the store and for operators.
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
