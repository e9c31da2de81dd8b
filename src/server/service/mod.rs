//! Starts the service, serves, and stops it in order.
//!
//! The order matters. At the start, files are read first, so that a mistake in one ends the start
//! before anything is leased; then keepers start; then listeners, whose `/readyz` answers 503 until
//! there are leases. The stop has this order:
//!
//! 1. `/readyz` answers 503 for `http.drain_delay`, so that load balancers notice.
//! 2. The public listener finishes open requests.
//! 3. The keepers release what they hold, since no request can claim any more.
//! 4. The store is closed, and the admin listener ends last.
//!
//! `supervisor` reports tasks that fail. Tests: tests/http/serving.rs, supervision.rs and admin.rs.

mod announce;
mod keepers;
mod router;
mod supervisor;

use std::{collections::BTreeSet, convert::Infallible, future::pending, sync::Arc, time::Duration};

use futures_util::future::join_all;
use prometheus::Registry;
use tokio::{net::TcpListener, sync::watch, time::Instant};

pub use self::router::router;
use self::{
    keepers::Keepers,
    router::of_listener,
    supervisor::{Supervised, Supervisor},
};
use super::{
    audience::Listener,
    listener::{PerAddress, SPARE_PLACES, Server, Tls, TlsError},
    metrics::{Connections, Metrics, Task},
    state::AppState,
};
use crate::{
    auth::{Auth, announce as announce_auth},
    config::{Config, ConfigError},
    core::clock::Clock,
    keeper::{Backfill, KeeperError, NamespaceIssuer, StateFile, StateFileError, catch_panic},
    process::{
        BUILD, file_watch::Hangups, reading::Reads, service_manager::ServiceManager, telemetry,
    },
    store::{Store, identity, with_sources},
};

/// After this time without a lease or block, the log says why.
const LEASE_EXPECTED_WITHIN: Duration = Duration::from_secs(3);

/// After this time the service tells its manager that it is ready, although a namespace issues
/// nothing yet; `/health` says why. Otherwise the manager would end the process, as after a failed
/// start: the other namespaces would stop, and waits for a lease would begin from the start.
const READY_WITHIN: Duration = Duration::from_mins(1);

/// The parts of a service.
#[derive(Debug)]
pub struct Service {
    /// The checked configuration.
    pub config: Config,
    /// The public listener. Bind it before the service starts, so that a port in use costs no
    /// lease.
    pub listener: TcpListener,
    /// The operators' listener, if `http.admin_listen` is set; bound as early.
    pub admin_listener: Option<TcpListener>,
    /// The store of worker ids and segments.
    pub store: Arc<dyn Store>,
    /// The node's clock.
    pub clock: Arc<dyn Clock>,
    /// The service manager to tell when the service is ready, alive and stopping.
    pub manager: Option<ServiceManager>,
}

impl Service {
    /// Fails if the service cannot continue: the store has a namespace with another layout, the
    /// store's tables are not Raindrop's, the tokens cannot be read, the state file cannot be used,
    /// or a background task failed. In the last case `/livez` answers 503, and the service first
    /// stops in order.
    pub async fn run(self, shutdown: impl Future<Output = ()> + Send) -> Result<(), ServeError> {
        let manager = self.manager.clone();
        let serving = async {
            let mut running = self.start().await?;
            let ended = running.serve_until(shutdown).await;
            running.stop(&ended).await;
            ended
        };
        let Some(manager) = manager else { return serving.await };
        // In the task that supervises all others, so that this one is watched, too.
        tokio::select! {
            ended = serving => ended,
            never = manager.feed_watchdog() => match never {},
        }
    }

    async fn start(self) -> Result<Running, ServeError> {
        let Self { config, listener, admin_listener, store, clock, manager } = self;
        let address = listener.local_addr().map_err(ServeError::Listener)?;
        let reads = Reads::default();
        let of_auth = config.clone();
        let auth = read(&reads, "auth.tokens_file", move || Auth::of(&of_auth)).await?;
        let auth = auth.map_err(ServeError::Tokens)?.map(Arc::new);
        let metrics = Metrics::new();
        metrics.store_verified.set(store.is_verified().into());
        let tasks = Supervisor::new(metrics.task_failures.clone());
        let mut following = Vec::new();
        if let Some(auth) = &auth {
            let (auth, clock) = (Arc::clone(auth), Arc::clone(&clock));
            following.push(follow(&tasks, Task::TokenReload, move |hangups| {
                let (auth, clock) = (Arc::clone(&auth), Arc::clone(&clock));
                async move { auth.follow(&hangups, &*clock).await }
            })?);
        }
        let mut tls = None;
        if let Some(files) = config.http.tls.clone() {
            let tls_metrics = metrics.tls(&files);
            let loaded = read(&reads, "http.tls", move || Tls::load(files, tls_metrics)).await?;
            let loaded = Arc::new(loaded.map_err(ServeError::Tls)?);
            tls = Some(Arc::clone(&loaded));
            following.push(follow(&tasks, Task::CertificateReload, move |hangups| {
                let tls = Arc::clone(&loaded);
                async move { tls.follow(&hangups).await }
            })?);
        }
        let mut state_file = None;
        if let Some(path) = config.state_file.clone() {
            let store = identity(&config.store);
            let opened = read(&reads, "store.state_file", move || StateFile::open(&path, &store));
            state_file = Some(opened.await?.map_err(ServeError::StateFile)?);
        }
        let keepers = Keepers::start(&config, &store, &clock, &metrics, state_file.as_ref());
        let issuers = keepers.issuers();
        let codes = config.codes.clone();
        // Backfill needs a record of the IDs that were issued for a past time. A store in memory
        // forgets it at a restart, and they would be issued again.
        let forgets = config.store.url.is_memory();
        let backfills: Vec<Backfill> = config
            .keepers()
            .filter(|_| !forgets)
            .filter_map(|settings| {
                let issuer = keepers.lease_issuer(&settings.namespace)?;
                Some(Backfill::new(settings.clone(), Arc::clone(&store), issuer))
            })
            .collect();
        let mut state = AppState::new(issuers.clone(), codes, config.http.clone(), clock, metrics)
            .with_backfills(backfills)
            .with_layouts(&config)
            .with_request_log(&config.log)
            .with_cluster(Arc::clone(&store), config.store.timeout * 3, config.keepers().cloned());
        state.auth = auth;
        state.log_level = telemetry::level();
        let state = Arc::new(state);
        let recorded = Arc::clone(&state);
        following.push(tasks.restarted(Task::History, move || {
            let state = Arc::clone(&recorded);
            async move { state.record_history().await }
        }));

        // A failed listener has lost its socket and connections, so it cannot be restarted.
        let scheme = if tls.is_some() { "https" } else { "http" };
        let stop = tasks.stopping.subscribe();
        let clients = server(&state, Listener::Public, tls.clone()).run(listener, stop);
        let serving = tasks.essential(Task::PublicListener, clients);
        tracing::info!(version = BUILD.version, "listening on {scheme}://{address}");
        announce_auth(state.auth.as_deref(), address, state.clock.now_ms());
        let mut operations = None;
        if let Some(listener) = admin_listener {
            let address = listener.local_addr().map_err(ServeError::Listener)?;
            tracing::info!("metrics, health and cluster on {scheme}://{address}");
            // The admin listener ends only when its task is dropped, so that operators can watch
            // the shutdown. Without a sender, `never` stays false.
            let (_, never) = watch::channel(false);
            let operators = server(&state, Listener::Operators, tls).run(listener, never);
            operations = Some(tasks.essential(Task::AdminListener, operators));
        }
        announce::warn(&config, &*store);
        let served_at = announce::served_at(scheme, address, &config.store.url);
        // These tasks only read and log, so they can be restarted after a panic.
        let announcement = |issuer: NamespaceIssuer| {
            let served_at = served_at.clone();
            let ready = move || announce::ready(issuer.clone(), served_at.clone());
            tasks.restarted(Task::Announcement, ready)
        };
        let announcing = issuers.into_iter().map(announcement).collect();
        let running = Running {
            config,
            store,
            state,
            keepers,
            tasks,
            serving,
            operations,
            announcing,
            manager,
            _following: following,
        };
        Ok(running)
    }
}

/// A running service.
struct Running {
    config: Config,
    store: Arc<dyn Store>,
    state: Arc<AppState>,
    keepers: Keepers,
    tasks: Supervisor,
    serving: Supervised,
    /// The admin listener, dropped when everything else has stopped, so that operators can watch
    /// that.
    operations: Option<Supervised>,
    announcing: Vec<Supervised>,
    manager: Option<ServiceManager>,
    /// The tasks that follow files and record the history.
    _following: Vec<Supervised>,
}

impl Running {
    /// Resolves when `shutdown` does, or when the service cannot continue.
    async fn serve_until(
        &mut self,
        shutdown: impl Future<Output = ()> + Send,
    ) -> Result<(), ServeError> {
        let tasks = &self.tasks;
        let ready = tell_ready(self.keepers.issuers(), self.manager.as_ref());
        tokio::select! {
            never = ready => match never {},
            errors = self.keepers.failed(LEASE_EXPECTED_WITHIN) => Err(report(tasks, errors).await),
            failure = tasks.failed() => Err(failure),
            stopped = catch_panic(shutdown) => match stopped {
                Ok(()) => Ok(()),
                Err(panic) => {
                    tasks.report_fatal(Task::StopSignal, format!("it panicked: {panic}"));
                    Err(tasks.failed().await)
                }
            },
        }
    }

    /// Drains, lets open requests end, and releases leases and numbers. If a keeper gave up, it
    /// does not wait for clients.
    async fn stop(self, ended: &Result<(), ServeError>) {
        let http = &self.config.http;
        if matches!(ended, Err(ServeError::Task { .. })) {
            self.state.fail();
        }
        self.state.drain();
        if let Some(manager) = &self.manager {
            manager.stopping();
        }
        drop(self.announcing);
        if let Err(ServeError::Keepers(_)) = ended {
            self.serving.end_within(Duration::ZERO).await;
            self.keepers.release(http.shutdown_timeout).await;
            self.store.close().await;
            return;
        }

        tokio::time::sleep(http.drain_delay).await;
        let deadline = Instant::now() + http.shutdown_timeout;
        self.tasks.stopping.send_replace(true);
        let for_release = self.config.store.timeout.min(http.shutdown_timeout / 3);
        let for_requests = http.shutdown_timeout - for_release;
        if !self.serving.end_within(for_requests).await {
            tracing::warn!(after = ?for_requests, "shutdown deadline reached, aborting open requests");
        }
        self.keepers.release(deadline.saturating_duration_since(Instant::now())).await;
        let _ = tokio::time::timeout_at(deadline, self.store.close()).await;
        drop(self.operations);
    }
}

/// Tells the service manager once every namespace issues IDs, as `/readyz` does, or after
/// [`READY_WITHIN`]. Never resolves.
async fn tell_ready(issuers: Vec<NamespaceIssuer>, manager: Option<&ServiceManager>) -> Infallible {
    if let Some(manager) = manager {
        let all_issue = join_all(issuers.iter().map(NamespaceIssuer::ready));
        let _ = tokio::time::timeout(READY_WITHIN, all_issue).await;
        manager.ready().await;
    }
    pending().await
}

/// Reads the file of a key. One on a dead network mount ends the start instead of hanging it.
async fn read<T: Send + 'static>(
    reads: &Reads,
    key: &'static str,
    read: impl FnOnce() -> T + Send + 'static,
) -> Result<T, ServeError> {
    reads.one(read).await.map_err(|reason| ServeError::NotRead { key, reason })
}

/// Starts a task that follows files, and reads them again at SIGHUP. Its only state is the stream
/// of signals, so it can be restarted.
fn follow<F>(
    tasks: &Supervisor,
    task: Task,
    read: impl Fn(Arc<Hangups>) -> F + Send + Sync + 'static,
) -> Result<Supervised, ServeError>
where
    F: Future<Output = ()> + Send,
{
    let hangups = Arc::new(Hangups::listen().map_err(ServeError::Hangup)?);
    Ok(tasks.restarted(task, move || read(Arc::clone(&hangups))))
}

/// Counts and logs the keepers' tasks that failed. The error of a keeper that gave up is only
/// returned: that needs another configuration, and is no defect.
async fn report(tasks: &Supervisor, errors: Vec<KeeperError>) -> ServeError {
    let mut has_failed = false;
    for error in &errors {
        if let KeeperError::TaskFailed { task, reason } = error {
            tasks.report_fatal((*task).into(), reason.clone());
            has_failed = true;
        }
    }
    if has_failed { tasks.failed().await } else { ServeError::Keepers(errors) }
}

/// Serves this state on this listener until `stop` becomes true, then lets open requests end.
/// Dropping the future ends every connection at once.
///
/// It serves [`router`](crate::server::router()), without keepers, TLS and the admin listener:
/// [`Service::run`](crate::server::Service::run) has those.
pub async fn serve(listener: TcpListener, state: Arc<AppState>, stop: watch::Receiver<bool>) {
    server(&state, Listener::Public, None).run(listener, stop).await;
}

/// Returns the server of a listener, with TLS if `tls` has a configuration.
fn server(state: &Arc<AppState>, listener: Listener, tls: Option<Arc<Tls>>) -> Server {
    let (max_connections, per_address, metrics) = match listener {
        Listener::Public => {
            let metrics = state.metrics.http.connections.clone();
            (state.max_connections, PerAddress::new(&state.http), metrics)
        }
        // In a registry that nothing exports: only the connections of clients are metrics.
        Listener::Operators => {
            (SPARE_PLACES, PerAddress::default(), Connections::new(&Registry::new()))
        }
    };
    Server {
        router: of_listener(state, listener),
        tls,
        max_connections,
        per_address: per_address.into(),
        idle_timeout: state.http.idle_timeout,
        unsent_budget: state.unsent_budget.clone(),
        head_budget: state.head_budget.clone(),
        draining: state.draining.subscribe(),
        metrics,
    }
}

/// Why the service could not start, or why it stopped without a signal.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServeError {
    /// Keepers gave up: with this configuration and store, no retry gets them a lease or a block.
    #[error("{}", in_lines(.0))]
    Keepers(Vec<KeeperError>),
    /// The tokens of `auth.tokens_file` cannot be used.
    #[error("{0}")]
    Tokens(ConfigError),
    /// The certificates of `http.tls` cannot be used.
    #[error("{0}")]
    Tls(TlsError),
    /// The file of `store.state_file` cannot be used.
    #[error("{0}")]
    StateFile(StateFileError),
    /// Reading a file took too long, for example on a dead network mount.
    #[error("the file of {key}: {reason}")]
    NotRead {
        /// The key that names it.
        key: &'static str,
        /// Why it was not read.
        reason: String,
    },
    /// The process cannot listen to SIGHUP, the signal that reloads files.
    #[error("SIGHUP cannot be listened to")]
    Hangup(#[source] std::io::Error),
    /// The listener cannot be used.
    #[error("the listener cannot be used")]
    Listener(#[source] std::io::Error),
    /// A background task that cannot be restarted failed. The service has a defect; restart the
    /// process.
    #[error("the background task {task} failed: {reason}")]
    Task {
        /// Its name, as in the label `task` of `raindrop_task_failures_total`.
        task: &'static str,
        /// How it failed.
        reason: String,
    },
}

fn in_lines(errors: &[KeeperError]) -> String {
    // A fault of the store is an error of every keeper; equal texts are shown once.
    let lines: BTreeSet<String> = errors.iter().map(|error| with_sources(error)).collect();
    Vec::from_iter(lines).join("\n")
}
